"""Flags of a process that serves requests over HTTP: where it listens, and which callers it accepts."""

from __future__ import annotations

from moorage.adapters.certificates import Callers
from moorage.app.lifetime import StartError
from moorage.core.values import dataclass
from moorage.wire.configuration.extending import split_address

CERTIFICATE_FLAGS = ("--tls-cert", "--tls-key")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """The flags that the extender and the webhook have in common."""

    kubeconfig: str | None = None
    listen: str | None = None
    """HOST:PORT; None: as configured."""
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca_file: str | None = None
    """The CAs that must have signed callers' client certificates; None: every caller is accepted."""
    client_names: tuple[str, ...] = ()
    """Common names that are accepted; empty: all that the CAs have signed."""

    @property
    def callers(self) -> Callers:
        """The callers that are accepted."""
        return Callers(self.client_ca_file is not None, frozenset(self.client_names))

    @property
    def certificate(self) -> tuple[str, str] | None:
        """The files of the certificate and its key; None without any."""
        return (self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None

    def check(self) -> None:
        """StartError if flags do not go together."""
        if bool(self.tls_cert) != bool(self.tls_key):
            given, missing = CERTIFICATE_FLAGS if self.tls_cert else CERTIFICATE_FLAGS[::-1]
            raise StartError(f"{given} needs {missing}: a certificate and its key go together; give both or none")
        if self.client_names and not self.client_ca_file:
            raise StartError("--client-name needs --client-ca-file: without it callers are not asked for a certificate")

    def address(self, configured: str, example: str) -> tuple[str, int]:
        """Where to listen; StartError if that is no address."""
        text = self.listen or configured
        where = split_address(text)
        if where is None:
            raise StartError(f"--listen {text}: not an address; write HOST:PORT, such as {example}")
        return where
