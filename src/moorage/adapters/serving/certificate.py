"""The server's certificate: the operator's own, or one that it signs itself; and whose client certificates count.

A self-signed one lives in memory only. Nothing is written to disk, so a read-only root file system is fine.

Files are read again when their content changes (`Freshness`); connections that exist keep what they began with. A pair
that does not go together, as in the middle of a rotation, is left alone until it does. Authorities are only ever
added: one that clients are no longer to come with is trusted until the process starts anew.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
SKEW = timedelta(hours=1)
"""Clocks of machines differ a little."""
COMMON_NAME_LIMIT = 64


class CertificateError(Exception):
    """A certificate that cannot be used; the text is one line."""


def file_context(
    cert_file: str, key_file: str, flags: tuple[str, str] = ("--tls-cert-file", "--tls-private-key-file")
) -> ssl.SSLContext:
    """TLS with the certificate and the key of these files (PEM); `flags` is what messages call them."""
    for file, flag in zip((cert_file, key_file), flags, strict=True):
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise CertificateError(f"{flag} {file}: cannot be read ({error.strerror}); name a PEM file") from None
    context = _context()
    try:
        # An encrypted key must be an error, not a question on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise CertificateError(
            f"{flags[0]} {cert_file}, {flags[1]} {key_file}: not a certificate and its unencrypted "
            f"key ({reason}); give a pair of PEM files that belong together"
        ) from None
    return context


class Freshness:
    """Keeps a context up to date with files; whoever owns it calls `look` from time to time."""

    def __init__(
        self, context: ssl.SSLContext, cert_file: str | None, key_file: str | None, ca_file: str | None
    ) -> None:
        self._context = context
        self._pair = (cert_file, key_file) if cert_file and key_file else None
        self._ca_file = ca_file
        self._seen = self._contents()
        self._authorities = ""
        if ca_file:
            self.trust(_text_of(ca_file), f"--client-ca-file {ca_file}")

    def look(self) -> bool:
        """Take over what has changed; whether something has. `CertificateError` if it cannot be used."""
        found = self._contents()
        if found == self._seen:
            return False
        self._seen = found
        if self._pair is not None:
            file_context(*self._pair)  # finds faults before the context that is in use could be harmed
            self._context.load_cert_chain(*self._pair, password="")
        if self._ca_file:
            self.trust(_text_of(self._ca_file), f"--client-ca-file {self._ca_file}")
        return True

    def trust(self, authorities: str, source: str) -> None:
        """Accept client certificates of these authorities (PEM) from now on; nobody has to have one."""
        if not authorities.strip() or authorities == self._authorities:
            return
        try:
            self._context.load_verify_locations(cadata=authorities)
        except (ssl.SSLError, ValueError):
            raise CertificateError(f"{source}: not certificates; give a bundle of PEM certificates") from None
        self._authorities = authorities
        self._context.verify_mode = ssl.CERT_OPTIONAL

    def _contents(self) -> list[bytes | None]:
        return [_bytes_of(file) for file in (*(self._pair or ()), self._ca_file) if file]


def _bytes_of(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


def _text_of(ca_file: str) -> str:
    try:
        return Path(ca_file).read_text("ascii", errors="replace")
    except OSError as error:
        text = f"--client-ca-file {ca_file}: cannot be read ({error.strerror}); name a PEM file"
        raise CertificateError(text) from None


def self_signed_context(bind_address: str) -> ssl.SSLContext:
    """TLS with a new certificate for this machine's names and, unless it means all of them, the address."""
    address = ipaddress.ip_address(bind_address)
    names = [socket.gethostname(), "localhost", "127.0.0.1", "::1"]
    if not address.is_unspecified:
        names.append(str(address))
    context = _context()
    with _as_file(self_signed(list(dict.fromkeys(names)))) as path:
        context.load_cert_chain(path)
    return context


def self_signed(names: Sequence[str]) -> bytes:
    """A new key (EC P-256) and a certificate for these host names and addresses, both PEM, one after the other."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:COMMON_NAME_LIMIT])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


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
