"""TLS contexts from PEM text, without leaving a private key on any disk."""

from __future__ import annotations

import ssl

from moorage.adapters.certificates import as_file
from moorage.adapters.kube.errors import CredentialsError
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """PEM text; empty parts are absent. Without a CA the system's own are trusted."""

    ca: bytes
    certificate: bytes
    key: bytes
    insecure: bool


def make_context(material: TlsMaterial, source: str) -> ssl.SSLContext:
    """Build the client context. `source` names the kubeconfig in complaints."""
    try:
        cadata = material.ca.decode("ascii", "ignore") or None
        context = ssl.create_default_context(cadata=cadata)
    except (ssl.SSLError, ValueError) as failure:
        raise CredentialsError(f"{source}: certificate-authority: is not a PEM certificate; check it") from failure
    # Newer Pythons demand extensions that many clusters' own CAs lack; Go does not ask for them either.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if material.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate:
        try:
            with as_file(material.certificate + b"\n" + material.key) as name:
                # Without a password callback OpenSSL would ask on the terminal.
                context.load_cert_chain(name, password=lambda: "")
        except (ssl.SSLError, ValueError, OSError) as failure:
            remedy = "are not a PEM certificate and its unencrypted key; check that they belong together"
            raise CredentialsError(f"{source}: client-certificate, client-key: {remedy}") from failure
    return context
