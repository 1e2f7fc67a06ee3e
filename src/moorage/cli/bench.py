"""`moorage bench`: how fast it is, measured here and now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moorage.cli.options import common_options, output_option

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
    """Measure decisions per second."""


@command.command()
@click.option("--nodes", type=_Numbers(), default="100,1000,5000,20000", show_default=True, help="Cluster sizes.")
@click.option("--pods-present", type=click.IntRange(min=0), default=0, show_default=True, help="Pods that run already.")
@click.option("--workload", "workloads", metavar="W,W", default="all", show_default=True, help="Which workloads.")
@click.option("--decisions", type=click.IntRange(min=1), default=None, help="Pods to place; by workload and size.")
@output_option("table", "json")
@common_options
def core(nodes: tuple[int, ...], pods_present: int, workloads: str, decisions: int | None, output_format: str) -> None:
    """The engine alone: no API server, from the pod's event to its Bind command and the confirmation."""
    from moorage.bench.suite import SUITE  # noqa: PLC0415 - slow to import

    names = list(SUITE) if workloads == "all" else [name.strip() for name in workloads.split(",")]
    unknown = [name for name in names if name not in SUITE]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is not a workload; choose from {', '.join(SUITE)}", param_hint="--workload"
        )
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


def _print_row(row: BenchRow, *, first: bool) -> None:
    if first:
        click.echo(f"{'workload':<24}{'nodes':>8}{'pods present':>14}{'decisions':>12}{'decisions/s':>14}")
    click.echo(
        f"{row.workload:<24}{row.nodes:>8}{row.pods_present:>14}{row.decisions:>12}{row.decisions_per_s:>14,.0f}"
    )
