"""The engine: events in, commands out. `handle` is the only way to change state.

One call takes events over, wakes the pods that they can help, asks those that wait in Permit or PreBind again, and
decides on as many pods as the budget allows. No clock, no I/O, no threads: same events and times, same commands.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moorage.core.commands import Command, PatchPodStatus, RecordEvent
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    ExtendersAnswered,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
    PreemptionAnswered,
)
from moorage.core.pods import Condition, Pod
from moorage.core.state import NOWHERE, ClusterState, PodMove
from moorage.engine.asking import Asking, Endings
from moorage.engine.changes import MOVES, node_change, wakers_of
from moorage.engine.evictor import Evictor, preempted_event
from moorage.engine.evictor import ref_of as _ref
from moorage.engine.failures import EXTENDER, NO_NODES, Failure, failure_of, failure_of_judgement
from moorage.engine.faults import Faults, describe
from moorage.engine.flights import Flight, Flights, Stage
from moorage.engine.queue import Backoff, Place, QueuedPod, SchedulingQueue
from moorage.framework.changes import Change, What
from moorage.framework.configuration import Extender
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
    extenders: tuple[Extender, ...] = ()
    """HTTP extenders to ask; whoever names them here must answer what the engine asks them."""


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
        self.queue = SchedulingQueue(sort.queue_key, self._gate, self._helps, settings.backoff)  # type: ignore[attr-defined]
        self.flights = Flights()
        self.faults = Faults()
        self._evictor = Evictor(self.state, self.queue)
        self._changes: list[Change] = []
        self._alarms: list[tuple[float, str]] = []
        self._wakers = wakers_of(profiles)
        self._observers: dict[type, Callable[[Any, float, list[Command]], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            BindDone: self._bind_done,
            DeleteDone: self._delete_done,
            PatchDone: self._patch_done,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            ObjectSeen: self._object_seen,
            ObjectGone: self._object_gone,
        }
        self._observer = observer
        self.asking: Asking | None = None
        """Who asks extenders; None without any."""
        if settings.extenders:
            endings = Endings(self._place, self._fail_unschedulable, self._conclude)
            self.asking = asking = Asking(settings.extenders, self.state, self.queue, endings)
            self._observers |= {ExtendersAnswered: asking.nodes_answered, PreemptionAnswered: asking.victims_answered}

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
            entry = self.queue.pop(now) if self.asking is None else self.asking.pop(now)
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
        record = self.state.record(pod.uid)
        before = None if record is None else record.pod
        move = self.state.observe_pod(pod)
        what = MOVES.get(move)
        if what is not None:
            self._changes.append(Change(what, pod=pod, before=before))
            if move is PodMove.MOVED:
                self._changes.append(Change(What.POD_REMOVED, pod=before))
        if pod.finished or (pod.deleted_s is not None and pod.node is None):
            self._evictor.gone(pod.uid, now)
        elif pod.deleted_s is not None:
            self._evictor.leaving(pod.uid, now)
        if pod.node is not None or pod.finished or pod.deleted_s is not None:
            self._settled(pod)
        elif self.runner_of(pod) is not None:
            self._waits(pod, now)

    def _waits(self, pod: Pod, now: float) -> None:
        """A pod that needs a node from us."""
        known = self.queue.get(pod.uid)
        if known is None and self.state.record(pod.uid) is not None:
            return  # its bind succeeded, and this is an older version of it
        before = None if known is None else known.pod.nominated_node
        entry = self.queue.upsert(pod, now)
        if (before or pod.nominated_node) and (entry.place is not Place.IN_FLIGHT or self._is_asked_about(entry)):
            self._follow_nomination(pod, before)

    def _is_asked_about(self, entry: QueuedPod) -> bool:
        """Whether a pod is in flight only because extenders are to be asked about it."""
        return self.asking is not None and self.asking.has(entry)

    def _settled(self, pod: Pod) -> None:
        """A pod that needs no node from us any more."""
        flight = self.flights.get(pod.uid)
        if self.queue.remove(pod.uid) is None and flight is None:
            return
        self._end_promise(pod.uid)
        self.state.evictions.forget(pod.uid)
        if flight is not None and (pod.node is None or flight.stage is not Stage.BINDING):
            self._abandon(pod.uid)

    def _node_seen(self, event: NodeSeen, _now: float, _: list[Command]) -> None:
        change = node_change(self.state.upsert_node(event.node), event.node)
        if change is not None:
            self._changes.append(change)

    def _node_gone(self, event: NodeGone, now: float, commands: list[Command]) -> None:
        for flight in self.flights.waiting_for(event.name):
            message = f"node {event.name} was deleted while the pod waited to be bound to it"
            self._bring_back(flight, Failure(message, frozenset()), now, commands)
        node = self.state.remove_node(event.name)
        if node is not None:
            self._changes.append(Change(What.NODE_REMOVED, node=node))

    def _object_seen(self, event: ObjectSeen, _now: float, _: list[Command]) -> None:
        self.state.put_object(event.kind, event.key, event.value)
        self._changes.append(Change(What.OBJECT, kind=event.kind, key=event.key))

    def _object_gone(self, event: ObjectGone, _now: float, _: list[Command]) -> None:
        self.state.remove_object(event.kind, event.key)
        self._changes.append(Change(What.OBJECT, kind=event.kind, key=event.key))

    def _delete_done(self, event: DeleteDone, now: float, commands: list[Command]) -> None:
        """The preemptor is held no longer; the watch tells when the pod is gone."""
        self._evictor.answered(event, now, commands)

    def _patch_done(self, event: PatchDone, now: float, commands: list[Command]) -> None:
        """A write that PreBind waits for: the watch shows success, a failure ends the attempt."""
        flight = self.flights.get(event.command.pod.uid)
        if not event.ok and flight is not None and event.command in flight.sent:
            name = "" if flight.held_by is None else flight.held_by.name
            self._bring_back(flight, failure_of(Status(Code.ERROR, (event.message,), name)), now, commands)

    def _follow_nomination(self, pod: Pod, before: str | None) -> None:
        """Whoever writes status.nominatedNodeName: the promise counts. What was not written anew is no news."""
        if pod.nominated_node and pod.nominated_node != before:
            self.state.nominations.set(pod, pod.nominated_node)
        elif not pod.nominated_node and before:
            self._end_promise(pod.uid)

    def _end_promise(self, uid: str) -> None:
        """A node is promised to a pod no longer: others may have what it was to get."""
        pod = self.state.nominations.pod(uid)
        if pod is not None:
            self.state.nominations.clear(uid)
            self._changes.append(Change(What.POD_REMOVED, pod=pod))

    def _pod_gone(self, event: PodGone, now: float, _: list[Command]) -> None:
        uid = event.uid
        self.queue.remove(uid)
        self._evictor.gone(uid, now)
        self._end_promise(uid)
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
        if flight is None or flight.stage is not Stage.BINDING:
            return
        record = self.state.record(event.uid)
        seen_on = record.node if record is not None and not record.assumed else None
        if event.outcome is BindOutcome.BOUND or seen_on == flight.node:
            self._arrived(flight, commands)
        elif event.outcome is BindOutcome.FAILED and seen_on is None:
            failure = Failure(f"binding rejected: {event.message}", frozenset(), Code.ERROR)
            self._bring_back(flight, failure, now, commands)
        else:
            self.queue.remove(event.uid)
            self._abandon(event.uid)
            if event.outcome is BindOutcome.ELSEWHERE and event.node is not None and seen_on is None:
                self._take_over(flight.entry.pod, event.node)

    def _arrived(self, flight: Flight, commands: list[Command]) -> None:
        uid = flight.entry.pod.uid
        self.flights.remove(uid)
        self.queue.remove(uid)
        for plugin in flight.late.post_bind:
            self.faults.ask(plugin, "post_bind", flight.cycle, flight.row)
        commands.append(_scheduled_event(flight))

    def _take_over(self, pod: Pod, node: str) -> None:
        """Somebody else bound the pod; it counts there from now on, and stays until the watch has caught up."""
        self.state.observe_pod(_on_node(pod, node))
        record = self.state.record(pod.uid)
        if record is not None:
            record.assumed = True
            self._changes.append(Change(What.POD_ADDED, pod=record.pod))

    # --- waking up ---

    def _tell_waiting(self, now: float, commands: list[Command]) -> None:
        """Changes wake the pods that they can help, and flights that wait are asked again."""
        while True:
            changes, self._changes = self._changes, []
            if self.asking is not None:
                self.asking.changed(changes)
            if not self.queue.quiet:
                for change in changes:
                    self.queue.changed(change, now, self._wakers_of(change.what))
            for flight in self.flights.concerned(changes, now):
                if self.flights.get(flight.entry.pod.uid) is flight:
                    self._go_on(flight, now, commands)
            if not self._changes:
                return

    def _wakers_of(self, what: What) -> list[str]:
        return [name for name, wakes in self._wakers.items() if wakes & what]

    def _helps(self, name: str, entry: QueuedPod, change: Change) -> bool:
        if change.pod is not None and change.pod.uid == entry.pod.uid and change.what != What.SELF:
            return False  # what became of its own attempt is no news
        runner = self.runner_of(entry.pod)
        if name == NO_NODES or runner is None:
            return bool(change.what & What.NODE_ADDED)
        if name == EXTENDER:
            return True
        plugin = runner.plugin(name)
        if plugin is None or not plugin.wakes & change.what:
            return False
        if change.what == What.OBJECT and change.kind not in plugin.kinds:
            return False
        answer = self.faults.ask(plugin, "helps", entry.pod.template, change)
        return isinstance(answer, Status) or bool(answer)

    def _gate(self, pod: Pod) -> str | None:
        runner = self.runner_of(pod)
        if runner is None:
            return ""
        for plugin in runner.pre_enqueue_plugins:
            try:
                answer = plugin.pre_enqueue(pod)
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
                answer = self.faults.note(plugin, "pre_enqueue", error)
            if answer is not None and answer.code is not Code.SUCCESS:
                return str(plugin.name)
        return None

    def _ring(self, now: float) -> None:
        """Pods whose answer changes with time alone."""
        while self._alarms and self._alarms[0][0] <= now:
            _, uid = heapq.heappop(self._alarms)
            entry = self.queue.get(uid)
            if entry is not None:
                self.queue.wake(entry, now)

    def _next_wakeup(self, now: float) -> float | None:
        if self.queue.ready() or (self.asking is not None and self.asking.ready()):
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
        if self.asking is not None and self.asking.takes(entry, runner, cycle, now, commands):
            return
        # 2. Where: the promised node if it fits, else the best of all.
        judgement: Judgement | None = None
        try:
            row = self._choose(runner, cycle)
            if row == NOWHERE:
                judgement = runner.judge(cycle, self.state.rows())
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            message = f"running plugins failed: {describe(error)}"
            self._fail(entry, runner, Failure(message, frozenset(), Code.ERROR), now, commands)
            return
        # 3. Nowhere: say why, perhaps make room, wait for help.
        if judgement is not None:
            self._fail_unschedulable(entry, runner, cycle, judgement, now, commands)
            return
        self._place(entry, runner, cycle, row, now, commands)

    def _place(
        self, entry: QueuedPod, runner: Runner, cycle: Cycle, row: int, now: float, commands: list[Command]
    ) -> None:
        """The other half of the cycle, once there is a row."""
        pod = entry.pod
        # 4. Assume it there, and let plugins reserve what they need.
        node = self.state.assume(pod, row).node
        flight = Flight(entry, cycle, runner, row, node, runner.late(cycle))
        if self.state.nominations and self.state.nominations.clear(pod.uid) not in (None, flight.node):
            self._changes.append(Change(What.POD_REMOVED, pod=pod))  # what was promised there is free
        self.flights.add(flight)
        status = self._reserve(flight)
        if status is not None:
            self._bring_back(flight, failure_of(status), now, commands)
            return
        # 5. Permit, PreBind, Bind: now, or when what they wait for has happened.
        self._go_on(flight, now, commands)
        # 6. What did not last is not worth telling.
        if self.flights.get(pod.uid) is flight:
            flight.told = True
            if not self.queue.quiet or self.flights.waiting:
                self._changes.append(Change(What.POD_ADDED, pod=pod))

    def _choose(self, runner: Runner, cycle: Cycle) -> int:
        promised = self.state.nominations.node_of(cycle.pod.uid) if self.state.nominations else None
        if promised is not None:
            row = self.state.row_of(promised)
            if row is not None and runner.fits(cycle, row):
                cycle.feasible = 1
                return row
        return runner.decide(cycle)

    def _reserve(self, flight: Flight) -> Status | None:
        for plugin in flight.late.reserve:
            status: Status | None = self.faults.ask(plugin, "reserve", flight.cycle, flight.row)
            if status is not None and status.code is not Code.SUCCESS:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def _unreserve(self, flight: Flight) -> None:
        for plugin in reversed(flight.late.reserve):
            self.faults.ask(plugin, "unreserve", flight.cycle, flight.row)
        if self.state.forget(flight.entry.pod.uid) is not None and flight.told:
            self._changes.append(Change(What.POD_REMOVED, pod=flight.entry.pod))

    def _go_on(self, flight: Flight, now: float, commands: list[Command]) -> None:
        new, refusal = flight.advance(now)
        commands.extend(new)
        if refusal is not None:
            self._bring_back(flight, failure_of(refusal), now, commands)
            return
        self.flights.note(flight)
        if flight.stage is Stage.BINDING:
            self._bind(flight, now, commands)
        elif flight.entry.pod.nominated_node != flight.node and not flight.announced:
            flight.announced = True
            commands.append(PatchPodStatus(_ref(flight.entry.pod), nominated_node=flight.node))

    def _bind(self, flight: Flight, now: float, commands: list[Command]) -> None:
        for plugin in flight.runner.bind_plugins:
            try:
                answer = plugin.bind(flight.cycle, flight.row)
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
                answer = self.faults.note(plugin, "bind", error)
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    continue
                self._bring_back(flight, failure_of(Status(answer.code, answer.reasons, plugin.name)), now, commands)
                return
            commands.append(answer if self.asking is None else self.asking.delegated(answer, flight.cycle.template))
            return
        failure = Failure("no bind plugin took the pod", frozenset(), Code.ERROR)
        self._bring_back(flight, failure, now, commands)

    # --- failing ---

    def _bring_back(self, flight: Flight, failure: Failure, now: float, commands: list[Command]) -> None:
        """Undo the assumption and put the pod back into the queue."""
        pod = flight.entry.pod
        self.flights.remove(pod.uid)
        self._unreserve(flight)
        if self.queue.get(pod.uid) is not flight.entry:
            return
        if pod.nominated_node and not flight.announced:
            self.state.nominations.set(pod, pod.nominated_node)
        self._fail(flight.entry, flight.runner, failure, now, commands, "" if flight.announced else None)

    def _fail_unschedulable(
        self,
        entry: QueuedPod,
        runner: Runner,
        cycle: Cycle,
        judgement: Judgement,
        now: float,
        commands: list[Command],
    ) -> None:
        if cycle.expires_s is not None and cycle.expires_s > now:
            heapq.heappush(self._alarms, (cycle.expires_s, entry.pod.uid))
        failure = failure_of_judgement(judgement, self.state.node_count)
        nomination: Nomination | None = None
        if failure.code is not Code.ERROR and self.state.node_count:
            if self.asking is not None:
                self.asking.prepare(cycle)
            nomination, tail = self._make_room(runner, cycle, judgement)
            if self.asking is not None and self.asking.consults(entry, runner, failure, nomination, commands):
                return
            if tail:
                failure = replace(failure, message=f"{failure.message} {tail}")
        self._conclude(entry, runner, failure, nomination, now, commands)

    def _conclude(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        nomination: Nomination | None,
        now: float,
        commands: list[Command],
    ) -> None:
        """Do what was found out to help, and let the pod wait."""
        nominate = None if nomination is None else self._apply_nomination(entry, nomination, now, commands)
        self._fail(entry, runner, failure, now, commands, nominate)

    def _make_room(self, runner: Runner, cycle: Cycle, judgement: Judgement) -> tuple[Nomination | None, str]:
        """PostFilter: the first plugin that nominates a node decides, else all are heard; also the message's tail."""
        said: list[str] = []
        found: Nomination | None = None
        for plugin in runner.profile.at(Point.POST_FILTER):
            answer = self.faults.ask(plugin, "post_filter", cycle, runner, judgement)
            if isinstance(answer, Nomination):
                if answer.node is not None:
                    return answer, answer.message
                found = answer
                said.append(answer.message)
            elif isinstance(answer, Status):
                said.append(answer.message)
                if answer.code is Code.ERROR:
                    break
        return found, ", ".join(text for text in said if text)

    def _apply_nomination(
        self, entry: QueuedPod, nomination: Nomination, now: float, commands: list[Command]
    ) -> str | None:
        """Evict, and promise the node; returns what status.nominatedNodeName should become, None if it may stay."""
        pod, promised = entry.pod, self.state.nominations.node_of(entry.pod.uid)
        if promised not in (None, nomination.node):
            self._end_promise(pod.uid)
        if nomination.node is None:
            return "" if promised or pod.nominated_node else None
        for uid in nomination.victims:
            self._evict(uid, pod, nomination.node, now, commands)
        for other in self.state.nominations.on(nomination.node):
            if other.template.priority < pod.template.priority:
                self._break_promise(other, now, commands)
        self.state.nominations.set(pod, nomination.node)
        return None if pod.nominated_node == nomination.node else nomination.node

    def _evict(self, uid: str, preemptor: Pod, node: str, now: float, commands: list[Command]) -> None:
        """Delete a victim; one that still waits in Permit or PreBind only goes back to the queue."""
        record, flight = self.state.record(uid), self.flights.get(uid)
        if flight is not None and flight.stage is not Stage.BINDING:
            self._bring_back(flight, Failure(f"preempted by pod {preemptor.key}", frozenset()), now, commands)
            commands.append(preempted_event(flight.entry.pod, preemptor, node, deleted=False))
        elif record is not None:
            self._evictor.evict(record.pod, preemptor, node, commands)

    def _break_promise(self, pod: Pod, now: float, commands: list[Command]) -> None:
        """A more important pod takes a node that was promised to this one, which had better look elsewhere."""
        self._end_promise(pod.uid)
        commands.append(PatchPodStatus(_ref(pod), nominated_node=""))
        entry = self.queue.get(pod.uid)
        if entry is not None:
            self.queue.wake(entry, now)

    def _fail(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        now: float,
        commands: list[Command],
        nominate: str | None = None,
    ) -> None:
        """Tell the user, and put the pod where it waits. `nominate` is written too, the empty string clears."""
        error = failure.code is Code.ERROR
        pod = entry.pod
        entry.message = failure.message
        self.queue.requeue(
            entry, now, rejected_by=failure.rejected_by, error=error, pending=failure.code is Code.PENDING
        )
        reason = "SchedulerError" if error else "Unschedulable"
        condition = Condition("PodScheduled", "False", reason, failure.message)
        told = pod.scheduled_condition == condition
        if not told or nominate is not None:
            commands.append(PatchPodStatus(_ref(pod), None if told else condition, nominate, pod.generation))
        reporter = runner.profile.scheduler_name
        commands.append(RecordEvent(_ref(pod), "Warning", "FailedScheduling", "Scheduling", failure.message, reporter))


def _scheduled_event(flight: Flight) -> RecordEvent:
    pod = flight.entry.pod
    note = f"Successfully assigned {pod.key} to {flight.node}"
    return RecordEvent(_ref(pod), "Normal", "Scheduled", "Binding", note, flight.runner.profile.scheduler_name)


def _on_node(pod: Pod, node: str) -> Pod:
    return Pod(
        uid=pod.uid, name=pod.name, template=pod.template, node=node, phase=pod.phase, requests=pod.requests,
        created_s=pod.created_s, started_s=pod.started_s, generation=pod.generation,
    )  # fmt: skip
