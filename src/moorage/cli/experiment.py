"""`moorage experiment`: runs all combinations of a file, and says which differences between results are real."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.options import common_options, computing_options, output_option
from moorage.cli.output import GOOD, INTERRUPTED, NO, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.adapters.computing import JobRunner
    from moorage.sim.experiments.conduct import Conducted
    from moorage.sim.experiments.document import Experiment

_MOST_FAILURES = 20


@click.group()
def command() -> None:
    """Run many simulations, and compare what comes of them."""


@command.command("run")
@click.argument("file", metavar="FILE")
@computing_options("results", "A run")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(("csv", "parquet")),
    default="csv",
    show_default=True,
    help="Of the table of results; parquet needs moorage[parquet].",
)
@output_option("table", "json")
@common_options
def run(
    file: str, folder: str | None, workers: int | None, address: str | None, table_format: str, output_format: str
) -> int:
    """Run every input of an Experiment with every configuration, change and seed.

    Writes results.csv (or .parquet), times.csv and report.html. Exits with 1 if a combination could not be run.
    """
    runner = runner_of(workers, address)
    from moorage.adapters.computing import RunnerError  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.cli.experiment_progress import ProgressLine  # noqa: PLC0415
    from moorage.sim.experiments.results import ResultFolder, ResultsError  # noqa: PLC0415

    experiment = read_named(file)
    try:
        results = ResultFolder(Path(folder) if folder else Path(file).parent / f"{experiment.name}-results")
        progress = ProgressLine(sys.stderr)
        with progress, interruptions(results.path, progress):
            conducted = conduct_on(experiment, results, runner, progress.tell)
        _write(experiment, conducted, results, table_format)
    except (ResultsError, RunnerError) as error:
        raise InputError([error]) from None
    _tell(experiment, conducted, results.path, output_format)
    return NO if conducted.failures else GOOD


def read_named(file: str) -> Experiment:
    """The experiment of a file; problems end the command."""
    from moorage.cli.profiles import find_registry, read_file  # noqa: PLC0415
    from moorage.sim.experiments.document import read_experiment  # noqa: PLC0415

    reading = read_experiment(read_file(file), file, find_registry())
    say("note", reading.notices)
    if reading.experiment is None:
        raise InputError(reading.problems)
    return reading.experiment


@contextmanager
def interruptions(path: Path, progress: Any) -> Iterator[None]:
    """Say that an interrupted run can go on."""
    try:
        yield
    except KeyboardInterrupt:
        progress.end()
        say("note", [f"interrupted; what was computed is in {path}, and the same command goes on from there"])
        raise click.exceptions.Exit(INTERRUPTED) from None


def runner_of(workers: int | None, address: str | None) -> Callable[[int], JobRunner]:
    """What makes the runner, once it is known how many jobs there are."""
    if workers is not None and address is not None:
        raise click.UsageError("--workers and --dask exclude each other: this machine, or a cluster")

    def local(jobs: int) -> JobRunner:
        from moorage.adapters.computing.processes import LocalProcesses, cores  # noqa: PLC0415

        return LocalProcesses(min(workers or cores(), jobs))

    def dask(_: int) -> JobRunner:
        from moorage.adapters.computing.dask import DaskCluster  # noqa: PLC0415 - heavy, and only for this option

        return DaskCluster(address or "")

    return local if address is None else dask


def conduct_on(
    experiment: Experiment, results: Any, runner: Callable[[int], JobRunner], tell: Callable[[Any], None]
) -> Conducted:
    """Run what has no result yet."""
    from importlib.metadata import version  # noqa: PLC0415

    from moorage.cli.experiment_jobs import run_job  # noqa: PLC0415
    from moorage.sim.experiments.conduct import conduct  # noqa: PLC0415

    return conduct(experiment, results, runner, run_job, version("moorage"), tell)


def _write(experiment: Experiment, conducted: Conducted, results: Any, table_format: str) -> None:
    from moorage.sim.experiments import results as tables  # noqa: PLC0415
    from moorage.sim.experiments.report import html_report  # noqa: PLC0415

    rows = [*conducted.rows()]
    if table_format == "parquet":
        results.write(tables.RESULTS_PARQUET, tables.parquet_bytes(rows))
    else:
        results.write(tables.RESULTS_CSV, tables.csv_bytes(rows))
    results.write(tables.TIMES_CSV, tables.times_bytes(conducted.times()))
    results.write(tables.REPORT_HTML, html_report(experiment, conducted).encode())


def _tell(experiment: Experiment, conducted: Conducted, path: Path, output_format: str) -> None:
    from moorage.cli.experiment_tables import results_document, write_means  # noqa: PLC0415

    failures = [f"{each}: {'; '.join(why)}" for each, why in conducted.failures.items()]
    say("warning", conducted.warnings())
    if output_format == "json":
        import json  # noqa: PLC0415

        click.echo(json.dumps(results_document(experiment, conducted), indent=2))
    else:
        write_means(experiment, conducted, sys.stdout)
        click.echo(f"\n{len(conducted.answers)} of {experiment.number} combinations; tables and report are in {path}")
    more = [f"and {len(failures) - _MOST_FAILURES} more failed"] if len(failures) > _MOST_FAILURES else []
    say("error", [*failures[:_MOST_FAILURES], *more])


@command.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@output_option("table", "json")
@common_options
def compare(a: str, b: str, output_format: str) -> int:
    """Say which differences between two sets of results are real.

    A and B are folders or tables that `moorage experiment run` wrote, each with or without the name of a configuration:
    `results:default results:packed`. Runs are paired by input, change and seed.
    """
    import json  # noqa: PLC0415

    from moorage.cli.experiment_tables import write_comparison  # noqa: PLC0415
    from moorage.sim.experiments import comparing  # noqa: PLC0415
    from moorage.sim.experiments.results import ResultsError, read_results  # noqa: PLC0415

    (file_a, name_a), (file_b, name_b) = _side(a), _side(b)
    try:
        found = comparing.compare(read_results(Path(file_a)), read_results(Path(file_b)), name_a, name_b)
    except (ResultsError, comparing.ComparisonError) as error:
        raise InputError([error]) from None
    if output_format == "json":
        click.echo(json.dumps(comparing.comparison_document(found), indent=2))
    else:
        write_comparison(found, sys.stdout)
    return GOOD


@command.command("schema")
@common_options
def schema() -> int:
    """Print the JSON schema of an Experiment, for editors."""
    import json  # noqa: PLC0415

    from moorage.sim.experiments.schema import experiment_schema  # noqa: PLC0415 - pydantic

    click.echo(json.dumps(experiment_schema(), indent=2))
    return GOOD


def _side(text: str) -> tuple[str, str]:
    """`PATH` or `PATH:CONFIGURATION`; a path that exists is one, whatever it is called."""
    if Path(text).exists():
        return text, ""
    path, colon, name = text.rpartition(":")
    return (path, name) if colon and path else (text, "")
