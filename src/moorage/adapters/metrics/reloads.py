"""How changes of the configuration file ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters import clock

APPLIED, REFUSED = "applied", "refused"


class ReloadMetrics(Collector):
    """`moorage_configuration_*`; what was read at the start counts as good, but not as a reload."""

    def __init__(self, now_s: Callable[[], float] = clock.now_s) -> None:
        self._now_s = now_s
        self._counts = {APPLIED: 0, REFUSED: 0}
        self._good = True
        self._applied_s = now_s()

    def applied(self) -> None:
        """Another configuration is in force."""
        self._counts[APPLIED] += 1
        self._applied_s = self._now_s()
        self._good = True

    def refused(self) -> None:
        """The file is no good; what was in force stays."""
        self._counts[REFUSED] += 1
        self._good = False

    def unchanged(self) -> None:
        """The file says what is in force already."""
        self._good = True

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        reloads = CounterMetricFamily(
            "moorage_configuration_reloads",
            "Changes of the configuration file, by whether they were applied or refused.",
            labels=("result",),
        )
        for result, number in self._counts.items():
            reloads.add_metric((result,), number)
        yield reloads
        yield GaugeMetricFamily(
            "moorage_configuration_last_reload_successful",
            "Whether what the configuration file says is in force: 1 yes, 0 it was refused.",
            value=float(self._good),
        )
        yield GaugeMetricFamily(
            "moorage_configuration_applied_timestamp_seconds",
            "Since when the configuration in force holds, in seconds since 1970.",
            value=self._applied_s,
        )
