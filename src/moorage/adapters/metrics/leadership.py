"""Whether this replica is the leader, as client-go's metric reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class LeadershipMetrics(Collector):
    """`leader_election_master_status` of one lease: 1 while `leading`, else 0."""

    def __init__(self, lease: str, leading: Callable[[], bool]) -> None:
        self._lease = lease
        self._leading = leading

    def collect(self) -> Iterable[Metric]:
        """The status as it is now; called for every scrape."""
        status = GaugeMetricFamily(
            "leader_election_master_status",
            "Whether this process holds the lease: 1 leads, 0 stands by.",
            labels=("name",),
        )
        status.add_metric((self._lease,), float(self._leading()))
        yield status
