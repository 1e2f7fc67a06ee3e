"""What a shadow counts, and the figures of the worlds that it compares; their size does not depend on the cluster's.

Figures of worlds take time in proportion to the pods, so they are taken at most every `FRESH_S`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters.metrics.tally import BucketTally
from moorage.core.prices import MICROS
from moorage.engine.shadowing.verdicts import ShadowCounts
from moorage.views.standing import Standing

FRESH_S = 15.0
LAG_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

Worlds = Callable[[], Mapping[str, Standing]]


class ShadowMetrics(Collector):
    """The metrics of one shadow; not for several threads."""

    def __init__(
        self, counts: ShadowCounts, lags: BucketTally, worlds: Worlds, *, timer_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`worlds` returns the figures by world, `there` and perhaps `here`."""
        self._counts = counts
        self._lags = lags
        self._worlds = worlds
        self._timer_s = timer_s
        self._taken: tuple[float, Mapping[str, Standing]] | None = None

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        yield self._decisions()
        yield self._plugins()
        evictions = CounterMetricFamily(
            "moorage_shadow_victims", "Pods that were evicted for others, and would have been.", labels=("world",)
        )
        evictions.add_metric(("there",), self._counts.evictions.victims_there)
        evictions.add_metric(("here",), self._counts.evictions.victims_here)
        yield evictions
        yield CounterMetricFamily(
            "moorage_shadow_unseen_pods", "Pods that had a node when they were first seen.", value=self._counts.unseen
        )
        yield CounterMetricFamily(
            "moorage_shadow_skipped_decisions",
            "Decisions that were not compared, as too many events waited.",
            value=self._counts.skipped,
        )
        yield self._lag()
        yield from _figures(self._standings())

    def _standings(self) -> Mapping[str, Standing]:
        now_s = self._timer_s()
        if self._taken is None or now_s - self._taken[0] >= FRESH_S:
            self._taken = now_s, self._worlds()
        return self._taken[1]

    def _decisions(self) -> Metric:
        family = CounterMetricFamily(
            "moorage_shadow_decisions",
            "Decisions of other schedulers, by what the profile says to them.",
            labels=("scheduler", "verdict"),
        )
        for (scheduler, verdict), number in sorted(self._counts.verdicts.items()):
            family.add_metric((scheduler, str(verdict)), number)
        return family

    def _plugins(self) -> Metric:
        family = CounterMetricFamily(
            "moorage_shadow_plugin_differences",
            "Different decisions that a plugin decided, would not be there without it or with its other sign, "
            "or whose node it rejects.",
            labels=("plugin", "how"),
        )
        for plugin, tally in sorted(self._counts.plugins.items()):
            for how in ("decisive", "without", "reversed", "rejections"):
                family.add_metric((plugin, how), getattr(tally, how))
        return family

    def _lag(self) -> Metric:
        family = HistogramMetricFamily(
            "moorage_shadow_lag_seconds", "From the arrival of an event until it was taken into account."
        )
        family.add_metric((), self._lags.buckets(), self._lags.sum)
        return family


_GAUGES: tuple[tuple[str, str, Callable[[Standing], float]], ...] = (
    ("moorage_shadow_nodes_in_use", "Nodes with pods other than daemons.", lambda world: world.nodes_in_use),
    ("moorage_shadow_placed_pods", "Pods on nodes.", lambda world: world.pods),
    ("moorage_shadow_pending_pods", "Pods of the compared schedulers without a node.", lambda world: world.pending),
    ("moorage_shadow_broken_spread", "Spread constraints that forbid what pods do.", lambda world: world.spread_broken),
    (
        "moorage_shadow_uneven_spread",
        "Spread constraints that prefer what pods do not do.",
        lambda world: world.spread_uneven,
    ),
    (
        "moorage_shadow_strategies_off",
        "Workloads that are not split as their strategy says.",
        lambda world: world.strategies_off,
    ),
)


def _figures(worlds: Mapping[str, Standing]) -> Iterable[Metric]:
    for name, text, value in _GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=("world",))
        for world, standing in worlds.items():
            gauge.add_metric((world,), value(standing))
        yield gauge
    cost = GaugeMetricFamily(
        "moorage_shadow_cost_per_hour", "What the nodes in use cost.", labels=("world", "currency")
    )
    idle = GaugeMetricFamily(
        "moorage_shadow_idle_capacity",
        "What no pod has requested: devices, cores, bytes.",
        labels=("world", "resource"),
    )
    unusable = GaugeMetricFamily(
        "moorage_shadow_unusable_idle_capacity",
        "The mean part of it that typical pods cannot use.",
        labels=("world", "resource"),
    )
    for world, standing in worlds.items():
        if standing.currency is not None:
            cost.add_metric((world, standing.currency), standing.cost_micros / MICROS)
        for resource, found in standing.idle.items():
            idle.add_metric((world, resource), found.amount)
            unusable.add_metric((world, resource), found.unusable)
    yield cost
    yield idle
    yield unusable
