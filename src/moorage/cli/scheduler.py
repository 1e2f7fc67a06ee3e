"""`moorage scheduler`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from moorage.cli.options import boolean_option, common_options, config_option, flags_of, kubeconfig_option, session_of
from moorage.cli.sizes import Size

SECURE_PORT = 10259
ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
HIGHEST_PORT = 65535


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


@click.command()
@config_option
@kubeconfig_option
@click.option(
    "--secure-port",
    type=_Port(),
    metavar="PORT",
    default=SECURE_PORT,
    show_default=True,
    help="HTTPS port of health, /metrics, /configz, /statusz and /flagz; 0 turns serving off.",
)
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    default="0.0.0.0",  # noqa: S104 - as kube-scheduler; only health is open
    show_default=True,
    help="IP address to serve on.",
)
@click.option(
    "--tls-cert-file",
    metavar="FILE",
    default=None,
    help="TLS certificate, read again when it changes; self-signed without it.",
)
@click.option("--tls-private-key-file", metavar="FILE", default=None, help="The certificate's private key.")
@click.option(
    "--client-ca-file",
    metavar="FILE",
    default=None,
    help="CAs of accepted client certificates; those of the API server without it.",
)
@click.option(
    "--authentication-kubeconfig",
    metavar="FILE",
    default=None,
    help="Credentials for token reviews of readers of metrics; the scheduler's own without it.",
)
@click.option(
    "--authorization-kubeconfig",
    metavar="FILE",
    default=None,
    help="Credentials for access reviews of readers of metrics; the scheduler's own without it.",
)
@click.option(
    "--authorization-always-allow-paths",
    type=_Paths(),
    metavar="PATH,PATH",
    default=",".join(ALWAYS_ALLOWED),
    show_default=True,
    help="Paths that need no authorization; add /metrics to open it without authentication.",
)
@boolean_option("--leader-elect", text="Take part in leader election; overrides the configuration.")
@click.option("--dry-run", is_flag=True, help="Decide and log, but write nothing to the cluster.")
@click.option(
    "--journal",
    metavar="DIR",
    default=None,
    help="Record every event and decision in this directory; `moorage replay` repeats them.",
)
@click.option(
    "--journal-size",
    type=Size(),
    metavar="SIZE",
    default="1Gi",
    show_default=True,
    help="Maximum size of the journal, at least 8Mi; the oldest part is dropped.",
)
@click.option(
    "--check-invariants",
    is_flag=True,
    help="Recount between turns what the scheduler knows, and end if that is wrong; costs a tenth of the time.",
)
@common_options
@click.pass_context
def command(
    context: click.Context,
    config_file: str | None,
    kubeconfig: str | None,
    secure_port: int,
    bind_address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    authentication_kubeconfig: str | None,
    authorization_kubeconfig: str | None,
    authorization_always_allow_paths: tuple[str, ...],
    leader_elect: bool | None,
    dry_run: bool,
    journal: str | None,
    journal_size: int,
    check_invariants: bool,
) -> None:
    """Place the pods of a live cluster whose schedulerName is one of the profiles."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import

    from moorage.adapters.serving.server import ServingOptions  # noqa: PLC0415
    from moorage.adapters.serving.zpages import Component  # noqa: PLC0415
    from moorage.app.journal import JournalOptions  # noqa: PLC0415
    from moorage.app.scheduler import SchedulerOptions, run_scheduler  # noqa: PLC0415
    from moorage.cli.election import with_flag  # noqa: PLC0415
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415

    session = session_of(context)
    configure_logs(session)
    reading = load_reading(config_file, asks_extenders=True)
    configuration = with_flag(configuration_of(reading), leader_elect, config_file)
    endpoint = ServingOptions(
        bind_address,
        secure_port,
        tls_cert_file,
        tls_private_key_file,
        client_ca_file,
        authorization_always_allow_paths,
    )
    options = SchedulerOptions(
        kubeconfig,
        dry_run,
        session.verbosity,
        serving=endpoint if secure_port else None,
        authentication_kubeconfig=authentication_kubeconfig,
        authorization_kubeconfig=authorization_kubeconfig,
        component=Component("moorage", version("moorage"), flags_of(context)),
        config_file=config_file,
        journal=None if journal is None else JournalOptions(Path(journal), journal_size),
        check_invariants=check_invariants,
    )
    with running(context):
        run_scheduler(configuration, reading.profiles, options)
