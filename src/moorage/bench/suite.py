"""Every workload of `moorage bench core` by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moorage.bench.core import WORKLOADS, BenchRow, measure
from moorage.bench.preemption_workload import measure_preemption

SUITE: dict[str, Callable[[int, int, int | None], BenchRow]] = {
    **{name: partial(measure, name) for name in WORKLOADS},
    "preemption": measure_preemption,
}
"""Name -> measurement of (nodes, pods present, decisions or None for enough)."""
