"""`moorage tune`: searches weights and arguments of a profile, and says whether anything is better than today's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moorage.cli.options import WholeNumber, common_options, computing_options, output_option
from moorage.cli.output import GOOD, NO, InputError

if TYPE_CHECKING:  # as in experiment.py
    from moorage.adapters.computing import JobRunner
    from moorage.sim.experiments.conduct import Conducted, ExperimentProgress
    from moorage.sim.experiments.document import Experiment
    from moorage.sim.experiments.results import ResultFolder
    from moorage.sim.experiments.searches import SearchPlan
    from moorage.sim.tuning.halves import Halves
    from moorage.sim.tuning.stages import Tuned


@click.command()
@click.argument("file", metavar="FILE")
@computing_options("tuning", "A search")
@click.option(
    "--choose",
    "choice",
    type=WholeNumber(1, 1000),
    metavar="N",
    default=None,
    help="Write this one of the best compromises instead of the one that loses nothing.",
)
@click.option(
    "--write", "target", metavar="FILE", default=None, help="Where the configuration goes; else tuned.yaml in DIR."
)
@output_option("table", "json")
@common_options
def command(
    file: str,
    folder: str | None,
    workers: int | None,
    address: str | None,
    choice: int | None,
    target: str | None,
    output_format: str,
) -> int:
    """Search the weights and arguments of a profile that an Experiment's `search` names.

    Half of the input is searched, the other half judges. Exits with 1, and writes no configuration, if nothing is
    better than the configuration that is tuned.
    """
    from moorage.adapters.computing import RunnerError  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.cli.experiment import read_named, runner_of  # noqa: PLC0415
    from moorage.cli.tune_report import tuning_document, write_tuning  # noqa: PLC0415
    from moorage.sim.experiments.results import ResultFolder, ResultsError  # noqa: PLC0415
    from moorage.sim.tuning.halves import TuningError, halves_of  # noqa: PLC0415

    runner = runner_of(workers, address)
    experiment = read_named(file)
    if experiment.search is None:
        raise InputError([f"{file}: search: required; name objectives and parameters, as docs/tuning.md shows"])
    try:
        halves = halves_of(experiment, experiment.search)
        results = ResultFolder(Path(folder) if folder else Path(file).parent / f"{experiment.name}-tuning")
        tuned = _tuned(experiment.search, halves, results, runner, choice)
        written, replay = _write(experiment, experiment.search, halves, tuned, results, target)
    except (ResultsError, RunnerError, TuningError) as error:
        raise InputError([error]) from None
    if output_format == "json":
        click.echo(json.dumps(tuning_document(experiment.search, halves, tuned, written, replay), indent=2))
    else:
        write_tuning(experiment.search, halves, tuned, sys.stdout)
        if written:
            click.echo(
                f"\nIt is in {written}. What it would have decided yesterday, with the journal in DIR:\n  {replay}"
            )
    return GOOD if written else NO


def _tuned(
    asked: SearchPlan, halves: Halves, results: ResultFolder, runner: Callable[[int], JobRunner], choice: int | None
) -> Tuned:
    from moorage.cli.experiment import conduct_on, interruptions  # noqa: PLC0415
    from moorage.cli.experiment_progress import ProgressLine  # noqa: PLC0415
    from moorage.sim.tuning.stages import run_appraisal, run_search  # noqa: PLC0415
    from moorage.sim.tuning.tunedfile import TRIALS_CSV, trials_csv  # noqa: PLC0415

    def conduct(given: Experiment, tell: Callable[[ExperimentProgress], None]) -> Conducted:
        return conduct_on(given, results, runner, tell)

    with ProgressLine(sys.stderr) as progress, interruptions(results.path, progress):
        searched = run_search(halves, asked, conduct, progress.tell)
    results.write(TRIALS_CSV, trials_csv(asked, searched))
    with ProgressLine(sys.stderr) as progress, interruptions(results.path, progress):
        return run_appraisal(halves, asked, searched, conduct, progress.tell, None if choice is None else choice - 1)


def _write(
    experiment: Experiment, asked: SearchPlan, halves: Halves, tuned: Tuned, results: ResultFolder, target: str | None
) -> tuple[str, str]:
    """Write the configuration, if it is better; where it is, and how to try it."""
    from moorage.sim.experiments import results as tables  # noqa: PLC0415
    from moorage.sim.tuning.tunedfile import TUNED_YAML, replay_command, tuned_file  # noqa: PLC0415

    results.write(tables.RESULTS_CSV, tables.csv_bytes(tuned.rows))
    if not tuned.appraisal.better:
        return "", ""
    path = Path(target) if target else results.path / TUNED_YAML
    replay = replay_command(str(path))
    text = tuned_file(experiment, asked, halves, tuned, replay)
    try:
        path.write_text(text)
    except OSError as error:
        raise InputError([f"{path}: cannot be written ({error.strerror}); name another file with --write"]) from None
    return str(path), replay
