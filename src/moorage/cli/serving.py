"""The flags of the HTTPS port of a scheduler, with the names that kube-scheduler gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import Function
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.adapters.serving.server import ServingOptions

SECURE_PORT = 10259
ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
HIGHEST_PORT = 65535
TLS_VERSIONS = {f"VersionTLS1{minor}": f"TLSv1_{max(2, minor)}" for minor in range(4)}
"""What --tls-min-version accepts -> the oldest version that is then served; 1.0 and 1.1 never are."""
OLDEST_TLS = "VersionTLS12"


class _Port(click.ParamType[int]):
    """A port number in ASCII digits; 0 stands for none."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= HIGHEST_PORT):
            self.fail(f"{text!r} is not a port; write 1 to {HIGHEST_PORT}, or 0 to serve nothing", param, ctx)
        return int(text)


class _Paths(click.ParamType[tuple[str, ...]]):
    """Paths of URLs, with commas between them; a star at the end stands for everything below."""

    name = "paths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        paths = tuple(part.strip() for part in str(value).split(",") if part.strip())
        for path in paths:
            if not path.startswith("/") or "*" in path[:-1]:
                self.fail(f"{path!r} is not a path; write /metrics, or /metrics/* for what is below it", param, ctx)
        return paths


_OPTIONS = (
    click.option(
        "--secure-port",
        type=_Port(),
        metavar="PORT",
        default=SECURE_PORT,
        show_default=True,
        help="HTTPS port of health, /metrics, /configz, /statusz and /flagz; 0 turns serving off.",
    ),
    click.option(
        "--bind-address",
        metavar="ADDRESS",
        default="0.0.0.0",  # noqa: S104 - as kube-scheduler; only health is open
        show_default=True,
        help="IP address to serve on.",
    ),
    click.option(
        "--tls-cert-file",
        metavar="FILE",
        default=None,
        help="TLS certificate, read again when it changes; self-signed without it.",
    ),
    click.option("--tls-private-key-file", metavar="FILE", default=None, help="The certificate's private key."),
    click.option(
        "--client-ca-file",
        metavar="FILE",
        default=None,
        help="CAs of accepted client certificates; those of the API server without it.",
    ),
    click.option(
        "--authentication-kubeconfig",
        metavar="FILE",
        default=None,
        help="Credentials for token reviews of readers of metrics; the scheduler's own without it.",
    ),
    click.option(
        "--authorization-kubeconfig",
        metavar="FILE",
        default=None,
        help="Credentials for access reviews of readers of metrics; the scheduler's own without it.",
    ),
    click.option(
        "--authorization-always-allow-paths",
        type=_Paths(),
        metavar="PATH,PATH",
        default=",".join(ALWAYS_ALLOWED),
        show_default=True,
        help="Paths that need no authorization; add /metrics to open it without authentication.",
    ),
)


def serving_options(command: Function) -> Function:
    """Add the flags; their values are the fields of `ServingFlags`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class ServingFlags:
    """What the flags say."""

    secure_port: int
    bind_address: str
    tls_cert_file: str | None
    tls_private_key_file: str | None
    client_ca_file: str | None
    authentication_kubeconfig: str | None
    authorization_kubeconfig: str | None
    authorization_always_allow_paths: tuple[str, ...]
    authentication_skip_lookup: bool = False
    tls_min_version: str = OLDEST_TLS

    @property
    def endpoint(self) -> ServingOptions | None:
        """Where to listen; None: nowhere."""
        import ssl  # noqa: PLC0415 - slow to import

        from moorage.adapters.serving.server import ServingOptions  # noqa: PLC0415

        if not self.secure_port:
            return None
        return ServingOptions(
            self.bind_address,
            self.secure_port,
            self.tls_cert_file,
            self.tls_private_key_file,
            self.client_ca_file,
            self.authorization_always_allow_paths,
            looks_up_authority=not self.authentication_skip_lookup,
            oldest_tls=ssl.TLSVersion[TLS_VERSIONS[self.tls_min_version]],
        )
