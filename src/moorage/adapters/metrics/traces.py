"""How many spans were exported, and how many were lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Spans since the start."""

    exported: int
    dropped: Mapping[str, int]
    """By reason."""


class TraceMetrics(Collector):
    """`moorage_spans_*`; `counts` is asked for every scrape."""

    def __init__(self, counts: Callable[[], SpanCounts]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        counts = self._counts()
        yield CounterMetricFamily(
            "moorage_spans_exported", "Spans that the collector has accepted.", value=counts.exported
        )
        dropped = CounterMetricFamily(
            "moorage_spans_dropped", "Spans that were lost, by reason; scheduling goes on.", labels=("reason",)
        )
        for reason, number in counts.dropped.items():
            dropped.add_metric((reason,), number)
        yield dropped
