"""Objects that could not be read, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class SkippedObjects(Collector):
    """`moorage_objects_skipped_total` by kind; `counts` gives kinds and how often an object of theirs was left out."""

    def __init__(self, counts: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """The counts as they are now; called for every scrape."""
        family = CounterMetricFamily(
            "moorage_objects_skipped",
            "How often an object that cannot be read was left out; the log names the objects.",
            labels=("kind",),
        )
        sums: Counter[str] = Counter()
        for kind, count in self._counts():
            sums[kind] += count
        for kind in sorted(sums):
            family.add_metric((kind,), float(sums[kind]))
        yield family
