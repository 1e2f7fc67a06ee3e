"""The rounds of `moorage bench cluster`: what is measured when, and the results.

In every round each contender gets every workload on a control plane of its own. The order of the two schedulers turns
with every round, so that whatever the machine does over time hits both. Figures are medians over the rounds.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from moorage.bench.clusterload import LOADS
from moorage.bench.clusterrun import Measurement, Progress, Sizes, measure, units_of
from moorage.bench.contenders import Contender
from moorage.core.values import dataclass

Measure = Callable[..., Measurement]
_FIGURES = (
    "pods_per_s",
    "start_s",
    "cpu_ms_per_pod",
    "binding_cpu_ms_per_pod",
    "peak_memory_mb",
    "last_event_lag_s",
    "worst_event_lag_s",
    "p50_ms",
    "p99_ms",
)


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One measurement that is to be made."""

    workload: str
    contender: Contender
    round: int


@dataclass(frozen=True, slots=True)
class Row:
    """A contender with a workload: medians over the rounds, and how it compares."""

    workload: str
    contender: str
    rounds: int
    unbound: int
    """Pods of all rounds that were never bound."""
    lost_events: int
    """Pods of all rounds that were bound and that no Scheduled event tells of."""
    figures: dict[str, float | None]
    ratio: float | None = None
    """Pods/s as a multiple of kube-scheduler's; only of Moorage."""
    share_of_limit: float | None = None
    cpu_ratio: float | None = None
    """CPU per pod as a fraction of kube-scheduler's; only of Moorage."""

    def document(self) -> dict[str, Any]:
        """The row as plain values, its figures beside the rest."""
        plain = asdict(self)
        return {**{key: value for key, value in plain.items() if key != "figures"}, **self.figures}


def turns(workloads: Sequence[str], rounds: int) -> list[PlannedMeasurement]:
    """All measurements in their order."""
    first, second, last = Contender.KUBE_SCHEDULER, Contender.MOORAGE, Contender.LIMIT
    found: list[PlannedMeasurement] = []
    for round_number in range(1, rounds + 1):
        order = (first, second, last) if round_number % 2 else (second, first, last)
        found += [
            PlannedMeasurement(workload, contender, round_number) for workload in workloads for contender in order
        ]
    return found


def units(plan: Iterable[PlannedMeasurement], sizes: Sizes) -> int:
    """How many units of progress the plan has."""
    return sum(units_of(LOADS[planned.workload], sizes, planned.contender) for planned in plan)


def run(
    plan: Iterable[PlannedMeasurement], sizes: Sizes, progress: Callable[[PlannedMeasurement], Progress]
) -> Iterator[Measurement]:
    """Make one measurement after another."""
    for planned in plan:
        yield measure(
            planned.workload, planned.contender, sizes, round_number=planned.round, progress=progress(planned)
        )


def summary(measurements: Sequence[Measurement]) -> list[Row]:
    """One row per workload and contender, in the order in which they were first seen."""
    keys = dict.fromkeys((one.workload, one.contender) for one in measurements)
    workloads = dict.fromkeys(workload for workload, _ in keys)
    rows: list[Row] = []
    for workload in workloads:
        group = {
            contender: [one for one in measurements if (one.workload, one.contender) == (workload, contender)]
            for contender in Contender
        }
        rows += [_row(workload, contender, group) for contender in Contender if group[contender]]
    return rows


def _row(workload: str, contender: Contender, group: dict[Contender, list[Measurement]]) -> Row:
    mine = group[contender]
    figures = {name: _median(mine, name) for name in _FIGURES}
    peer, limit = group[Contender.KUBE_SCHEDULER], group[Contender.LIMIT]
    compared = contender is Contender.MOORAGE
    return Row(
        workload=workload,
        contender=str(contender),
        rounds=len(mine),
        unbound=sum(max(0, one.pods - one.bound) for one in mine),
        lost_events=sum(max(0, one.bound - one.events) for one in mine),
        figures=figures,
        ratio=_quotient(figures["pods_per_s"], _median(peer, "pods_per_s")) if compared else None,
        share_of_limit=_quotient(figures["pods_per_s"], _median(limit, "pods_per_s")),
        cpu_ratio=_quotient(figures["cpu_ms_per_pod"], _median(peer, "cpu_ms_per_pod")) if compared else None,
    )


def _median(measurements: Iterable[Measurement], name: str) -> float | None:
    values = [value for one in measurements if (value := getattr(one, name)) is not None]
    return statistics.median(values) if values else None


def _quotient(value: float | None, of: float | None) -> float | None:
    return value / of if value is not None and of else None


def document(measurements: Sequence[Measurement], sizes: Sizes, rounds: int) -> dict[str, Any]:
    """Everything as plain values: the sizes, the machine, a row per workload and contender, each measurement."""
    return {
        **asdict(sizes),
        "rounds": rounds,
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "summary": [row.document() for row in summary(measurements)],
        "measurements": [asdict(one) for one in measurements],
    }
