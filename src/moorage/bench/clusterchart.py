"""The chart of `moorage bench cluster`: pods per second and CPU per pod, side by side for every workload.

matplotlib is in the extra `bench`; without it there is no chart, and a message says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moorage.bench.clusterload import LOADS
from moorage.bench.clusterrounds import Row
from moorage.bench.contenders import Contender

FORMATS = ("png", "svg")
_COLOURS = {Contender.KUBE_SCHEDULER: "#9aa5b1", Contender.MOORAGE: "#1f6feb", Contender.LIMIT: "#d0d7de"}
_PANELS = (("pods_per_s", "pods/s"), ("cpu_ms_per_pod", "CPU ms per pod"), ("p99_ms", "p99 creation to binding, ms"))


class NoChartError(Exception):
    """The chart cannot be drawn; the message is one line."""


def draw(rows: Sequence[Row], title: str, folder: Path, name: str) -> list[Path]:
    """Write the chart as PNG and SVG; the paths."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise NoChartError("no chart: matplotlib is not installed; pip install 'moorage[bench]'") from None
    figure = Figure(figsize=(5.0 * len(_PANELS), 4.5), layout="constrained")
    figure.suptitle(title)
    for axes, (field, label) in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
        _panel(axes, rows, field, label)
    paths = [folder / f"{name}.{suffix}" for suffix in FORMATS]
    for path in paths:
        figure.savefig(path, dpi=120)
    return paths


def _panel(axes: Any, rows: Sequence[Row], field: str, label: str) -> None:
    workloads = list(dict.fromkeys(row.workload for row in rows))
    shown = [one for one in Contender if any(row.contender == one and row.figures[field] is not None for row in rows)]
    width = 0.8 / max(1, len(shown))
    for place, contender in enumerate(shown):
        found = {row.workload: row.figures[field] or 0.0 for row in rows if row.contender == contender}
        positions = [index + (place - (len(shown) - 1) / 2) * width for index in range(len(workloads))]
        heights = [found.get(workload, 0.0) for workload in workloads]
        bars = axes.bar(positions, heights, width, label=str(contender), color=_COLOURS[contender])
        axes.bar_label(bars, labels=[_figure(height) for height in heights], fontsize=7)
    axes.set_xticks(range(len(workloads)), [LOADS[name].title for name in workloads], rotation=20, ha="right")
    axes.set_ylabel(label)
    axes.margins(y=0.2)  # room for the legend
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
