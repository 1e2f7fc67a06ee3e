"""`moorage simulate`: a cluster in files in, placements and reasons out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from moorage.cli.options import WholeNumber, common_options, config_option, files_option, output_option
from moorage.cli.output import GOOD, NO, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.sim.outcome import Outcome
    from moorage.wire.configuration import Reading

_LARGEST_SEED = 2**63 - 1


@click.command("simulate", short_help="Place the pods of a cluster in a file, and say why.")
@files_option
@config_option
@click.option("--explain", is_flag=True, help="Say of every pod and node what was scored or why it was rejected.")
@click.option(
    "--seed",
    type=WholeNumber(0, _LARGEST_SEED),
    metavar="N",
    default=0,
    show_default=True,
    help="Decides between equal nodes.",
)
@click.option("--fail-on-pending", is_flag=True, help="Exit with 1 if a pod is left without a node.")
@output_option("table", "json", "yaml")
@common_options
def command(
    files: tuple[str, ...],
    config_file: str | None,
    explain: bool,
    seed: int,
    fail_on_pending: bool,
    output_format: str,
) -> int:
    """Place the pods of a cluster that is written in files, without touching any real one.

    The files hold nodes, pods and whatever else matters, as `kubectl get -o yaml` prints them. Controllers are
    expanded into pods. Virtual time runs until nothing can change any more.
    """
    from moorage.cli.profiles import load_reading  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.sim import report  # noqa: PLC0415
    from moorage.wire.documents import uncollected  # noqa: PLC0415

    with uncollected():
        reading = load_reading(config_file)
        outcome = _outcome(reading, files, seed, explain=explain, answers_to_all=config_file is None)
        if output_format == "table":
            say("warning", outcome.warnings)
        writers = {"table": report.write_table, "json": report.write_json, "yaml": report.write_yaml}
        writers[output_format](outcome, sys.stdout)
    return NO if fail_on_pending and outcome.pending else GOOD


def _outcome(reading: Reading, files: Iterable[str], seed: int, *, explain: bool, answers_to_all: bool) -> Outcome:
    """Read the files and run them; whatever is wrong with them ends the command."""
    from moorage.sim.inputs import read_cluster  # noqa: PLC0415
    from moorage.sim.rules import rules_of  # noqa: PLC0415
    from moorage.sim.simulation import SimulationError, simulate  # noqa: PLC0415
    from moorage.wire.manifests import load_manifests  # noqa: PLC0415

    given = read_cluster(load_manifests(files))
    try:
        return simulate(given, rules_of(reading, seed, answers_to_all=answers_to_all), explain=explain)
    except SimulationError as error:
        raise InputError(error.problems) from error
