"""`moorage keeper`: look after placed pods."""

from __future__ import annotations

import click

from moorage.cli.options import (
    boolean_option,
    common_options,
    config_option,
    kubeconfig_option,
    probe_options,
    session_of,
)


@click.command()
@config_option
@kubeconfig_option
@boolean_option("--leader-elect", text="Take part in leader election; overrides the configuration.")
@probe_options
@click.option("--dry-run", is_flag=True, help="Print what would be done, and write nothing.")
@common_options
@click.pass_context
def command(
    context: click.Context,
    config_file: str | None,
    kubeconfig: str | None,
    leader_elect: bool | None,
    metrics_listen: str,
    health_listen: str,
    dry_run: bool,
) -> None:
    """Move pods off nodes that are about to be terminated, back to spot capacity, and to the nodes of their rules."""
    from dataclasses import replace  # noqa: PLC0415

    from moorage.app.keeper import KeeperOptions, run_keeper  # noqa: PLC0415 - slow to import
    from moorage.cli.election import elected  # noqa: PLC0415
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.probes import probe_address  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415
    from moorage.framework.keeping import keeper_configuration  # noqa: PLC0415

    configure_logs(session_of(context))
    reading = load_reading(config_file)
    configuration = configuration_of(reading)
    keeper = keeper_configuration(configuration)
    if leader_elect is not None and keeper.leader_election is not None:
        keeper = replace(keeper, leader_election=elected(keeper.leader_election, leader_elect, config_file))
        configuration = replace(configuration, components={**configuration.components, keeper.kind: keeper})
    options = KeeperOptions(
        kubeconfig,
        probe_address("--metrics-listen", metrics_listen),
        probe_address("--health-listen", health_listen),
        click.echo if dry_run else None,
    )
    with running(context):
        run_keeper(configuration, reading.profiles, options)
