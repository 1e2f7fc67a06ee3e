"""`moorage scheduler`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import boolean_option, common_options, config_option, flags_of, kubeconfig_option, session_of
from moorage.cli.serving import ServingFlags, serving_options
from moorage.cli.sizes import Size

if TYPE_CHECKING:
    from moorage.framework.configuration import Configuration
    from moorage.framework.profiles import Profile


@click.command()
@config_option
@kubeconfig_option
@serving_options
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
    /,
    config_file: str | None,
    kubeconfig: str | None,
    leader_elect: bool | None,
    dry_run: bool,
    journal: str | None,
    journal_size: int,
    check_invariants: bool,
    **serving: Any,
) -> None:
    """Place the pods of a live cluster whose schedulerName is one of the profiles."""
    from moorage.app.journal import JournalOptions  # noqa: PLC0415 - slow to import
    from moorage.cli.election import with_flag  # noqa: PLC0415
    from moorage.cli.logs import configure_logs  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of, load_reading  # noqa: PLC0415

    configure_logs(session_of(context))
    reading = load_reading(config_file, asks_extenders=True)
    start(
        context,
        with_flag(configuration_of(reading), leader_elect, config_file),
        reading.profiles,
        ServingFlags(**serving),
        kubeconfig=kubeconfig,
        dry_run=dry_run,
        config_file=config_file,
        journal=None if journal is None else JournalOptions(Path(journal), journal_size),
        check_invariants=check_invariants,
    )


def start(
    context: click.Context,
    configuration: Configuration,
    profiles: Sequence[Profile],
    serving: ServingFlags,
    **options: Any,
) -> None:
    """Schedule until the process is stopped; `options` are fields of SchedulerOptions."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import

    from moorage.adapters.serving.zpages import Component  # noqa: PLC0415
    from moorage.app.scheduler import SchedulerOptions, run_scheduler  # noqa: PLC0415
    from moorage.cli.processes import running  # noqa: PLC0415

    complete = SchedulerOptions(
        verbosity=session_of(context).verbosity,
        serving=serving.endpoint,
        authentication_kubeconfig=serving.authentication_kubeconfig,
        authorization_kubeconfig=serving.authorization_kubeconfig,
        component=Component("moorage", version("moorage"), flags_of(context)),
        **options,
    )
    with running(context):
        run_scheduler(configuration, profiles, complete)
