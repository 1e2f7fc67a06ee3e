"""`moorage extender`: answer a stock kube-scheduler."""

from __future__ import annotations

import click

from moorage.cli.options import (
    client_certificate_options,
    common_options,
    config_option,
    endpoint_options,
    kubeconfig_option,
    session_of,
)


@click.command()
@config_option
@kubeconfig_option
@endpoint_options("ExtenderConfiguration", "0.0.0.0:8888", "plain HTTP without it.")
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
    client_ca_file: str | None,
    client_names: tuple[str, ...],
) -> None:
    """Add the plugins of a profile to a stock kube-scheduler, which calls the extender over HTTP."""
    from moorage.app.endpoint import EndpointOptions  # noqa: PLC0415 - slow to import
    from moorage.app.extender import run_extender  # noqa: PLC0415
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415

    configure_logs(session_of(context))
    reading = load_reading(config_file)
    options = EndpointOptions(kubeconfig, listen, tls_cert, tls_key, client_ca_file, client_names)
    with running(context):
        run_extender(configuration_of(reading), reading.profiles, options)
