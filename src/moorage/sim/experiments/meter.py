"""Looks on while a simulation or a replay runs, and knows in the end how long pods waited and what nodes were used for.

Gauges are read at up to `_MOST_SAMPLES` moments, evenly spaced over the time of the run: when there are more, every
other one is dropped and the space between them doubles. So the moments, and the means over them, depend on nothing but
the input. A pod that still waits at the end counts with the time that it has waited until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.events import BindDone, BindOutcome, Event, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.core.prices import PriceList
from moorage.core.queues import queue_name
from moorage.core.values import dataclass
from moorage.core.workload import LearnedWorkload
from moorage.engine.engine import Engine
from moorage.plugins.fragmentation import Fragmentation
from moorage.sim.experiments.gauges import GAUGES, LAST_GAUGES, GaugeContext, GaugeRow

PERCENTILES = 50, 95, 99
SECONDS, PODS = "s", "pods"
_MOST_SAMPLES = 128
_SAMPLES = 100
"""Where the length of the run is known."""
_LEAST_S = 1.0


@dataclass(slots=True)
class _Waiting:
    """A pod that needs a node."""

    since_s: float
    queue: str
    priority: int


class Meter:
    """The watcher of one combination."""

    def __init__(self, measures: Collection[str], pods: Iterable[Pod] = (), span_s: float | None = None) -> None:
        self._gauges = [gauge for name, gauge in GAUGES.items() if name in measures]
        self._last_gauges = [gauge for name, gauge in LAST_GAUGES.items() if name in measures]
        self._workload = LearnedWorkload()
        self._workload.follow(pods)
        self._context = GaugeContext(self._workload, Fragmentation(learned=self._workload), None)
        self._every_s = max(span_s / _SAMPLES, 1e-3) if span_s else _LEAST_S
        self._began_s: float | None = None
        self._now_s = 0.0
        self._samples: list[tuple[float, tuple[GaugeRow, ...]]] = []
        self._latest: tuple[GaugeRow, ...] | None = None
        """What the gauges say; None if something has happened since."""
        self._waiting: dict[str, _Waiting] = {}
        self._waited: dict[tuple[str, int], list[float]] = {}
        """Queue and priority -> how long pods waited that got a node, or went."""
        self._known: set[str] = set()
        self.counts: Counter[str] = Counter()

    def begin(self, engine: Engine, now_s: float, prices: PriceList | None) -> None:
        """Time counts from now on; pods that wait already have waited for nothing so far."""
        self._context = self._context._replace(prices=prices)
        self._began_s = self._now_s = now_s
        self._latest = None
        self._take(engine, now_s)

    # --- while it runs ---

    def turn(self, engine: Engine, now_s: float, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """Note who came, got a node or went; see `Watcher`."""
        self._now_s, self._latest = now_s, None
        for event in events:
            if isinstance(event, PodSeen):
                if event.pod.uid not in self._known:
                    self._came(engine, event.pod, now_s)
            elif isinstance(event, BindDone):
                if event.outcome is BindOutcome.BOUND:
                    self._placed(event.uid, now_s)
            elif isinstance(event, PodGone):
                self._known.discard(event.uid)
                self._end(event.uid, now_s)
        for command in commands:
            if isinstance(command, Bind):
                self.counts["decisions"] += 1
            elif isinstance(command, DeletePod):
                self.counts["evictions"] += 1

    def until(self, engine: Engine, next_s: float) -> None:
        """Read the gauges at the moments before then; see `Watcher`."""
        if self._began_s is None:
            return
        while self._next_s() < next_s:
            self._take(engine, self._next_s())
        self._now_s = max(self._now_s, next_s)

    def _came(self, engine: Engine, pod: Pod, now_s: float) -> None:
        self._known.add(pod.uid)
        self._workload.seen(pod)
        if pod.node is None and not pod.finished and pod.deleted_s is None and engine.runner_of(pod) is not None:
            template = pod.template
            self._waiting[pod.uid] = _Waiting(
                now_s, queue_name(template.labels, annotations=template.annotations), template.priority
            )
            self.counts["pods"] += 1

    def _placed(self, uid: str, now_s: float) -> None:
        if uid in self._waiting:
            self.counts["placed"] += 1
            self._end(uid, now_s)

    def _end(self, uid: str, now_s: float) -> None:
        waited = self._waiting.pop(uid, None)
        if waited is not None:
            self._waited.setdefault((waited.queue, waited.priority), []).append(self._time_s(waited, now_s))

    def _time_s(self, waiting: _Waiting, now_s: float) -> float:
        """How long it has waited; to the microsecond, as times since 1970 are not more exact."""
        since_s = max(waiting.since_s, self._began_s or waiting.since_s)
        return round(max(now_s - since_s, 0.0), 6)

    # --- gauges ---

    def _next_s(self) -> float:
        return (self._began_s or 0.0) + len(self._samples) * self._every_s

    def _take(self, engine: Engine, at_s: float) -> None:
        if len(self._samples) >= _MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._every_s *= 2
            if at_s < self._next_s():
                return
        self._samples.append((len(self._samples) * self._every_s, self._read(engine)))

    def _read(self, engine: Engine) -> tuple[GaugeRow, ...]:
        if self._latest is None:
            rows = [row for gauge in self._gauges for row in gauge(engine, self._context)]
            rows.append(GaugeRow("pending", "", float(len(self._waiting)), PODS))
            self._latest = tuple(rows)
        return self._latest

    # --- the end ---

    def rows(self, engine: Engine) -> Iterator[GaugeRow]:
        """All figures: of the end, means over the time of the run, and how long pods waited."""
        end = self._read(engine)
        yield from end
        samples = [rows for _, rows in self._samples] or [end]
        sums: dict[tuple[str, str, str], list[float]] = {}
        for rows in samples:
            for row in rows:
                sums.setdefault((row.measure, row.of, row.unit), []).append(row.value)
        for (measure, of, unit), values in sums.items():
            yield GaugeRow(f"{measure}-mean", of, sum(values) / len(values), unit)
        for gauge in self._last_gauges:
            yield from gauge(engine, self._context)
        for name in ("pods", "placed"):
            yield GaugeRow(name, "", float(self.counts[name]), PODS)

    def waiting_rows(self) -> Iterator[GaugeRow]:
        """Percentiles of how long pods waited: of all, by queue, and by priority where there are several."""
        groups: dict[str, list[float]] = {"": []}
        found = self._all_waits()
        several = len({priority for _, priority in found}) > 1
        for (queue, priority), waits in found.items():
            groups[""] += waits
            if queue:
                groups.setdefault(f"queue={queue}", []).extend(waits)
            if several:
                groups.setdefault(f"priority={priority}", []).extend(waits)
        for of in sorted(groups):
            if groups[of]:
                values = np.percentile(np.array(groups[of]), PERCENTILES, method="inverted_cdf")
                for percentile, value in zip(PERCENTILES, values.tolist(), strict=True):
                    yield GaugeRow(f"waiting-p{percentile}", of, value, SECONDS)

    def _all_waits(self) -> dict[tuple[str, int], list[float]]:
        found = {key: list(waits) for key, waits in self._waited.items()}
        for each in self._waiting.values():
            found.setdefault((each.queue, each.priority), []).append(self._time_s(each, self._now_s))
        return found

    def series(self) -> dict[str, list[list[float]]]:
        """`measure of` -> [seconds from the beginning, value] at each moment."""
        found: dict[str, list[list[float]]] = {}
        for at_s, rows in self._samples:
            for row in rows:
                found.setdefault(f"{row.measure} {row.of}".strip(), []).append([at_s, row.value])
        return found
