"""`moorage scheduler`."""

from __future__ import annotations

import click

from moorage.cli.options import boolean_option, common_options, config_option, session_of


@click.command()
@config_option
@click.option(
    "--kubeconfig", metavar="FILE", default=None, help="Credentials; otherwise $KUBECONFIG, in-cluster, ~/.kube."
)
@boolean_option("--leader-elect", text="Take part in leader election; overrides the configuration.")
@click.option("--dry-run", is_flag=True, help="Decide and log, but write nothing to the cluster.")
@common_options
@click.pass_context
def command(
    context: click.Context, config_file: str | None, kubeconfig: str | None, leader_elect: bool | None, dry_run: bool
) -> None:
    """Place the pods of a live cluster whose schedulerName is one of the profiles."""
    from moorage.app.scheduler import SchedulerOptions, StartError, run_scheduler  # noqa: PLC0415 - slow to import
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.output import InputError, say  # noqa: PLC0415
    from moorage.cli.profiles import load_reading  # noqa: PLC0415

    session = session_of(context)
    configure_logs(session)
    reading = load_reading(config_file)
    configuration = reading.configuration
    if configuration is None:
        raise InputError(["the configuration could not be read"])
    wants = configuration.leader_election.leader_elect if leader_elect is None else leader_elect
    if wants:
        say("note", ["leader election is not built yet: run one replica only"])
    options = SchedulerOptions(kubeconfig, dry_run, session.verbosity)
    try:
        run_scheduler(configuration, reading.profiles, options)
    except StartError as error:
        raise InputError([error]) from None
