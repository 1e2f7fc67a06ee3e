"""The scheduler's metrics, fed by looking at what goes into the engine and what comes out of it.

The engine is pure and knows nothing of metrics: the loop tells `SchedulerMetrics` of every call of `handle`, and what
the engine counts for itself is read at scrape time (`sizes`). An attempt counts when its outcome is known, a successful
one when the pod is bound. What takes a clock inside of calls is measured in some of them (`sampling`).

What several attempts in one call cost each is not known, so they share its time evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters.metrics.devices import DeviceMetrics
from moorage.adapters.metrics.sampling import Sampling
from moorage.adapters.metrics.sizes import size_families
from moorage.adapters.metrics.tally import Tallies, exponential_bounds
from moorage.core.commands import Bind, Command, DeletePod, RecordEvent
from moorage.core.events import BindDone, Event, PatchDone
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.recovery import RELEASED
from moorage.engine.units import Place
from moorage.framework.status import Code

ATTEMPT_BOUNDS_S = exponential_bounds(0.001, 2, 15)
SLI_BOUNDS_S = exponential_bounds(0.01, 2, 20)
ATTEMPTS_BOUNDS = exponential_bounds(1, 2, 5)
VICTIMS_BOUNDS = exponential_bounds(1, 2, 7)
MANY_ATTEMPTS = 15
"""From so many attempts on, the label `attempts` does not tell them apart."""

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_SCHEDULED_EVENT, _FAILED_EVENT = "Scheduled", "FailedScheduling"
"""Reasons of the Kubernetes events with which the engine tells how an attempt ended."""
_RESULTS = {Code.SUCCESS: SCHEDULED, Code.ERROR: ERROR}
_SUCCESS, _ERROR = Code.SUCCESS.value, Code.ERROR.value
_ATTEMPT_LABELS = tuple(f"{MANY_ATTEMPTS}+" if n >= MANY_ATTEMPTS else str(n) for n in range(MANY_ATTEMPTS + 1))


@dataclass(frozen=True, slots=True)
class MeasuredTurn:
    """One call of the engine. `began_s` and `ended_s` are monotonic, `now_s` is the time that the engine was told."""

    events: Sequence[Event]
    commands: Sequence[Command]
    now_s: float
    began_s: float
    ended_s: float


_Binding = tuple[float, float, int, float]
"""Of a pod on its way: when its decision began and ended (monotonic), attempts, since when it could be tried (engine's
time). A plain tuple, because one is made for every decision."""


class SchedulerMetrics(Collector):
    """The metrics of one engine; not for several threads."""

    def __init__(self, engine: Engine, timer_s: Callable[[], float] = perf_counter) -> None:
        self._engine = engine
        self.sampling = Sampling(engine, timer_s)
        self._binders = _binders(engine)
        self._bindings: dict[str, _Binding] = {}
        self._attempt_s = Tallies(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, from the decision to the bound pod.",
            ("result", "profile"),
            ATTEMPT_BOUNDS_S,
        )
        self._deciding_s = Tallies(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long the decision alone took.",
            (),
            ATTEMPT_BOUNDS_S,
        )
        self._attempts = Tallies(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", (), ATTEMPTS_BOUNDS
        )
        self._sli_s = Tallies(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the moment a pod could be tried until it was bound, over all attempts.",
            ("attempts",),
            SLI_BOUNDS_S,
        )
        self._victims = Tallies(
            "scheduler_preemption_victims", "Pods that were evicted for one other.", (), VICTIMS_BOUNDS
        )
        self._permit_s = Tallies(
            "scheduler_permit_wait_duration_seconds", "How long pods waited in Permit.", ("result",), ATTEMPT_BOUNDS_S
        )
        self._gang_attempt_s = Tallies(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "How long an attempt to place a gang took.",
            ("result", "profile"),
            ATTEMPT_BOUNDS_S,
        )
        self._gang_deciding_s = Tallies(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "How long the decision on a gang alone took.",
            (),
            ATTEMPT_BOUNDS_S,
        )
        self._gangs_released = 0
        self._devices = DeviceMetrics(engine)

    def reequip(self) -> None:
        """The engine has other profiles; called between two of its turns."""
        self._binders = _binders(self._engine)
        self.sampling.reequip()

    # --- feeding ---

    def observe(self, turn: MeasuredTurn) -> None:
        """Take note of one call of the engine, before its commands are carried out."""
        self.sampling.timed(turn.ended_s - turn.began_s)
        if turn.commands:
            self._count_outcomes(turn)
        for event in turn.events:
            if type(event) is BindDone:
                # Pods that vanished or were bound by another scheduler in the meantime: their attempt has no outcome.
                self._bindings.pop(event.uid, None)
            elif type(event) is PatchDone:
                self._devices.written(event)
        self._devices.observe()
        waited = self._engine.bindings.waited
        while waited:
            result, since_s = waited.popleft()
            self._permit_s.observe((result.value,), turn.now_s - since_s)
        if self._engine.gangs.tried:
            self._count_gangs(turn)

    def _count_gangs(self, turn: MeasuredTurn) -> None:
        """Gangs that were tried in this turn; they share its time evenly."""
        tried = self._engine.gangs.tried
        each_s = (turn.ended_s - turn.began_s) / len(tried)
        self._gang_deciding_s.observe((), each_s, len(tried))
        while tried:
            code, profile = tried.popleft()
            self._gang_attempt_s.observe((_RESULTS.get(code, UNSCHEDULABLE), profile), each_s)

    def _count_outcomes(self, turn: MeasuredTurn) -> None:
        binds: list[str] = []
        failures: list[RecordEvent] = []
        evictions: list[DeletePod] = []
        for command in turn.commands:
            if type(command) is Bind:
                binds.append(command.pod.uid)
            elif type(command) is RecordEvent:
                if command.reason == _SCHEDULED_EVENT:
                    self._scheduled(command, turn)
                elif command.reason == _FAILED_EVENT:
                    failures.append(command)
            elif type(command) is DeletePod:
                evictions.append(command)
        if binds or failures:
            self._decided(binds, failures, turn)
        if evictions:
            self._evicted(evictions)

    def _evicted(self, evictions: Iterable[DeletePod]) -> None:
        """Victims by preemptor; a gang is released in one turn, with the same message for all its members."""
        victims = Counter(eviction.preemptor for eviction in evictions if eviction.preemptor is not None)
        for number in victims.values():
            self._victims.observe((), number)
        self._gangs_released += len({eviction.message for eviction in evictions if eviction.reason == RELEASED})

    def _decided(self, binds: Sequence[str], failures: Iterable[RecordEvent], turn: MeasuredTurn) -> None:
        """Decisions of this turn, and binds of earlier ones that failed."""
        misfits: list[RecordEvent] = []
        for failure in failures:
            binding = self._bindings.pop(failure.pod.uid, None)
            if binding is not None:
                began_s, ordered_s, _, _ = binding
                self._failed(failure, turn.began_s - began_s)
                self._answered(failure.reporter, turn.began_s - ordered_s, _ERROR)
            elif self._was_tried(failure.pod.uid):
                misfits.append(failure)
        decisions = len(binds) + len(misfits)
        if not decisions:
            return
        each_s = (turn.ended_s - turn.began_s) / decisions
        self._deciding_s.observe((), each_s, decisions)
        for failure in misfits:
            self._failed(failure, each_s)
        began_s, find = turn.ended_s - each_s, self._engine.queue.get
        for uid in binds:
            entry = find(uid)
            if entry is not None:
                queued_s = entry.first_s if entry.ready_s is None else entry.ready_s
                self._bindings[uid] = (began_s, turn.ended_s, entry.attempts, queued_s)

    def _was_tried(self, uid: str) -> bool:
        """Whether a pod's failure tells of an attempt, and not merely of what keeps it from being tried."""
        entry = self._engine.queue.get(uid)
        return entry is None or (entry.attempts > 0 and entry.place is not Place.GATED)

    def _scheduled(self, command: RecordEvent, turn: MeasuredTurn) -> None:
        binding = self._bindings.pop(command.pod.uid, None)
        if binding is None:
            return
        began_s, ordered_s, attempts, queued_s = binding
        self._attempt_s.observe((SCHEDULED, command.reporter), turn.began_s - began_s)
        self._answered(command.reporter, turn.began_s - ordered_s, _SUCCESS)
        self._attempts.observe((), attempts)
        self._sli_s.observe((_ATTEMPT_LABELS[min(attempts, MANY_ATTEMPTS)],), turn.now_s - queued_s)

    def _answered(self, profile: str, took_s: float, status: str) -> None:
        self.sampling.bound(profile, self._binders.get(profile, ""), took_s, status)

    def _failed(self, command: RecordEvent, took_s: float) -> None:
        entry = self._engine.queue.get(command.pod.uid)
        error = entry is not None and self._engine.queue.unit_of(entry).failed_by_error
        self._attempt_s.observe((ERROR if error else UNSCHEDULABLE, command.reporter), took_s)

    # --- reading ---

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        yield _outcomes("scheduler_schedule_attempts", "Attempts to place a pod, by outcome.", self._attempt_s)
        gangs = "Attempts to place a gang, by outcome."
        yield _outcomes("scheduler_podgroup_schedule_attempts", gangs, self._gang_attempt_s)
        for tallies in (
            self._attempt_s, self._deciding_s, self._attempts, self._sli_s, self._victims, self._permit_s,
            self._gang_attempt_s, self._gang_deciding_s,
        ):  # fmt: skip
            yield tallies.family()
        yield from self.sampling.families()
        yield from size_families(self._engine)
        yield from self._devices.collect()
        yield CounterMetricFamily(
            "moorage_gangs_released",
            "Gangs of which members were deleted because a start that broke off could not be completed.",
            value=self._gangs_released,
        )


def _binders(engine: Engine) -> dict[str, str]:
    """Profile -> the plugin that binds its pods."""
    return {name: runner.plugins.bind[0].name for name, runner in engine.runners.items() if runner.plugins.bind}


def _outcomes(name: str, text: str, durations: Tallies) -> Metric:
    """How many of what was timed ended how."""
    family = CounterMetricFamily(name, text, labels=("result", "profile"))
    for values, tally in durations.by_values.items():
        family.add_metric(values, tally.count)
    return family
