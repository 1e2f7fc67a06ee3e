"""What every certificate that is made here has in common: keys (EC P-256), names, validity, and the way into OpenSSL.

Nothing is written to disk, so a read-only root file system is fine.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.core.values import dataclass

SKEW = timedelta(hours=1)
"""Clocks of machines differ a little."""
COMMON_NAME_LIMIT = 64


class CertificateError(Exception):
    """A certificate that cannot be used; the text is one line."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key; an RSA key would cost a hundred times as much."""
    return ec.generate_private_key(ec.SECP256R1())


def common_name(text: str) -> x509.Name:
    """A subject or issuer of this name, cut where the standard ends it."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:COMMON_NAME_LIMIT])])


def builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """A certificate from now on, without what it may be used for."""
    # The key identifiers are there because Python 3.13 refuses chains without them.
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def authority_builder(
    name: x509.Name, public: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    """An authority that signs itself, and certificates but no further authorities."""
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        builder(name, name, public, public, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )


def host_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    """The host names and addresses that a serving certificate is for."""
    return x509.SubjectAlternativeName([_general_name(name) for name in names])


def serving_builder(
    names: Sequence[str],
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """A serving certificate for these host names and addresses, the first of which is its name."""
    return (
        builder(common_name(names[0]), issuer, public, signer, lifetime)
        .add_extension(host_names(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def read_pem(flag: str, file: str) -> bytes:
    """The content of a file that a flag names."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CertificateError(f"{flag} {file}: cannot be read ({error.strerror}); name a PEM file") from None


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem_of(certificate: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PEM, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def server_context() -> ssl.SSLContext:
    """TLS for a server of ours, still without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def trust_clients(context: ssl.SSLContext, authorities: str, source: str) -> None:
    """Verify client certificates by these CAs (PEM) from now on. They are optional in TLS: see `Callers`."""
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError):
        raise CertificateError(f"{source}: not certificates; give a bundle of PEM certificates") from None
    context.verify_mode = ssl.CERT_OPTIONAL


@dataclass(frozen=True, slots=True)
class Callers:
    """Which callers are answered, where client certificates are verified (`trust_clients`).

    TLS admits callers without a certificate, as the kubelet's probes have none; request handlers check here.
    """

    certified: bool = False
    """Whether a certificate is required; otherwise every client that reaches the port is answered."""
    names: frozenset[str] = frozenset()
    """Common names that are accepted; empty: all that the authorities have signed."""

    def refusal(self, peer: Any) -> str:
        """Why a caller with this certificate (`peercert` of the connection) is refused; empty if it is not."""
        if not self.certified:
            return ""
        if not peer:
            return "a client certificate of --client-ca-file is needed"
        name = subject_name(peer)
        if self.names and name not in self.names:
            return f"client certificate {name!r} is not among the names of --client-name"
        return ""

    def knows(self, peer: Any) -> bool:
        """Whether the caller is authenticated."""
        return self.certified and not self.refusal(peer)


def subject_name(peer: Any) -> str:
    """The common name of a certificate as `getpeercert` gives it; empty if it has none."""
    pairs = [pair for part in peer.get("subject", ()) for pair in part]
    return next((value for key, value in pairs if key == "commonName"), "")


def load_chain(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Serve this certificate with its key from the next handshake on; both PEM."""
    with as_file(key.rstrip() + b"\n" + chain) as path:
        # An encrypted key must be an error, not a question on the terminal.
        context.load_cert_chain(path, password="")


def not_a_pair(cert: str, key: str, error: Exception) -> CertificateError:
    """What is said of two files (flag and path) that cannot be served."""
    reason = getattr(error, "reason", None) or "unreadable"
    return CertificateError(
        f"{cert}, {key}: not a certificate and its unencrypted key ({reason}); "
        "give a pair of PEM files that belong together"
    )


@contextmanager
def as_file(pem: bytes) -> Iterator[str]:
    """A path from which OpenSSL can read the text, as it takes nothing else: memory on Linux, else a private file."""
    in_memory = hasattr(os, "memfd_create") and Path("/proc/self/fd").exists()
    descriptor, name = (os.memfd_create("certificate"), "") if in_memory else tempfile.mkstemp(prefix="moorage-tls-")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(pem)
        yield name or f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
        if name:
            Path(name).unlink()
