"""The keys of a throw-away control plane: one authority, the API server's certificate, clients', and the token key.

Everything is EC P-256: making an RSA key would cost more than all the rest of the start-up's own work.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.adapters.certificates import (
    authority_builder,
    builder,
    common_name,
    host_names,
    new_key,
    pem_of,
    private_pem,
)
from moorage.core.values import dataclass

VALID = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and what makes it useful to others, both PEM: a certificate, or the bare public key."""

    key_pem: bytes
    public_pem: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that lives as long as the control plane."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls) -> Self:
        """Make a new authority."""
        key = new_key()
        unsigned = authority_builder(common_name("moorage test authority"), key.public_key(), VALID)
        return cls(unsigned.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return pem_of(self.certificate)

    def server(self, hosts: Sequence[str]) -> KeyPair:
        """Make a serving certificate for host names and addresses."""
        return self._issue(common_name(hosts[0]), ExtendedKeyUsageOID.SERVER_AUTH, host_names(hosts))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Make a client certificate that the API server takes for this user in these groups."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = new_key()
        unsigned = builder(subject, self.certificate.subject, key.public_key(), self._key.public_key(), VALID)
        unsigned = unsigned.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            unsigned = unsigned.add_extension(names, critical=False)
        return KeyPair(private_pem(key), pem_of(unsigned.sign(self._key, hashes.SHA256())))


def token_key() -> KeyPair:
    """Make the pair with which service account tokens are signed and verified."""
    key = new_key()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(private_pem(key), public)
