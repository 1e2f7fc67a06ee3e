"""`moorage scheduler`."""

from __future__ import annotations

from typing import Any

import click

from moorage.cli.options import boolean_option, common_options, config_option, kubeconfig_option, session_of

SECURE_PORT = 10259
HIGHEST_PORT = 65535


class _Port(click.ParamType[int]):
    """A port number in ASCII digits; 0 stands for none."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= HIGHEST_PORT):
            self.fail(f"{text!r} is not a port; write 1 to {HIGHEST_PORT}, or 0 to serve nothing", param, ctx)
        return int(text)


@click.command()
@config_option
@kubeconfig_option
@click.option(
    "--secure-port",
    type=_Port(),
    metavar="PORT",
    default=SECURE_PORT,
    show_default=True,
    help="HTTPS port of /healthz, /livez, /readyz, /metrics and /configz; 0 serves nothing.",
)
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    default="0.0.0.0",  # noqa: S104 - as kube-scheduler; only health is open to others
    show_default=True,
    help="IP address to serve on; /metrics and /configz are open only on a loopback address.",
)
@click.option(
    "--tls-cert-file", metavar="FILE", default=None, help="Certificate to serve with; self-signed without it."
)
@click.option("--tls-private-key-file", metavar="FILE", default=None, help="The certificate's private key.")
@boolean_option("--leader-elect", text="Take part in leader election; overrides the configuration.")
@click.option("--dry-run", is_flag=True, help="Decide and log, but write nothing to the cluster.")
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
    leader_elect: bool | None,
    dry_run: bool,
) -> None:
    """Place the pods of a live cluster whose schedulerName is one of the profiles."""
    from moorage.adapters.serving.server import ServingOptions  # noqa: PLC0415 - slow to import
    from moorage.app.leadership import LOST_EXIT_CODE, LeadershipLost  # noqa: PLC0415
    from moorage.app.scheduler import SchedulerOptions, StartError, run_scheduler  # noqa: PLC0415
    from moorage.cli.election import with_flag  # noqa: PLC0415
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.output import InputError, say  # noqa: PLC0415
    from moorage.cli.profiles import load_reading  # noqa: PLC0415

    session = session_of(context)
    configure_logs(session)
    reading = load_reading(config_file, asks_extenders=True)
    configuration = reading.configuration
    if configuration is None:
        raise InputError(["the configuration could not be read"])
    configuration = with_flag(configuration, leader_elect, config_file)
    endpoint = ServingOptions(bind_address, secure_port, tls_cert_file, tls_private_key_file)
    options = SchedulerOptions(kubeconfig, dry_run, session.verbosity, serving=endpoint if secure_port else None)
    try:
        run_scheduler(configuration, reading.profiles, options)
    except StartError as error:
        raise InputError([error]) from None
    except LeadershipLost as error:
        say("error", [error])
        context.exit(LOST_EXIT_CODE)
