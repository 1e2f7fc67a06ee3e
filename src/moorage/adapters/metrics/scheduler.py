"""The scheduler's metrics, fed by looking at what goes into the engine and what comes out of it.

The engine is pure and knows nothing of metrics: the loop tells `SchedulerMetrics` of every call of `handle`, and sizes
are read when somebody asks for them. An attempt counts when its outcome is known, a successful one when the pod is
bound.

What several attempts in one call cost each is not known, so they share its time evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters.metrics.tally import Tally, exponential_bounds
from moorage.core.commands import Bind, Command, RecordEvent
from moorage.core.events import BindDone, Event, PodGone, PodSeen
from moorage.engine.engine import Engine
from moorage.engine.queue import Place

ATTEMPT_BOUNDS_S = exponential_bounds(0.001, 2, 15)
SLI_BOUNDS_S = exponential_bounds(0.01, 2, 20)
ATTEMPTS_BOUNDS = exponential_bounds(1, 2, 5)
MANY_ATTEMPTS = 15
"""From so many attempts on, the label `attempts` does not tell them apart."""
QUEUES = ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_ADDED, _FAILED = "UnscheduledPodAdd", "ScheduleAttemptFailure"
"""kube-scheduler's names for why a pod enters a queue."""
_SCHEDULED_EVENT, _FAILED_EVENT = "Scheduled", "FailedScheduling"
"""Reasons of the Kubernetes events with which the engine tells how an attempt ended."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of the engine. `began_s` and `ended_s` are monotonic, `now_s` is the time that the engine was told."""

    events: Sequence[Event]
    commands: Sequence[Command]
    now_s: float
    began_s: float
    ended_s: float


_Binding = tuple[float, int, float]
"""Of a pod on its way: when its decision began (monotonic), attempts, since when it could be tried (engine's time).

A plain tuple, because one is made for every decision.
"""


