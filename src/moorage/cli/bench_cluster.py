"""`moorage bench cluster`: the progress bar and the printing; measuring is done by `moorage.bench`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from moorage.adapters.kube.errors import KubeError
from moorage.bench import clusterreport as report
from moorage.bench.assets import AssetsError, find_assets
from moorage.bench.clusterchart import NoChartError, draw
from moorage.bench.clusterrounds import PlannedMeasurement, Row, document, run, summary, turns, units
from moorage.bench.clusterrun import Measurement, Progress, Sizes
from moorage.bench.controlplane import ControlPlaneError
from moorage.bench.processes import ProcessError
from moorage.cli.output import InputError, say


def bench(workloads: list[str], sizes: Sizes, rounds: int, folder: Path, output_format: str) -> None:
    """Measure everything, print it, and write the document and the chart into the folder.

    The document is written after every measurement, so that an interrupted run keeps its results.
    """
    plan = turns(workloads, rounds)
    measurements: list[Measurement] = []
    try:
        find_assets()
        with _progress(units(plan, sizes)) as progress:
            for measurement in run(plan, sizes, progress):
                measurements.append(measurement)
                written = report.write_document(document(measurements, sizes, rounds), folder)
    except (AssetsError, ControlPlaneError, ProcessError, KubeError) as error:
        raise InputError([error]) from None
    except OSError as error:
        raise _no_folder(error) from None
    rows = summary(measurements)
    _print(rows, document(measurements, sizes, rounds), output_format)
    how_often = "one round" if rounds == 1 else f"median of {rounds} rounds"
    say("written", [written, *_chart(rows, f"{sizes.nodes:,} nodes, {sizes.pods:,} pods, {how_often}", folder)])


def _print(rows: list[Row], content: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        click.echo(json.dumps(content))
    else:
        for line in report.table(rows):
            click.echo(line)
    say("note", report.notes(rows))


def _chart(rows: list[Row], title: str, folder: Path) -> list[Path]:
    try:
        return draw(rows, title, folder, report.FILE)
    except NoChartError as error:
        say("note", [error])
        return []
    except OSError as error:
        raise _no_folder(error) from None


def _no_folder(error: OSError) -> InputError:
    return InputError([f"--report: {error.filename}: {error.strerror}; name a folder that can be written to"])


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[PlannedMeasurement], Progress]]:
    """A progress bar on a terminal, a line per measurement elsewhere."""
    if not sys.stderr.isatty():
        yield _told
        return
    from rich import progress as bars  # noqa: PLC0415 - slow to import
    from rich.console import Console  # noqa: PLC0415

    text, share = bars.TextColumn("{task.description:<44}"), bars.TextColumn("{task.percentage:>3.0f} %")
    columns = (text, bars.BarColumn(), share, bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting a control plane", total=total)

        def of(planned: PlannedMeasurement) -> Progress:
            bar.update(task, description=_name(planned))

            def step(what: str, count: int) -> None:
                bar.update(task, advance=count, description=f"{_name(planned)}: {what}")

            return step

        yield of


def _told(planned: PlannedMeasurement) -> Progress:
    click.echo(_name(planned), err=True)
    return lambda _what, _count: None


def _name(planned: PlannedMeasurement) -> str:
    return f"{planned.workload}, {planned.contender}, round {planned.round}"
