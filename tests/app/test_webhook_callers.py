"""Who may ask the webhook: with `--client-ca-file` the API server, by its client certificate, and nobody else."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
import yaml

from moorage.app.lifetime import StartError
from moorage.app.webhook import WebhookOptions, run_webhook
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.framework.configuration import Configuration
from tests.app.webhook_process import bare_pod, review, webhook
from tests.controlplane_fixtures import PlaneFactory

PODS = "/api/v1/namespaces/default/pods"
STAMP = "moorage.dev/strategy-rule"
API_SERVER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class Identity:
    """A client certificate in files."""

    certificate: Path
    key: Path


def identity(authority: trustme.CA, name: str, folder: Path) -> Identity:
    issued = authority.issue_cert(f"{name}.example", common_name=name)
    found = Identity(folder / f"{name}.crt", folder / f"{name}.key")
    issued.cert_chain_pems[0].write_to_path(str(found.certificate))
    issued.private_key_pem.write_to_path(str(found.key))
    return found


def admission_config(folder: Path, port: int, client: Identity) -> Path:
    """The file by which an API server comes with a client certificate to one webhook."""
    user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": f"127.0.0.1:{port}", "user": user}]}
    (folder / "webhooks.kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    group = "apiserver.config.k8s.io/v1"
    inner = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration"}
    plugin = {
        "name": "MutatingAdmissionWebhook",
        "configuration": {**inner, "kubeConfigFile": str(folder / "webhooks.kubeconfig")},
    }
    file = folder / "admission.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": [plugin]}))
    return file


@dataclass(frozen=True, slots=True)
class Guarded:
    """An API server that comes with a certificate, and what is needed to ask as others."""

    plane: ControlPlane
    port: int
    authority: trustme.CA
    ca_file: Path
    folder: Path


@pytest.fixture
def guarded(fresh_control_plane: PlaneFactory, tmp_path: Path) -> Guarded:
    authority = trustme.CA()
    ca_file = tmp_path / "clients.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    (port,) = free_ports(1)
    config = admission_config(tmp_path, port, identity(authority, API_SERVER, tmp_path))
    plane = fresh_control_plane(apiserver_args=(f"--admission-control-config-file={config}",))
    return Guarded(plane, port, authority, ca_file, tmp_path)


def asked(port: int, client: Identity | None) -> tuple[int, str]:
    """What a caller that comes with this certificate is told; 0 if TLS ends it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        tls.load_cert_chain(client.certificate, client.key)
    body = json.dumps(review(bare_pod())).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{port}/mutate", body, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""


def test_only_the_api_server_is_answered(guarded: Guarded) -> None:
    """Its pods are placed; callers without a certificate, with another authority's or another name are not heard."""
    flags = ("--client-ca-file", str(guarded.ca_file), "--client-name", API_SERVER)
    with webhook(guarded.plane, guarded.folder / "webhook", *flags, port=guarded.port) as running:
        made = guarded.plane.request("POST", PODS, bare_pod()).json()
        assert made["metadata"]["annotations"][STAMP] == "1"
        assert made["spec"]["nodeSelector"] == {"node-type": "ondemand"}
        status, text = asked(guarded.port, None)
        assert (status, text) == (403, "POST /mutate: a client certificate of --client-ca-file is needed\n")
        status, text = asked(guarded.port, identity(guarded.authority, "tenant", guarded.folder))
        assert status == 403
        assert "'tenant' is not among the names" in text
        assert asked(guarded.port, identity(trustme.CA(), "stranger", guarded.folder))[0] == 0
        assert asked(guarded.port, identity(guarded.authority, API_SERVER, guarded.folder))[0] == 200
        assert running.metric("smart_scheduler_pods_placed_total") == 2


def test_a_name_needs_an_authority() -> None:
    """Names count in certificates only."""
    with pytest.raises(StartError, match="--client-name needs --client-ca-file"):
        run_webhook(Configuration(), WebhookOptions(client_names=(API_SERVER,)))
