"""The keeper's metrics, read from its state at scrape time; only durations are collected as they occur."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from moorage.engine.keeping.keeper import Keeper
from moorage.engine.keeping.moves import Cause

BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)


class KeeperMetrics(Collector):
    """The metrics of one keeper; not for several threads."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._counts = {cause: [0] * (len(BOUNDS_S) + 1) for cause in Cause}
        self._sums = dict.fromkeys(Cause, 0.0)

    def observe(self) -> None:
        """Take over the moves that have ended; call it after every turn, as the keeper keeps them until then."""
        finished = self._keeper.moves.finished
        for move, took_s in finished:
            place = next((i for i, bound_s in enumerate(BOUNDS_S) if took_s <= bound_s), len(BOUNDS_S))
            self._counts[move.cause][place] += 1
            self._sums[move.cause] += took_s
        finished.clear()

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        keeper = self._keeper
        yield _gauge("moorage_keeper_leaving_nodes", "Nodes that are about to go away.", len(keeper.departures))
        yield _gauge("moorage_keeper_away_pods", "Pods that fell back from spot capacity.", keeper.spot_return.away)
        yield _gauge(
            "moorage_keeper_pods_without_place",
            "Pods on leaving nodes for which no other place was found.",
            len(keeper.fallback.without_place),
        )
        upkeep = keeper.upkeep
        yield _gauge(
            "moorage_keeper_workloads_out_of_order",
            "Workloads whose pods do not stand as their rule says.",
            upkeep.repairs.off,
        )
        yield CounterMetricFamily(
            "moorage_keeper_deletion_costs_written", "Writes of pod-deletion-cost.", value=upkeep.costs.written
        )
        repack = keeper.repack
        yield CounterMetricFamily(
            "moorage_keeper_nodes_emptied", "Nodes that repacking has emptied.", value=repack.emptied
        )
        yield CounterMetricFamily(
            "moorage_keeper_repack_missed",
            "Plans of repacking that did not bring what they promised.",
            value=repack.missed,
        )
        moving = GaugeMetricFamily("moorage_keeper_moves", "Pods on their way, by cause.", labels=("cause",))
        for cause in Cause:
            moving.add_metric((cause.value,), keeper.moves.count(cause))
        yield moving
        evictions = CounterMetricFamily(
            "moorage_keeper_evictions", "Evictions that were asked for, by outcome.", labels=("cause", "outcome")
        )
        for values, number in keeper.evictions.items():
            evictions.add_metric(values, number)
        yield evictions
        yield self._durations()

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            "moorage_keeper_move_duration_seconds",
            "From the order to evict a pod until its successor runs.",
            labels=("cause",),
        )
        bounds = [*(str(floatToGoString(bound_s)) for bound_s in BOUNDS_S), "+Inf"]  # type: ignore[no-untyped-call]
        for cause, counts in self._counts.items():
            total, buckets = 0, []
            for bound, count in zip(bounds, counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            family.add_metric((cause.value,), buckets, self._sums[cause])
        return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
