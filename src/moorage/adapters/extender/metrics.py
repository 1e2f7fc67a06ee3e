"""What the extender says about itself: requests, how long they took, and what was waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.engine.extending import Extending

_REQUEST_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_WAIT_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
ANSWERED, HELD_BACK = "answered", "held_back"


class ExtenderMetrics(Collector):
    """The metrics of one extender; sizes are read when metrics are scraped."""

    def __init__(self, extending: Extending, active: Callable[[], bool]) -> None:
        self._extending = extending
        self._active = active
        self._requests = Counter(
            "moorage_extender_requests_total", "Requests, by verb and HTTP status.", ("verb", "code"), registry=None
        )
        self._durations = Histogram(
            "moorage_extender_request_duration_seconds",
            "How long requests took, waiting included.",
            ("verb",),
            buckets=_REQUEST_BOUNDS_S,
            registry=None,
        )
        self._waits = Histogram(
            "moorage_extender_wait_duration_seconds",
            "How long filter calls waited for another pod: until they could be answered, or in vain.",
            ("outcome",),
            buckets=_WAIT_BOUNDS_S,
            registry=None,
        )

    def answered(self, verb: str, status: int, took_s: float) -> None:
        """A request is over."""
        self._requests.labels(verb, str(status)).inc()
        self._durations.labels(verb).observe(took_s)

    def waited(self, took_s: float, *, in_vain: bool) -> None:
        """A filter call had to wait."""
        self._waits.labels(HELD_BACK if in_vain else ANSWERED).observe(took_s)

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        for source in (self._requests, self._durations, self._waits):
            for family in source.collect():
                # The creation time of each series is not needed, and would double their number.
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                yield family
        sizes = {
            "nodes": ("Nodes in the extender's picture of the cluster.", self._extending.state.node_count),
            "pods": ("Pods on nodes in the extender's picture of the cluster.", self._extending.state.pod_count),
            "pods_under_way": (
                "Pods that were answered for and are not seen bound yet.",
                len(self._extending.underway),
            ),
            "active": ("Whether this replica is the one that answers.", int(self._active())),
        }
        for name, (text, value) in sizes.items():
            yield GaugeMetricFamily(f"moorage_extender_{name}", text, value=value)
