"""What the command line says of a process that others ask over HTTP: where it listens, and whom it hears."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.adapters.certificates import Callers
from moorage.app.lifetime import StartError
from moorage.wire.configuration.extending import split_address

CERTIFICATE_FLAGS = ("--tls-cert", "--tls-key")


@dataclass(frozen=True, slots=True)
class AskedOptions:
    """The flags that the extender and the webhook have in common."""

    kubeconfig: str | None = None
    listen: str | None = None
    """HOST:PORT; None: as configured."""
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca_file: str | None = None
    """The authorities whose client certificates callers must have; None: every caller is heard."""
    client_names: tuple[str, ...] = ()
    """Common names that are heard; none: all that the authorities have signed."""

    @property
    def callers(self) -> Callers:
        """Whose questions count."""
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
            raise StartError("--client-name needs --client-ca-file: without it nobody is asked for a certificate")

    def address(self, configured: str, example: str) -> tuple[str, int]:
        """Where to listen; StartError if that is no address."""
        text = self.listen or configured
        where = split_address(text)
        if where is None:
            raise StartError(f"--listen {text}: not an address; write HOST:PORT, such as {example}")
        return where
