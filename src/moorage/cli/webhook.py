"""`moorage webhook`: place pods at admission."""

from __future__ import annotations

import click

from moorage.cli.options import (
    Session,
    client_certificate_options,
    common_options,
    config_option,
    endpoint_options,
    kubeconfig_option,
    probe_options,
    session_of,
)

_LEVEL = "LOG_LEVEL"
_LEVELS = ("", "debug", "info")


@click.command()
@config_option
@kubeconfig_option
@endpoint_options("WebhookConfiguration", "0.0.0.0:9443", "read again when it changes.")
@click.option(
    "--self-signed",
    is_flag=True,
    help="Create and renew certificates, and write their CA to the webhook configuration; the default without files.",
)
@probe_options
@client_certificate_options
@common_options
@click.pass_context
def command(
    context: click.Context,
    config_file: str | None,
    kubeconfig: str | None,
    listen: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    self_signed: bool,
    metrics_listen: str,
    health_listen: str,
    client_ca_file: str | None,
    client_names: tuple[str, ...],
) -> None:
    """Assign new pods a rule of their placement strategy, whichever scheduler places them.

    LOG_LEVEL=debug in the environment is the same as -v 4; info, the default, changes nothing.
    """
    from moorage.app.webhook import WebhookOptions, run_webhook  # noqa: PLC0415 - slow to import
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.output import InputError  # noqa: PLC0415
    from moorage.cli.probes import probe_address  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415

    configure_logs(_session(context))
    _tell_of_level()
    if self_signed and (tls_cert or tls_key):
        raise InputError(
            ["--self-signed: certificates are made, so --tls-cert and --tls-key mean nothing; remove them"]
        )
    reading = load_reading(config_file)
    options = WebhookOptions(
        kubeconfig,
        listen,
        tls_cert,
        tls_key,
        client_ca_file,
        client_names,
        self_signed,
        probe_address("--metrics-listen", metrics_listen),
        probe_address("--health-listen", health_listen),
    )
    with running(context):
        run_webhook(configuration_of(reading), options)


def _session(context: click.Context) -> Session:
    import os  # noqa: PLC0415

    from moorage.cli.logs import DEBUG_VERBOSITY  # noqa: PLC0415

    session = session_of(context)
    if os.environ.get(_LEVEL, "").strip().lower() == "debug":
        session.verbosity = max(session.verbosity, DEBUG_VERBOSITY)
    return session


def _tell_of_level() -> None:
    """Warn of a level that is not known."""
    import os  # noqa: PLC0415

    import structlog  # noqa: PLC0415

    level = os.environ.get(_LEVEL, "").strip()
    if level.lower() not in _LEVELS:
        structlog.get_logger().warning(
            f"environment variable {_LEVEL} is {level!r}, which is no level; write debug or info. Until then it is info"
        )
