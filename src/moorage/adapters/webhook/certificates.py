"""The webhook's certificate: read from files, or made here together with an authority of its own.

Invariants: a certificate comes into use whole or not at all, so that no handshake ever meets one without its key;
handshakes that have begun end with the certificate they began with. What is made here lives in memory only, and the
authority's key is discarded as soon as it has signed: it cannot sign another certificate.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from moorage.adapters.certificates import (
    authority_builder,
    common_name,
    load_chain,
    new_key,
    not_a_pair,
    pem_of,
    private_pem,
    read_pem,
    server_context,
    serving_builder,
)
from moorage.core.values import dataclass

BUNDLE_LIMIT = 50
"""Replicas that come and go leave authorities behind until these expire; more than so many are not kept."""
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Issued:
    """A serving certificate, its key, and the authority to trust it by; all PEM."""

    chain: bytes
    key: bytes
    authority: bytes
    """Empty where the authority is not ours to tell."""


def issue(names: Sequence[str], lifetime_s: float) -> Issued:
    """A new authority, and a serving certificate from it for these host names and addresses (EC P-256)."""
    authority_key, key = new_key(), new_key()
    # The names differ, so that a verifier with several authorities at hand takes the right one.
    issuer = common_name(f"moorage webhook {x509.random_serial_number():x}")
    lifetime = timedelta(seconds=lifetime_s)
    public = authority_key.public_key()
    authority = authority_builder(issuer, public, lifetime).sign(authority_key, hashes.SHA256())
    certificate = serving_builder(names, issuer, key.public_key(), public, lifetime).sign(
        authority_key, hashes.SHA256()
    )
    return Issued(pem_of(certificate), private_pem(key), pem_of(authority))


def read_files(cert_file: str, key_file: str) -> Issued:
    """The certificate and key of two PEM files; one that signed itself is its own authority."""
    chain, key = read_pem("--tls-cert", cert_file), read_pem("--tls-key", key_file)
    try:
        load_chain(server_context(), chain, key)
        leaf = certificates_in(chain)[0]
    except (ssl.SSLError, OSError, ValueError, IndexError) as error:
        raise not_a_pair(f"--tls-cert {cert_file}", f"--tls-key {key_file}", error) from None
    return Issued(chain, key, pem_of(leaf) if leaf.issuer == leaf.subject else b"")


class Serving:
    """The TLS side of the server; `use` changes the certificate of all handshakes from then on."""

    def __init__(self, issued: Issued) -> None:
        self.context = server_context()
        self.issued = issued
        self.use(issued)

    @property
    def expires_s(self) -> float:
        """When the certificate ends."""
        return certificates_in(self.issued.chain)[0].not_valid_after_utc.timestamp()

    def use(self, issued: Issued) -> None:
        """Serve this certificate; it must have been made by `issue` or `read_files`, which have tried it."""
        load_chain(self.context, issued.chain, issued.key)
        self.issued = issued


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
    ours = {pem_of(certificate): certificate for pem in own for certificate in certificates_in(pem)}
    others = {pem_of(certificate): certificate for certificate in certificates_in(bundle)}
    alive = [pem for pem, certificate in others.items() if certificate.not_valid_after_utc > now and pem not in ours]
    alive.sort(key=lambda pem: others[pem].not_valid_before_utc)
    kept = set(alive[max(0, len(alive) + len(ours) - BUNDLE_LIMIT) :])
    # Their order does not matter, so it is left as it is.
    stay = [pem for pem in others if pem in kept or pem in ours]
    return b"".join([*stay, *(pem for pem in ours if pem not in others)])