class SchedulerMetrics(Collector):
    """The metrics of one engine; not for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bindings: dict[str, _Binding] = {}
        self._attempt_s: dict[tuple[str, str], Tally] = {}
        """By result and profile; how many there are is also the number of attempts."""
        self._deciding_s = Tally(ATTEMPT_BOUNDS_S)
        self._attempts = Tally(ATTEMPTS_BOUNDS)
        self._sli_s: dict[int, Tally] = {}
        self._incoming: Counter[tuple[str, str]] = Counter()
        self._gated: dict[str, float | None] = {}
        """Pods that came with gates -> when they were first tried, None while they have not been."""

    # --- feeding ---

    def observe(self, turn: Turn) -> None:
        """Take note of one call of the engine, before its commands are carried out."""
        if turn.events:
            self._count_newcomers(turn)
        if turn.commands:
            self._count_outcomes(turn)
        for event in turn.events:
            if type(event) is BindDone:
                # Pods that vanished or were bound by somebody else on the way: their attempt has no outcome.
                self._bindings.pop(event.uid, None)
            elif type(event) is PodGone:
                self._gated.pop(event.uid, None)

    def _count_outcomes(self, turn: Turn) -> None:
        binds: list[str] = []
        failures: list[RecordEvent] = []
        for command in turn.commands:
            if type(command) is Bind:
                binds.append(command.pod.uid)
            elif type(command) is RecordEvent:
                if command.reason == _SCHEDULED_EVENT:
                    self._scheduled(command, turn)
                elif command.reason == _FAILED_EVENT:
                    failures.append(command)
        if binds or failures:
            self._decided(binds, failures, turn)

    def _count_newcomers(self, turn: Turn) -> None:
        find, new = self._engine.queue.get, set[str]()
        for event in turn.events:
            if type(event) is PodSeen and event.pod.node is None:
                uid = event.pod.uid
                entry = find(uid)
                if entry is not None and entry.first_s == turn.now_s and uid not in new:
                    new.add(uid)
                    # kube-scheduler, too, counts gated newcomers among the unschedulable here.
                    gated = entry.place is Place.GATED
                    self._incoming[("unschedulable", _ADDED) if gated else ("active", _ADDED)] += 1
                    if gated:
                        self._gated[uid] = None

    def _decided(self, binds: Sequence[str], failures: Iterable[RecordEvent], turn: Turn) -> None:
        """Decisions of this turn, and binds of earlier ones that failed."""
        late = [failure for failure in failures if failure.pod.uid in self._bindings]
        misfits = [failure for failure in failures if failure.pod.uid not in self._bindings]
        for failure in late:
            began_s, _, _ = self._bindings.pop(failure.pod.uid)
            self._failed(failure, turn.began_s - began_s)
        decisions = len(binds) + len(misfits)
        if not decisions:
            return
        each_s = (turn.ended_s - turn.began_s) / decisions
        self._deciding_s.observe(each_s, decisions)
        for failure in misfits:
            self._failed(failure, each_s)
            self._tried(failure.pod.uid, turn.now_s)
        began_s, find = turn.ended_s - each_s, self._engine.queue.get
        for uid in binds:
            entry = find(uid)
            if entry is not None:
                queued_s = entry.first_s if not self._gated else self._tried(uid, turn.now_s) or entry.first_s
                self._bindings[uid] = (began_s, entry.attempts, queued_s)

    def _tried(self, uid: str, now_s: float) -> float | None:
        """When a pod that came with gates was first tried; None for others, whose time runs from their arrival."""
        if uid not in self._gated:
            return None
        first_s = self._gated[uid]
        if first_s is None:
            first_s = self._gated[uid] = now_s
        return first_s

    def _scheduled(self, command: RecordEvent, turn: Turn) -> None:
        binding = self._bindings.pop(command.pod.uid, None)
        if binding is None:
            return
        self._gated.pop(command.pod.uid, None)
        began_s, attempts, queued_s = binding
        self._attempt(SCHEDULED, command.reporter, turn.began_s - began_s)
        self._attempts.observe(attempts)
        label = min(attempts, MANY_ATTEMPTS)
        tally = self._sli_s.get(label)
        if tally is None:
            tally = self._sli_s[label] = Tally(SLI_BOUNDS_S)
        tally.observe(turn.now_s - queued_s)

    def _failed(self, command: RecordEvent, took_s: float) -> None:
        entry = self._engine.queue.get(command.pod.uid)
        error = entry is not None and entry.failed_by_error
        self._attempt(ERROR if error else UNSCHEDULABLE, command.reporter, took_s)
        backs_off = error or (entry is not None and not entry.rejected_by)
        self._incoming["backoff" if backs_off else "unschedulable", _FAILED] += 1

    def _attempt(self, result: str, profile: str, took_s: float) -> None:
        tally = self._attempt_s.get((result, profile))
        if tally is None:
            tally = self._attempt_s[result, profile] = Tally(ATTEMPT_BOUNDS_S)
        tally.observe(took_s)

    # --- reading ---

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        yield from self._attempt_families()
        yield from self._pod_families()
        yield from self._size_families()

    def _attempt_families(self) -> Iterable[Metric]:
        labels = ("result", "profile")
        attempts = CounterMetricFamily(
            "scheduler_schedule_attempts", "Attempts to place a pod, by outcome.", labels=labels
        )
        durations = HistogramMetricFamily(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, from the decision to the bound pod.",
            labels=labels,
        )
        for values, tally in self._attempt_s.items():
            attempts.add_metric(values, tally.count)
            durations.add_metric(values, tally.buckets(), tally.sum)
        yield attempts
        yield durations
        deciding = HistogramMetricFamily(
            "scheduler_scheduling_algorithm_duration_seconds", "How long the decision alone took."
        )
        deciding.add_metric((), self._deciding_s.buckets(), self._deciding_s.sum)
        yield deciding

    def _pod_families(self) -> Iterable[Metric]:
        attempts = HistogramMetricFamily("scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.")
        attempts.add_metric((), self._attempts.buckets(), self._attempts.sum)
        yield attempts
        sli = HistogramMetricFamily(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the moment a pod could be tried until it was bound, over all attempts.",
            labels=("attempts",),
        )
        for number, tally in sorted(self._sli_s.items()):
            label = f"{MANY_ATTEMPTS}+" if number >= MANY_ATTEMPTS else str(number)
            sli.add_metric((label,), tally.buckets(), tally.sum)
        yield sli
        incoming = CounterMetricFamily(
            "scheduler_queue_incoming_pods",
            "Pods that entered a queue, by queue and reason.",
            labels=("queue", "event"),
        )
        for values, number in self._incoming.items():
            incoming.add_metric(values, number)
        yield incoming

    def _size_families(self) -> Iterable[Metric]:
        pending = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue.", labels=("queue",))
        places = Counter(entry.place.value for entry in self._engine.queue.entries())
        for queue in QUEUES:
            pending.add_metric((queue,), places[queue])
        yield pending
        cache = GaugeMetricFamily(
            "scheduler_cache_size", "Objects in the scheduler's cache, by type.", labels=("type",)
        )
        state = self._engine.state
        sizes = {"assumed_pods": len(self._engine.flights), "pods": state.pod_count, "nodes": state.node_count}
        for name, number in sizes.items():
            cache.add_metric((name,), number)
        yield cache
