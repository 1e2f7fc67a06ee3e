"""Plugins that take long for a pod: counted, named when it happens again and again, and told to the engine."""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import CounterMetricFamily

from moorage.core.events import DecisionSlow
from moorage.core.values import dataclass

SLOW_S = 0.1
"""From so much time for one pod on, a plugin is slow."""
AGAIN = 3
"""A plugin is named when it was slow for so many pods in a period."""
PERIOD_S = 60.0


@dataclass(slots=True)
class _Period:
    """What a plugin did since it was last named, or since it was first slow."""

    since_s: float
    pods: int = 0
    longest_s: float = 0.0
    named: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """A plugin that was slow again and again: for how many pods since it was last named, and at worst how long."""

    plugin: str
    pods: int
    longest_s: float


class Slowness:
    """What slow plugins did; not for several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._periods: dict[str, _Period] = {}
        self._new: list[DecisionSlow] = []
        self._named: list[Slow] = []

    def note(self, namespace: str, plugin: str, took_s: float, now_s: float) -> None:
        """A plugin took so long for a pod; only told of those that are slow. `now_s` is monotonic."""
        self._counts[plugin] += 1
        self._new.append(DecisionSlow(namespace, plugin, took_s))
        period = self._periods.get(plugin)
        if period is None or now_s - period.since_s >= PERIOD_S:
            period = self._periods[plugin] = _Period(now_s)
        period.pods += 1
        period.longest_s = max(period.longest_s, took_s)
        if period.pods >= AGAIN and not period.named:
            period.named = True
            self._named.append(Slow(plugin, period.pods, period.longest_s))

    def take(self) -> tuple[list[DecisionSlow], list[Slow]]:
        """The events for the engine since the last call, and the plugins to name in the log."""
        if not self._new:
            return [], []
        new, named = self._new, self._named
        self._new, self._named = [], []
        return new, named

    def family(self) -> CounterMetricFamily:
        """How often each plugin was slow."""
        family = CounterMetricFamily(
            "moorage_plugin_slow", f"Pods for which a plugin took {SLOW_S:g} s or more; sampled.", labels=("plugin",)
        )
        for plugin, count in self._counts.items():
            family.add_metric((plugin,), count)
        return family
