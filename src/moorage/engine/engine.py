"""The engine: events in, commands out. `handle` is the only way to change state.

One call takes events over, wakes the pods that they can help, asks those that wait in Permit or PreBind again, and
decides on as many pods as the budget allows. No clock, no I/O, no threads: same events and times, same commands.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moorage.core.commands import Command, DeletePod, PatchPodStatus, PodRef, RecordEvent
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from moorage.core.pods import Condition, Pod
from moorage.core.state import NOWHERE, ClusterState, PodMove
from moorage.engine.changes import node_change
from moorage.engine.diagnosis import rejecting_plugins, unschedulable_message
from moorage.engine.flights import Flight, Flights, Stage
from moorage.engine.queue import Backoff, Place, QueuedPod, SchedulingQueue
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Nomination, Status

_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the configuration says about the queue, and the seed that breaks ties."""

    backoff: Backoff = field(default_factory=Backoff)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended without a node."""

    message: str
    rejected_by: frozenset[str]
    code: Code = Code.UNSCHEDULABLE


Observer = Callable[[Runner, Cycle], None]
"""Told of every attempt right before it, with the state as the attempt finds it; must not change anything."""


class Engine:
    """Decides for all profiles over one state and one queue."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        settings: EngineSettings | None = None,
        *,
        answers_to_all: bool = False,
        observer: Observer | None = None,
    ) -> None:
        """With `answers_to_all` the first profile also decides for scheduler names that no profile has."""
        settings = settings or EngineSettings()
        self.state = ClusterState(settings.seed)
        self.runners: Mapping[str, Runner] = {p.scheduler_name: Runner(p, self.state) for p in profiles}
        self._fallback = self.runners[profiles[0].scheduler_name] if answers_to_all else None
        sort = profiles[0].queue_sort
        self.queue = SchedulingQueue(sort.queue_key, self._admits, self._helps, settings.backoff)  # type: ignore[attr-defined]
        self.flights = Flights()
        self._changes: list[Change] = []
        self._alarms: list[tuple[float, str]] = []
        self._wakers = _wakers(profiles)
        self._observers: dict[type, Callable[[Any, float, list[Command]], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            BindDone: self._bind_done,
            DeleteDone: self._delete_done,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            ObjectSeen: self._object_seen,
            ObjectGone: self._object_gone,
        }
        self._observer = observer

    # --- the one door ---

    def handle(
        self, events: Iterable[Event], now: float, budget: int = _UNLIMITED
    ) -> tuple[list[Command], float | None]:
        """Take events over and decide on up to `budget` pods.

        Returns the commands and the time at which to call again if nothing happens before: now itself if pods are left
        that a larger budget could decide on, None if only an event can change anything.
        """
        commands: list[Command] = []
        for event in events:
            self._observers[type(event)](event, now, commands)
        self._tell_waiting(now, commands)
        self._ring(now)
        while budget > 0:
            entry = self.queue.pop(now)
            if entry is None:
                break
            self._attempt(entry, now, commands)
            budget -= 1
            if self._changes:
                self._tell_waiting(now, commands)
        return commands, self._next_wakeup(now)

    def next_change_s(self) -> float | None:
        """When time alone could change a decision: a deadline or an answer that expires.

        Unlike the time that `handle` returns this leaves out retries, which repeat the last answer if nothing happened.
        """
        times = [self.flights.next_wakeup(), self._alarms[0][0] if self._alarms else None]
        return min((time for time in times if time is not None), default=None)

    def runner_of(self, pod: Pod) -> Runner | None:
        """The runner of the profile that is responsible for a pod."""
        return self.runners.get(pod.template.scheduler_name, self._fallback)

    # --- events in ---

    def _pod_seen(self, event: PodSeen, now: float, _: list[Command]) -> None:
        pod = event.pod
        move = self.state.observe_pod(pod)
        what = _MOVES.get(move)
        if what is not None:
            self._changes.append(Change(what, pod=pod))
        if pod.node is not None or pod.finished or pod.deleted_s is not None:
            self._settled(pod)
        elif self.runner_of(pod) is not None:
            entry = self.queue.upsert(pod, now)
            if pod.nominated_node and entry.place is not Place.IN_FLIGHT:
                self._follow_nomination(pod)

    def _settled(self, pod: Pod) -> None:
        """A pod that needs no node from us any more."""
        if self.queue.remove(pod.uid) is None:
            return
        self.state.nominations.clear(pod.uid)
        if pod.node is None:
            self._abandon(pod.uid)

    def _node_seen(self, event: NodeSeen, _now: float, _: list[Command]) -> None:
        change = node_change(self.state.upsert_node(event.node), event.node)
        if change is not None:
            self._changes.append(change)

    def _node_gone(self, event: NodeGone, _now: float, _: list[Command]) -> None:
        self.state.remove_node(event.name)

    def _object_seen(self, event: ObjectSeen, _now: float, _: list[Command]) -> None:
        self.state.put_object(event.kind, event.key, event.value)
        self._changes.append(Change(What.OBJECT, kind=event.kind, key=event.key))

    def _object_gone(self, event: ObjectGone, _now: float, _: list[Command]) -> None:
        self.state.remove_object(event.kind, event.key)
        self._changes.append(Change(What.OBJECT, kind=event.kind, key=event.key))

    def _delete_done(self, event: DeleteDone, _now: float, _: list[Command]) -> None:
        """Nothing to do: the watch tells when the pod is gone."""

    def _follow_nomination(self, pod: Pod) -> None:
        """Whoever wrote status.nominatedNodeName: the promise counts."""
        if pod.nominated_node is not None and self.state.nominations.node_of(pod.uid) != pod.nominated_node:
            self.state.nominations.set(pod, pod.nominated_node)

    def _pod_gone(self, event: PodGone, _now: float, _: list[Command]) -> None:
        uid = event.uid
        self.queue.remove(uid)
        if self.state.nominations.clear(uid) is not None:
            self._changes.append(Change(What.POD_REMOVED))
        self._abandon(uid)
        record = self.state.remove_pod(uid)
        if record is not None:
            self._changes.append(Change(What.POD_REMOVED, pod=record.pod))

    def _abandon(self, uid: str) -> None:
        """A pod vanished while on its way: let the plugins give back what they hold for it."""
        flight = self.flights.remove(uid)
        if flight is not None:
            self._unreserve(flight)

    def _bind_done(self, event: BindDone, now: float, commands: list[Command]) -> None:
        flight = self.flights.get(event.uid)
        if flight is None:
            return
        if event.outcome is BindOutcome.BOUND:
            self.flights.remove(event.uid)
            self.queue.remove(event.uid)
            for plugin in flight.runner.post_bind_plugins:
                plugin.post_bind(flight.cycle, flight.row)
            commands.append(_scheduled_event(flight))
            return
        if event.outcome is BindOutcome.GONE:
            self.queue.remove(event.uid)
            self._abandon(event.uid)
            return
        if event.outcome is BindOutcome.ELSEWHERE:
            self._abandon(event.uid)
            self.queue.remove(event.uid)
            if event.node is not None:
                self.state.observe_pod(_on_node(flight.entry.pod, event.node))
            return
        self._bring_back(flight, Failure(f"binding rejected: {event.message}", frozenset(), Code.ERROR), now, commands)

    # --- waking up ---

    def _tell_waiting(self, now: float, commands: list[Command]) -> None:
        """Changes wake the pods that they can help, and flights that wait are asked again."""
        while True:
            changes, self._changes = self._changes, []
            if not self.queue.quiet:
                for change in changes:
                    self.queue.changed(change, now, self._wakers_of(change.what))
            for flight in self.flights.concerned(changes, now):
                self._go_on(flight, now, commands)
            if not self._changes:
                return

    def _wakers_of(self, what: What) -> list[str]:
        return [name for name, wakes in self._wakers.items() if wakes & what]

    def _helps(self, name: str, entry: QueuedPod, change: Change) -> bool:
        runner = self.runner_of(entry.pod)
        if name == _NO_NODES or runner is None:
            return bool(change.what & What.NODE_ADDED)
        plugin = runner.plugin(name)
        if plugin is None or not plugin.wakes & change.what:
            return False
        if change.what == What.OBJECT and change.kind not in plugin.kinds:
            return False
        return plugin.helps(entry.pod.template, change)

    def _admits(self, pod: Pod) -> bool:
        runner = self.runner_of(pod)
        if runner is None:
            return False
        for plugin in runner.pre_enqueue_plugins:
            answer = plugin.pre_enqueue(pod)
            if answer is not None and answer.code is not Code.SUCCESS:
                return False
        return True

    def _ring(self, now: float) -> None:
        """Pods whose answer changes with time alone."""
        while self._alarms and self._alarms[0][0] <= now:
            _, uid = heapq.heappop(self._alarms)
            entry = self.queue.get(uid)
            if entry is not None:
                self.queue.wake(entry, now)

    def _next_wakeup(self, now: float) -> float | None:
        if self.queue.ready():
            return now
        times = [self.queue.next_wakeup(), self.flights.next_wakeup(), self._alarms[0][0] if self._alarms else None]
        return min((time for time in times if time is not None), default=None)

    # --- deciding ---

    def _attempt(self, entry: QueuedPod, now: float, commands: list[Command]) -> None:
        """One scheduling cycle, in numbered steps."""
        pod = entry.pod
        # 1. Who decides.
        runner = self.runner_of(pod)
        if runner is None:
            self.queue.remove(pod.uid)
            return
        cycle = Cycle(pod, self.state, now)
        if self._observer is not None:
            self._observer(runner, cycle)
        # 2. Where: the promised node if it fits, else the best of all.
        try:
            row = self._choose(runner, cycle)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            self._fail(entry, runner, Failure(_plugin_error(error), frozenset(), Code.ERROR), now, commands)
            return
        # 3. Nowhere: say why, perhaps make room, wait for help.
        if row == NOWHERE:
            self._fail_unschedulable(entry, runner, cycle, now, commands)
            return
        # 4. Assume it there, and let plugins reserve what they need.
        self.state.assume(pod, row)
        self.state.nominations.clear(pod.uid)
        flight = Flight(entry, cycle, runner, row, self.state.node(row).name)
        self.flights.add(flight)
        if not self.queue.quiet:
            self._changes.append(Change(What.POD_ADDED, pod=pod))
        status = self._reserve(flight)
        if status is not None:
            self._bring_back(flight, _failure_of(status), now, commands)
            return
        # 5. Permit, PreBind, Bind: now, or when what they wait for has happened.
        self._go_on(flight, now, commands)

    def _choose(self, runner: Runner, cycle: Cycle) -> int:
        promised = self.state.nominations.node_of(cycle.pod.uid) if self.state.nominations else None
        if promised is not None:
            row = self.state.row_of(promised)
            if row is not None and runner.fits(cycle, row):
                cycle.feasible = 1
                return row
        return runner.decide(cycle)

    def _reserve(self, flight: Flight) -> Status | None:
        for plugin in flight.runner.reserve_plugins:
            status: Status | None = plugin.reserve(flight.cycle, flight.row)
            if status is not None and status.code is not Code.SUCCESS:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def _unreserve(self, flight: Flight) -> None:
        for plugin in reversed(flight.runner.reserve_plugins):
            plugin.unreserve(flight.cycle, flight.row)
        if self.state.forget(flight.entry.pod.uid) is not None:
            self._changes.append(Change(What.POD_REMOVED, pod=flight.entry.pod))

    def _go_on(self, flight: Flight, now: float, commands: list[Command]) -> None:
        new, refusal = flight.advance(now)
        commands.extend(new)
        if refusal is not None:
            self._bring_back(flight, _failure_of(refusal), now, commands)
            return
        self.flights.note(flight)
        if flight.stage is Stage.BINDING:
            self._bind(flight, now, commands)

    def _bind(self, flight: Flight, now: float, commands: list[Command]) -> None:
        for plugin in flight.runner.bind_plugins:
            answer = plugin.bind(flight.cycle, flight.row)
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    continue
                self._bring_back(flight, _failure_of(Status(answer.code, answer.reasons, plugin.name)), now, commands)
                return
            commands.append(answer)
            return
        failure = Failure("no bind plugin took the pod", frozenset(), Code.ERROR)
        self._bring_back(flight, failure, now, commands)

    # --- failing ---

    def _bring_back(self, flight: Flight, failure: Failure, now: float, commands: list[Command]) -> None:
        """Undo the assumption and put the pod back into the queue."""
        self.flights.remove(flight.entry.pod.uid)
        self._unreserve(flight)
        self._fail(flight.entry, flight.runner, failure, now, commands)

    def _fail_unschedulable(
        self, entry: QueuedPod, runner: Runner, cycle: Cycle, now: float, commands: list[Command]
    ) -> None:
        judgement = runner.judge(cycle, self.state.rows())
        message = unschedulable_message(judgement, self.state.node_count)
        nomination = self._make_room(runner, cycle, judgement)
        if nomination is not None:
            if nomination.message:
                message = f"{message} {nomination.message}"
            self._apply_nomination(entry, nomination, commands)
        if cycle.expires_s is not None:
            heapq.heappush(self._alarms, (cycle.expires_s, entry.pod.uid))
        rejected_by = rejecting_plugins(judgement) or frozenset({_NO_NODES})
        pending = judgement.refusal is not None and judgement.refusal.code is Code.PENDING
        code = Code.PENDING if pending else Code.UNSCHEDULABLE
        self._fail(entry, runner, Failure(message, rejected_by, code), now, commands)

    def _make_room(self, runner: Runner, cycle: Cycle, judgement: Judgement) -> Nomination | None:
        """PostFilter: the first plugin that has an answer decides."""
        for plugin in runner.profile.at(Point.POST_FILTER):
            answer = plugin.post_filter(cycle, runner, judgement)
            if isinstance(answer, Nomination):
                return answer
        return None

    def _apply_nomination(self, entry: QueuedPod, nomination: Nomination, commands: list[Command]) -> None:
        pod = entry.pod
        for uid in nomination.victims:
            record = self.state.record(uid)
            if record is not None:
                note = f"Preempted by pod {pod.uid} on node {nomination.node}"
                victim = _ref(record.pod)
                commands.append(DeletePod(victim, "PreemptionByScheduler", _preempted_message(pod)))
                reporter = pod.template.scheduler_name
                commands.append(RecordEvent(victim, "Normal", "Preempted", "Preempting", note, reporter, _ref(pod)))
        if nomination.node is not None:
            self.state.nominations.set(pod, nomination.node)
            commands.append(PatchPodStatus(_ref(pod), nominated_node=nomination.node))
        elif pod.nominated_node or self.state.nominations.node_of(pod.uid):
            self.state.nominations.clear(pod.uid)
            commands.append(PatchPodStatus(_ref(pod), nominated_node=""))

    def _fail(self, entry: QueuedPod, runner: Runner, failure: Failure, now: float, commands: list[Command]) -> None:
        """Tell the user, and put the pod where it waits."""
        error = failure.code is Code.ERROR
        pod = entry.pod
        entry.message = failure.message
        self.queue.requeue(
            entry, now, rejected_by=failure.rejected_by, error=error, pending=failure.code is Code.PENDING
        )
        reason = "SchedulerError" if error else "Unschedulable"
        condition = Condition("PodScheduled", "False", reason, failure.message)
        if pod.scheduled_condition != condition:
            commands.append(PatchPodStatus(_ref(pod), condition, observed_generation=pod.generation))
        reporter = runner.profile.scheduler_name
        commands.append(RecordEvent(_ref(pod), "Warning", "FailedScheduling", "Scheduling", failure.message, reporter))


_MOVES = {
    PodMove.ADDED: What.POD_ADDED,
    PodMove.MOVED: What.POD_ADDED,
    PodMove.REMOVED: What.POD_REMOVED,
    PodMove.UPDATED: What.POD_UPDATED,
}
"""What a pod's move means for waiting pods."""

_NO_NODES = "no nodes"
"""Stands for a plugin where there was no node to reject: any new node may help."""


def _wakers(profiles: Iterable[Profile]) -> dict[str, What]:
    wakers: dict[str, What] = {_NO_NODES: What.NODE_ADDED}
    for profile in profiles:
        for plugin in profile.plugins:
            wakers[plugin.name] = wakers.get(plugin.name, What(0)) | plugin.wakes
    return wakers


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.template.namespace, pod.name, pod.uid)


def _failure_of(status: Status) -> Failure:
    code = Code.ERROR if status.code is Code.ERROR else Code.UNSCHEDULABLE
    return Failure(status.message, frozenset({status.plugin}), code)


def _plugin_error(error: Exception) -> str:
    return f"running plugins failed: {type(error).__name__}: {error}"


def _preempted_message(preemptor: Pod) -> str:
    return f"{preemptor.template.scheduler_name}: preempting to accommodate a higher priority pod"


def _scheduled_event(flight: Flight) -> RecordEvent:
    pod = flight.entry.pod
    note = f"Successfully assigned {pod.key} to {flight.node}"
    return RecordEvent(_ref(pod), "Normal", "Scheduled", "Binding", note, flight.runner.profile.scheduler_name)


def _on_node(pod: Pod, node: str) -> Pod:
    return Pod(
        uid=pod.uid, name=pod.name, template=pod.template, node=node, phase=pod.phase, requests=pod.requests,
        created_s=pod.created_s, started_s=pod.started_s, generation=pod.generation,
    )  # fmt: skip
