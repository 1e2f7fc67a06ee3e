"""The webhook with certificates as cert-manager makes them.

cert-manager itself is not run: a stand-in reads the Certificates that the chart installs, writes their Secrets as
cert-manager does, and puts the authority into the registration as its cainjector does. The API server is real and calls
the webhook under the name of its Service.
"""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.adapters.webhook.certificates import read_files
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.webhook_process import REGISTRATIONS, Running, bare_pod, webhook_at
from tests.deploy.chart import (
    NAMESPACE,
    RELEASE,
    Document,
    account_kubeconfig,
    add_kinds,
    installed_configuration,
    released,
)
from tests.patience import eventually

pytestmark = pytest.mark.xdist_group("chart")

VALUES = ("scheduler.enabled=false", "webhook.enabled=true", "webhook.certManager.enabled=true")
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates"
REGISTRATION = f"{REGISTRATIONS}/{RELEASE}-webhook"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


KEYS: Mapping[str, Callable[[], Key]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "ECDSA": lambda: ec.generate_private_key(ec.SECP384R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def key_pem(key: Key, encoding: str = "PKCS1") -> bytes:
    """As cert-manager encodes it; PKCS1 stands for the traditional form of every algorithm that has one."""
    traditional = encoding == "PKCS1" and not isinstance(key, ed25519.Ed25519PrivateKey)
    form = serialization.PrivateFormat.TraditionalOpenSSL if traditional else serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class Authority:
    """An issuer: its certificate and key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def named(spec: Document) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])])


def signed(spec: Document, key: Key, issuer: Authority | None) -> x509.Certificate:
    """What a Certificate asks for, by an issuer or by itself."""
    now = datetime.now(UTC)
    hours = int(spec["duration"].removesuffix("h"))
    by = named(spec) if issuer is None else issuer.certificate.subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(spec))
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=hours))
        .add_extension(x509.BasicConstraints(ca=spec.get("isCA", False), path_length=None), critical=True)
    )
    if names := spec.get("dnsNames"):
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    signer = key if issuer is None else issuer.key
    return builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())


class CertManager:
    """Issues what the chart's Certificates ask for, and injects the authority."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._root: Authority | None = None

    def renew_root(self) -> None:
        """The authority, which signs itself; certificates that it has signed stay as they are."""
        certificate = self._certificate(f"{RELEASE}-webhook-root")
        key = ec.generate_private_key(ec.SECP256R1())
        self._root = Authority(signed(certificate["spec"], key, None), key)
        own = pem(self._root.certificate)
        self._write(certificate, {"tls.crt": own, "tls.key": key_pem(key), "ca.crt": own})

    def renew(self) -> x509.Certificate:
        """The webhook's certificate: with another key, as the Certificate asks, and by the authority of now."""
        assert self._root is not None
        certificate = self._certificate(f"{RELEASE}-webhook")
        assert certificate["spec"]["privateKey"] == {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = signed(certificate["spec"], key, self._root)
        authority = pem(self._root.certificate)
        self._write(certificate, {"tls.crt": pem(leaf), "tls.key": key_pem(key), "ca.crt": authority})
        self._inject(authority)
        return leaf

    def _certificate(self, name: str) -> Document:
        found: Document = self._plane.request("GET", f"{CERTIFICATES}/{name}").json()
        return found

    def _write(self, certificate: Document, data: dict[str, bytes]) -> None:
        spec, issuer = certificate["spec"], certificate["spec"]["issuerRef"]
        prefix = "cert-manager.io"
        annotations = {
            f"{prefix}/certificate-name": certificate["metadata"]["name"],
            f"{prefix}/common-name": spec["commonName"],
            f"{prefix}/alt-names": ",".join(spec.get("dnsNames", [])),
            f"{prefix}/ip-sans": "",
            f"{prefix}/uri-sans": "",
            f"{prefix}/issuer-name": issuer["name"],
            f"{prefix}/issuer-kind": issuer["kind"],
            f"{prefix}/issuer-group": prefix,
        }
        labels = {"controller.cert-manager.io/fao": "true"}
        body = {
            "metadata": {"name": spec["secretName"], "annotations": annotations, "labels": labels},
            "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
        }
        answer = self._plane.request("PUT", f"{SECRETS}/{spec['secretName']}", body)
        if answer.status == 404:
            answer = self._plane.request("POST", SECRETS, body)
        assert answer.status in {200, 201}, answer.content

    def _inject(self, authority: bytes) -> None:
        registration = self._plane.request("GET", REGISTRATION).json()
        assert registration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == (
            f"{NAMESPACE}/{RELEASE}-webhook"
        )
        for webhook in registration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
        answer = self._plane.request("PUT", REGISTRATION, registration)
        assert answer.status == 200, answer.content


def mount(plane: ControlPlane, folder: Path) -> None:
    """The Secret as files, as a kubelet does it: all of them change at once."""
    data = plane.request("GET", f"{SECRETS}/{RELEASE}-webhook-tls").json()["data"]
    fresh = folder / f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S.%f}"
    fresh.mkdir(parents=True)
    for name, content in data.items():
        (fresh / name).write_bytes(base64.b64decode(content))
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").replace(folder / "..data")


@dataclass(frozen=True, slots=True)
class Site:
    """A release whose webhook runs."""

    plane: ControlPlane
    manager: CertManager
    tls: Path
    webhook: Running

    def served(self) -> int:
        """The serial number of the certificate in use, if the registration's authority is the one to trust."""
        bundle = self.plane.request("GET", REGISTRATION).json()["webhooks"][0]["clientConfig"]["caBundle"]
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        with (
            socket.create_connection(("127.0.0.1", self.webhook.port), 5) as plain,
            context.wrap_socket(plain, server_hostname=f"{RELEASE}-webhook.{NAMESPACE}.svc") as secure,
        ):
            found = secure.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)

    def steers(self) -> bool:
        """Whether a new pod gets its place from the webhook; without it, the pod is admitted as it is."""
        answer = self.plane.request("POST", PODS, bare_pod())
        assert answer.status == 201, answer.content
        return answer.json()["spec"].get("affinity") is not None or "nodeSelector" in answer.json()["spec"]


@pytest.fixture(scope="module")
def plane(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    """A cluster that has cert-manager's kinds."""
    with ControlPlane.start() as started:
        add_kinds(started)
        yield started


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """The webhook on its first certificate. Its Service leads to this machine."""
    (port,) = free_ports(1)
    with released(plane, *VALUES):
        service = f"/api/v1/namespaces/{NAMESPACE}/services/{RELEASE}-webhook"
        spec = {
            "type": "ExternalName",
            "externalName": "localhost",
            "clusterIP": None,
            "clusterIPs": None,
            "ports": None,
        }
        answer = plane.request("PATCH", service, {"spec": spec})
        assert answer.status == 200, answer.content
        registration = plane.request("GET", REGISTRATION).json()
        registration["webhooks"][0]["clientConfig"]["service"]["port"] = port
        assert plane.request("PUT", REGISTRATION, registration).status == 200
        manager = CertManager(plane)
        manager.renew_root()
        manager.renew()
        tls = tmp_path / "tls"
        mount(plane, tls)
        given = account_kubeconfig(plane, tmp_path, "webhook"), installed_configuration(plane, tmp_path)
        files = ("--tls-cert", str(tls / "tls.crt"), "--tls-key", str(tls / "tls.key"))
        with webhook_at(tmp_path, *given, *files, port=port) as running:
            yield Site(plane, manager, tls, running)


def test_the_api_server_trusts_the_webhook_across_renewals(site: Site) -> None:
    """Another key and certificate of the same authority, while pods are made; then another authority."""
    eventually(site.steers, 30, site.webhook.log.read_text)
    for _ in range(2):
        leaf = site.manager.renew()
        # The Secret has changed and the files have not: the old certificate is trusted, as its authority is the same.
        assert site.steers()
        mount(site.plane, site.tls)
        while site.served() != leaf.serial_number:
            assert site.steers(), site.webhook.log.read_text()
        assert site.steers()
    site.manager.renew_root()
    assert site.steers(), "the webhook's certificate is still of the old authority, and so is the registration"
    leaf = site.manager.renew()
    mount(site.plane, site.tls)
    eventually(site.steers, 30, site.webhook.log.read_text)
    assert site.served() == leaf.serial_number
    assert site.webhook.metric("moorage_webhook_certificate_expiry_timestamp_seconds") == pytest.approx(
        leaf.not_valid_after_utc.timestamp()
    )


@pytest.mark.parametrize("encoding", ["PKCS1", "PKCS8"])
@pytest.mark.parametrize("algorithm", KEYS)
def test_every_key_that_cert_manager_makes_is_read(tmp_path: Path, algorithm: str, encoding: str) -> None:
    """In each of its encodings, with the certificates of intermediate authorities behind that of the webhook."""
    key = KEYS[algorithm]()
    signer = ec.generate_private_key(ec.SECP256R1())
    root = Authority(signed({"commonName": "root", "isCA": True, "duration": "10h"}, signer, None), signer)
    between_key = ec.generate_private_key(ec.SECP256R1())
    between = Authority(
        signed({"commonName": "between", "isCA": True, "duration": "10h"}, between_key, root), between_key
    )
    leaf = signed({"commonName": "webhook", "dnsNames": ["webhook"], "duration": "1h"}, key, between)
    chain = pem(leaf) + pem(between.certificate)
    (tmp_path / "tls.crt").write_bytes(chain)
    (tmp_path / "tls.key").write_bytes(key_pem(key, encoding))
    issued = read_files(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    assert (issued.chain, issued.authority) == (chain, b"")
