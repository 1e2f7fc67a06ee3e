"""The webhook's certificate: read from files, or made here together with an authority of its own.

Invariants: a certificate comes into use whole or not at all, so that no handshake ever meets one without its key;
handshakes that have begun end with the certificate they began with. What is made here lives in memory only, and the
authority's key is forgotten as soon as it has signed: nobody can sign another certificate with it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW = timedelta(hours=1)
"""Clocks of machines differ a little."""
BUNDLE_LIMIT = 50
"""Replicas that come and go leave authorities behind until these expire; more than so many are not kept."""
_COMMON_NAME_LIMIT = 64
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class CertificateError(Exception):
    """A certificate that cannot be used; the text is one line."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A serving certificate, its key, and the authority to trust it by; all PEM."""

    chain: bytes
    key: bytes
    authority: bytes
    """Empty where the authority is not ours to tell."""


def issue(names: Sequence[str], lifetime_s: float) -> Issued:
    """A new authority, and a serving certificate from it for these host names and addresses (EC P-256)."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # The names differ, so that a verifier with several authorities at hand takes the right one.
    title = f"moorage webhook {x509.random_serial_number():x}"[:_COMMON_NAME_LIMIT]
    issuer, subject = _name(title), _name(names[0])
    lifetime = timedelta(seconds=lifetime_s)
    public = authority_key.public_key()
    authority = (
        _builder(issuer, issuer, public, public, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_authority_usage(), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject, issuer, key.public_key(), public, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Issued(_pem(certificate), private, _pem(authority))


def read_files(cert_file: str, key_file: str) -> Issued:
    """The certificate and key of two PEM files; one that signed itself is its own authority."""
    contents: list[bytes] = []
    for file, flag in ((cert_file, "--tls-cert"), (key_file, "--tls-key")):
        try:
            contents.append(Path(file).read_bytes())
        except OSError as error:
            raise CertificateError(f"{flag} {file}: cannot be read ({error.strerror}); name a PEM file") from None
    chain, key = contents
    try:
        _load(_server_context(), chain, key)
        leaf = certificates_in(chain)[0]
    except (ssl.SSLError, OSError, ValueError, IndexError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise CertificateError(
            f"--tls-cert {cert_file}, --tls-key {key_file}: not a certificate and its unencrypted key "
            f"({reason}); give a pair of PEM files that belong together"
        ) from None
    return Issued(chain, key, _pem(leaf) if leaf.issuer == leaf.subject else b"")


class Serving:
    """The TLS side of the server; `use` changes the certificate of all handshakes from then on."""

    def __init__(self, issued: Issued) -> None:
        self.context = _server_context()
        self.issued = issued
        self.used_count = 0
        """How many certificates have been in use."""
        self.use(issued)

    @property
    def begins_s(self) -> float:
        """Since when the certificate is valid."""
        return certificates_in(self.issued.chain)[0].not_valid_before_utc.timestamp()

    @property
    def expires_s(self) -> float:
        """When the certificate ends."""
        return certificates_in(self.issued.chain)[0].not_valid_after_utc.timestamp()

    def use(self, issued: Issued) -> None:
        """Serve this certificate; it must have been made by `issue` or `read_files`, which have tried it."""
        _load(self.context, issued.chain, issued.key)
        self.issued = issued
        self.used_count += 1


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM text; what is none is passed over."""
    found = []
    for block in _CERTIFICATE.findall(pem):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except ValueError:
            continue
    return found


def merged_bundle(bundle: bytes, own: Iterable[bytes], now: datetime) -> bytes:
    """The bundle with our authorities in it, and without those that have expired. Others stay: replicas share it."""
    ours = {_pem(certificate): certificate for pem in own for certificate in certificates_in(pem)}
    others = {_pem(certificate): certificate for certificate in certificates_in(bundle)}
    alive = [pem for pem, certificate in others.items() if certificate.not_valid_after_utc > now and pem not in ours]
    alive.sort(key=lambda pem: others[pem].not_valid_before_utc)
    kept = set(alive[max(0, len(alive) + len(ours) - BUNDLE_LIMIT) :])
    # The order in which they stand does not matter to anybody, so it is left as it is.
    stay = [pem for pem in others if pem in kept or pem in ours]
    return b"".join([*stay, *(pem for pem in ours if pem not in others)])


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    with _as_file(key.rstrip() + b"\n" + chain) as path:
        # An encrypted key must be an error, not a question on the terminal.
        context.load_cert_chain(path, password="")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_LIMIT])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
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


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
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


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path from which the content can be read, because OpenSSL's loader takes nothing else."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
