"""The server's certificate, from files or self-signed, and the CAs of accepted client certificates.

A self-signed one is kept in memory only. Nothing is written to disk, so a read-only root file system is fine.

Files are read again when their content changes (`Freshness`); connections that exist keep what they began with. A
certificate that does not match its key, as in the middle of a rotation, is not used. CAs are only ever added: one that
was removed stays trusted until the process restarts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import structlog
from cryptography.hazmat.primitives import hashes

from moorage.adapters.certificates import (
    CertificateError,
    common_name,
    load_chain,
    new_key,
    not_a_pair,
    pem_of,
    private_pem,
    read_pem,
    server_context,
    serving_builder,
    trust_clients,
)

VALID = timedelta(days=365)

log = structlog.get_logger()


def file_context(
    cert_file: str, key_file: str, flags: tuple[str, str] = ("--tls-cert-file", "--tls-private-key-file")
) -> ssl.SSLContext:
    """TLS with the certificate and the key of these files (PEM); `flags` is what messages call them."""
    for file, flag in zip((cert_file, key_file), flags, strict=True):
        read_pem(flag, file)
    context = server_context()
    try:
        # An encrypted key must be an error, not a question on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise not_a_pair(f"{flags[0]} {cert_file}", f"{flags[1]} {key_file}", error) from None
    return context


class Freshness:
    """Keeps a context up to date with files; its owner calls `look` from time to time."""

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
        """Accept client certificates of these CAs (PEM) from now on; they are optional."""
        if not authorities.strip() or authorities == self._authorities:
            return
        trust_clients(self._context, authorities, source)
        self._authorities = authorities

    def _contents(self) -> list[bytes | None]:
        return [_bytes_of(file) for file in (*(self._pair or ()), self._ca_file) if file]


async def keep_fresh(freshness: Freshness, every_s: float) -> None:
    """Look at the files until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        try:
            if freshness.look():
                log.info("certificate was read again")
        except CertificateError as error:
            log.warning("certificate cannot be used, the one before stays in use", why=str(error))


def _bytes_of(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


def _text_of(ca_file: str) -> str:
    return read_pem("--client-ca-file", ca_file).decode("ascii", errors="replace")


def self_signed_context(bind_address: str) -> ssl.SSLContext:
    """TLS with a new certificate for this machine's names and, unless it means all of them, the address."""
    address = ipaddress.ip_address(bind_address)
    names = [socket.gethostname(), "localhost", "127.0.0.1", "::1"]
    if not address.is_unspecified:
        names.append(str(address))
    context = server_context()
    key, chain = self_signed(list(dict.fromkeys(names)))
    load_chain(context, chain, key)
    return context


def self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    """A new key and a certificate for these host names and addresses, both PEM."""
    key = new_key()
    public = key.public_key()
    certificate = serving_builder(names, common_name(names[0]), public, public, VALID).sign(key, hashes.SHA256())
    return private_pem(key), pem_of(certificate)
