"""`moorage bench`: measures decisions per second, and compares them with a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moorage.cli.options import common_options, output_option
from moorage.cli.output import NO, InputError

if TYPE_CHECKING:
    from moorage.bench.core import BenchRow


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers above zero, separated by commas."""

    name = "N,N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """`100,5000` -> (100, 5000)."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not a list of whole numbers above zero; write for example 100,5000", param, ctx)
        return tuple(int(part) for part in parts)


@click.group()
def command() -> None:
    """Measure decisions per second, alone and against kube-scheduler."""


@command.command()
@click.option("--nodes", type=_Numbers(), default="100,1000,5000,20000", show_default=True, help="Cluster sizes.")
@click.option("--pods-present", type=click.IntRange(min=0), default=0, show_default=True, help="Pods that run already.")
@click.option("--workload", "workloads", metavar="W,W", default="all", show_default=True, help="Which workloads.")
@click.option("--decisions", type=click.IntRange(min=1), default=None, help="Pods to place; by workload and size.")
@click.option("--check", is_flag=True, help="Compare ratios with the baseline instead; exit code 1 if one fell.")
@click.option("--baseline", metavar="FILE", default=None, help="The baseline to compare with, instead of the shipped.")
@click.option("--write-baseline", metavar="FILE", default=None, help="Measure the ratios and save them as a baseline.")
@output_option("table", "json")
@common_options
@click.pass_context
def core(
    context: click.Context,
    nodes: tuple[int, ...],
    pods_present: int,
    workloads: str,
    decisions: int | None,
    check: bool,
    baseline: str | None,
    write_baseline: str | None,
    output_format: str,
) -> None:
    """The engine alone: no API server, from the pod's event to its Bind command and the confirmation."""
    if check or baseline is not None or write_baseline is not None:
        context.exit(_guard(baseline, write_baseline))
    from moorage.bench.suite import SUITE  # noqa: PLC0415 - slow to import

    names = _chosen(workloads, list(SUITE), list(SUITE))
    rows: list[BenchRow] = []
    for name in names:
        for count in nodes:
            rows.append(SUITE[name](count, pods_present, decisions))
            if output_format == "table":
                _print_row(rows[-1], first=len(rows) == 1)
    if output_format == "json":
        import json  # noqa: PLC0415
        from dataclasses import asdict  # noqa: PLC0415

        click.echo(json.dumps([asdict(row) for row in rows]))


@command.command()
@click.option("--nodes", type=click.IntRange(min=1), default=5000, show_default=True, help="Size of the cluster.")
@click.option("--pods", type=click.IntRange(min=2), default=5000, show_default=True, help="Pending pods.")
@click.option("--pods-present", type=click.IntRange(min=0), default=0, show_default=True, help="Pods that run already.")
@click.option("--workload", "workloads", metavar="W,W", default=None, help="Which workloads, or all; four by default.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of rounds; medians are printed."
)
@click.option(
    "--arrivals",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Pods that arrive afterwards, 100 a second.",
)
@click.option(
    "--report", "folder", metavar="DIR", default="bench-results", show_default=True, help="Where JSON and charts go."
)
@output_option("table", "json")
@common_options
def cluster(
    nodes: int,
    pods: int,
    pods_present: int,
    workloads: str | None,
    rounds: int,
    arrivals: int,
    folder: str,
    output_format: str,
) -> None:
    """Against kube-scheduler, in turns on equal control planes, and against the limit that the API server sets.

    The limit is a client that posts a binding and an event per pod and does nothing else. Needs the programs of a
    control plane in KUBEBUILDER_ASSETS, or a checkout that has built them (make controlplane).
    """
    from moorage.bench.clusterload import LOADS  # noqa: PLC0415 - slow to import
    from moorage.bench.clusterrun import Sizes  # noqa: PLC0415
    from moorage.cli.bench_cluster import bench  # noqa: PLC0415

    usual = [name for name, load in LOADS.items() if load.by_default]
    names = _chosen(workloads, list(LOADS), usual)
    sizes = Sizes(nodes, pods, pods_present, steady_pods=arrivals)
    bench(names, sizes, rounds, Path(folder), output_format)


def _chosen(workloads: str | None, known: list[str], usual: list[str]) -> list[str]:
    if workloads is None:
        return usual
    names = known if workloads == "all" else [name.strip() for name in workloads.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is not a workload; choose from {', '.join(known)}", param_hint="--workload"
        )
    return names


def _guard(baseline: str | None, write_baseline: str | None) -> int:
    """Measure ratios; keep them, or say which of them fell behind. The exit code."""
    from moorage.bench import baseline as guard  # noqa: PLC0415 - slow to import

    try:
        wanted = {} if write_baseline is not None else guard.read(None if baseline is None else Path(baseline))
        found = guard.ratios()
        if write_baseline is not None:
            guard.write(Path(write_baseline), found)
    except guard.BaselineError as error:
        raise InputError([error]) from None
    except OSError as error:
        raise InputError([f"--write-baseline: {write_baseline}: {error.strerror}; name another file"]) from None
    fallen = list(guard.regressions(found, wanted))
    for line in fallen:
        click.echo(line)
    if not fallen:
        click.echo(f"{len(found)} ratios, none below {guard.SHARE:.0%} of the baseline")
    return NO if fallen else 0


def _print_row(row: BenchRow, *, first: bool) -> None:
    if first:
        click.echo(f"{'workload':<24}{'nodes':>8}{'pods present':>14}{'decisions':>12}{'decisions/s':>14}")
    percentiles = ""
    if row.median_ms is not None and row.p99_ms is not None:
        percentiles = f"  a gang is placed in {row.median_ms:.1f} ms, 99 % in {row.p99_ms:.1f} ms"
    click.echo(
        f"{row.workload:<24}{row.nodes:>8}{row.pods_present:>14}{row.decisions:>12}{row.decisions_per_s:>14,.0f}"
        f"{percentiles}"
    )
