"""How the two sides of a trial stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.core.trials import TrialEnd, TrialPhase
from moorage.engine.engine import Engine
from moorage.views.trials import SideAccount, TrialAccount, account_of

_SIDES: Mapping[str, tuple[str, Callable[[SideAccount], float]]] = {
    "moorage_trial_placed_pods": ("Pods that were created since the trial began, and bound.", lambda side: side.placed),
    "moorage_trial_pending_pods": (
        "Pods that were created since the trial began, were tried in vain and wait.",
        lambda side: side.pending,
    ),
    "moorage_trial_evictions": ("Pods that were evicted for pods of this side.", lambda side: side.evictions),
    "moorage_trial_failed_binds": ("Binds of pods of this side that failed.", lambda side: side.failed_binds),
    "moorage_trial_waiting_p99_seconds": (
        "The time within which 99 % of the pods were placed, or for which they have waited so far.",
        lambda side: side.waiting_p99_s,
    ),
}


class TrialMetrics(Collector):
    """`moorage_trial_*` of the trial; nothing while the configuration has none."""

    def __init__(self, engine: Engine, now_s: Callable[[], float] = clock.now_s) -> None:
        self._engine = engine
        self._now_s = now_s

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        account = account_of(self._engine, self._now_s())
        if account is None or self._engine.sides.terms is None:
            return
        yield GaugeMetricFamily(
            "moorage_trial_in_force",
            "Whether the profiles of the trial decide on its pods: 1 yes, 0 it has ended.",
            value=float(account.phase is not TrialPhase.ENDED),
        )
        yield GaugeMetricFamily(
            "moorage_trial_remaining_seconds", "How long a running trial still runs.", value=account.remaining_s or 0.0
        )
        yield _ends(account)
        for name, (text, value) in _SIDES.items():
            family = GaugeMetricFamily(name, text, labels=("side",))
            for side, each in account.sides:
                family.add_metric((side.value,), value(each))
            yield family


def _ends(account: TrialAccount) -> Metric:
    family = GaugeMetricFamily(
        "moorage_trial_ended", "Why the trial does not run any more: 1 for the reason that holds.", labels=("reason",)
    )
    for end in TrialEnd:
        family.add_metric((end.value,), float(account.end == end.value))
    return family
