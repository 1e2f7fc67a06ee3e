"""How old the prices of each source are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class PriceAge(NamedTuple):
    """One source."""

    source: str
    stale: bool
    confirmed_s: float | None
    """When it last confirmed its prices; None: never."""


class PriceMetrics(Collector):
    """`moorage_prices_stale` and `moorage_prices_confirmed_timestamp_seconds` by source; nothing without sources."""

    def __init__(self, ages: Callable[[], Iterable[PriceAge]]) -> None:
        self._ages = ages

    def collect(self) -> Iterable[Metric]:
        """The ages as they are now; called for every scrape."""
        ages = [*self._ages()]
        if not ages:
            return
        stale = GaugeMetricFamily(
            "moorage_prices_stale",
            "Whether the prices of a source are too old to be used, or were never read: 1 stale, 0 good.",
            labels=("source",),
        )
        confirmed = GaugeMetricFamily(
            "moorage_prices_confirmed_timestamp_seconds",
            "When a source last confirmed its prices, in seconds since 1970; 0 for never.",
            labels=("source",),
        )
        for age in ages:
            stale.add_metric((age.source,), float(age.stale))
            confirmed.add_metric((age.source,), age.confirmed_s or 0.0)
        yield stale
        yield confirmed
