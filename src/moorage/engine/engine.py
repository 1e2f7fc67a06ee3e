"""The engine: events in, commands out. `handle` is the only way to change state.

One call applies events, wakes the pods that they can help, asks the plugins that hold pods in Permit or PreBind again,
and decides on as many pods as the budget allows. No clock, no I/O, no threads: same events and times, same commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from moorage.core.claimshares import begin_to_learn, learn
from moorage.core.commands import Command
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.disruption.ledger import BUDGET
from moorage.core.events import (
    BindDone,
    BindOutcome,
    CapacityDone,
    ConfigurationChanged,
    DecisionSlow,
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
    StatusDone,
    TermBegan,
    TrialRecalled,
    TrialRefused,
)
from moorage.core.gangs import GANG_KINDS, said_of_gangs
from moorage.core.membership import GangKey
from moorage.core.objects import NAMESPACE
from moorage.core.pods import FINISHED, Pod, PodTemplate
from moorage.core.provisioning import PROVISIONING_REQUEST
from moorage.core.queues import QUEUE_KINDS
from moorage.core.state import NOWHERE, ClusterState, PodMove, PodRecord
from moorage.engine import excess
from moorage.engine.asking import Asking, Endings
from moorage.engine.changes import MOVES, helps_unit, node_change, object_change, wakers_of
from moorage.engine.context import EngineContext, Observer, Stop
from moorage.engine.devicehealth import HEALTH_KINDS, DeviceHealth
from moorage.engine.failing import Failing
from moorage.engine.failures import Failure, failure_of
from moorage.engine.faults import failed
from moorage.engine.gangs import Gangs
from moorage.engine.gate import UnitGates
from moorage.engine.kinds import Kinds
from moorage.engine.lifecycle import BINDING, ON_ITS_WAY, UNSCHEDULABLE
from moorage.engine.makingroom import MakingRoom
from moorage.engine.notices import Notices
from moorage.engine.pacing import Pacing
from moorage.engine.placing import Placing, choose
from moorage.engine.planning import Planning
from moorage.engine.queue import SchedulingQueue
from moorage.engine.races import tell_race
from moorage.engine.reconfiguration import Reconfiguration
from moorage.engine.settings import EngineSettings
from moorage.engine.sides import Sides
from moorage.engine.trial import Trial
from moorage.engine.turn import Turn
from moorage.engine.units import WORK, QueuedPod, Unit, work_of
from moorage.engine.words import WaitingWords
from moorage.framework.changes import Change, What
from moorage.framework.contract import LearnsWorkload, PlansUnits
from moorage.framework.cycle import Cycle, UnfinishedError
from moorage.framework.profiles import Profile
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Status

_UNLIMITED = 1 << 62
_BOUND = BindOutcome.BOUND
_NO_NEWS = (PodMove.NOTHING, PodMove.CONFIRMED, PodMove.SAME)
"""Moves that do not matter to other pods; a tuple, since enum members are quick to compare and slow to hash."""


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
        self._paced = False
        """Whether namespaces have to share the binds that may be in flight."""
        self.document = ""
        """The text of the configuration in force; empty while it is the initial one."""
        self.stopped_after = ""
        """The namespace of the pod after which the latest call was stopped; empty if it was not."""
        # Parts that need each other get a function that finds the other one.
        self.queue = SchedulingQueue(self._queue_key, self._gate, self._helps, settings.backoff, Pacing(self._room))
        context = EngineContext(profiles, self.state, self.queue, answers_to_all=answers_to_all, observer=observer)
        self._context = context
        self.runners, self.bindings, self.faults = context.runners, context.bindings, context.faults
        self._words = WaitingWords(context)
        self._failing = Failing(context, self._words, lambda: self._placing, lambda: self.gangs.turns)
        self._placing = Placing(context, self._failing, lambda: self.gangs)
        self._notices = Notices(context, self._failing)
        self.gangs = Gangs(context, self._placing, self._failing, self._notices)
        self.device_health = DeviceHealth(self.state)
        self._gates = UnitGates(context, self.gangs, self._notices)
        self._rooms = MakingRoom(context, lambda: self.gangs.turns)
        self.queue.kind = Kinds(context).of
        self._reconfiguration = Reconfiguration(context, self._placing, self.gangs, self._instruct, self._concern)
        self._handlers: dict[type, Callable[[Any, Turn], None]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            BindDone: self._bind_done,
            DeleteDone: self._delete_done,
            PatchDone: self._patch_done,
            StatusDone: self.gangs.recorded,
            CapacityDone: self.gangs.provisioning.done,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            ObjectSeen: self._object_seen,
            ObjectGone: self._object_gone,
            ExtendersAnswered: self._nodes_answered,
            PreemptionAnswered: self._victims_answered,
            DecisionSlow: self._decision_slow,
            TermBegan: self.gangs.term_began,
            ConfigurationChanged: self._configuration_changed,
            TrialRecalled: self._reconfiguration.recalled,
            TrialRefused: self._reconfiguration.refused,
        }
        """Event -> its handler."""
        self._instruct(settings)

    @property
    def planning(self) -> Planning | None:
        """The plan of who gets the nodes; None unless profiles are planned."""
        return self._context.planning

    @property
    def sides(self) -> Sides:
        """The trial of other profiles, if there is one."""
        return self._context.sides

    @property
    def all_runners(self) -> dict[str, Runner]:
        """The runners of all profiles, also of those of a trial, by names of their own."""
        return self._context.all_runners()

    @property
    def asking(self) -> Asking | None:
        """Calls of extenders; None if none are configured."""
        return self._context.asking

    def _instruct(self, settings: EngineSettings) -> None:
        """Set up what depends on profiles and settings; the context has the runners already."""
        self._context.equip_trial(settings.trial)
        first = next(iter(self.runners.values())).plugins
        self._sort = first.queue_sort[0]
        self.queue.backoff = settings.backoff
        self._woken_by: dict[tuple[int, str], list[str]] = {}
        """Kind of change -> the plugins whose rejections it can help, filled on first use."""
        context, order = self._context, first.first(PlansUnits)
        gangs = self.gangs
        context.planning = None if order is None else Planning(context, order, gangs.recovery, gangs.concern)
        self._rooms.equip(self._sort)
        endings = Endings(self._placing.place, self._failing.unschedulable, self._failing.conclude)
        extenders = settings.extenders
        context.asking = Asking(extenders, self.state, self.queue, endings, context.token) if extenders else None
        learns = any(runner.plugins.first(LearnsWorkload) is not None for runner in context.all_runners().values())
        if learns and not self.state.workload.followed:
            begin_to_learn(self.state, [entry.pod for entry in self.queue.entries()])

    # --- the one door ---

    def handle(
        self, events: Iterable[Event], now: float, budget: int = _UNLIMITED, stop: Stop | None = None
    ) -> tuple[list[Command], float | None]:
        """Apply events and decide on up to `budget` pods, at least one, or until `stop` returns True.

        Returns the commands and the time at which to call again if nothing happens before: now itself if pods are left
        that a larger budget could decide on, None if only an event can change anything. With a budget, namespaces get
        fair shares of the binds that may be in flight.
        """
        turn = Turn(now)
        self._context.stop, self.stopped_after = stop, ""
        self._paced = self._context.paced = budget < _UNLIMITED
        self.gangs.call_began()
        if self._context.planning is not None:
            self._context.planning.call_began(now)
        for event in events:
            self._handlers[type(event)](event, turn)
        looks = budget > 0
        self._rooms.pass_time(now)
        if looks:
            if self._context.sides.due(now):
                self._reconfiguration.review(turn)
            self._take_stock(turn)
            self.state.workload.settle()
        self._tell_waiting(turn)
        self._context.ring(now)
        if looks:
            self._decide(turn, budget)
            self._words.speak(turn)
        self._context.stop = None
        return turn.commands, now if not looks and self.gangs.busy else self._next_wakeup(now)

    def _decide(self, turn: Turn, budget: int) -> None:
        now, context, queue = turn.now, self._context, self.queue
        asking, planning, stop = context.asking, context.planning, context.stop
        queue.admit(now, self.bindings.untouched if self._paced else _UNLIMITED)
        decided, made = 0, False
        while decided < budget:
            unit = queue.pop(now) if asking is None else asking.pop(now)
            made = unit is None and queue.shared is not None and not made and self._rooms.make(turn)
            if made:  # once: room that no unit is tried in is not made again
                continue
            if unit is None and context.changes:  # promises ended
                self._tell_waiting(turn)
                unit = queue.pop(now) if asking is None else asking.pop(now)
            if unit is None and not decided and not self.bindings.posted:
                unit = queue.pop_slow(now)  # nothing that was decided or is being bound has to wait for it
            if unit is None:
                return
            decided += self._try(unit, turn)
            if planning is not None:
                planning.settle(turn)
            if context.changes:
                self._tell_waiting(turn)
            if stop is not None and stop():
                self.stopped_after = unit.pod.template.namespace
                return

    def _room(self, namespace: str) -> int:
        """How many more binds of a namespace may be ordered."""
        return self.bindings.room(namespace) if self._paced else _UNLIMITED

    def _take_stock(self, turn: Turn) -> None:
        """Bring gangs and the plan up to date."""
        if self._context.planning is not None:
            self._context.planning.settle(turn)
        if self.gangs.busy:
            self.gangs.review(turn)
        if self._notices.next_s() is not None:
            self._notices.tell(turn)
        if self.queue.shared is not None or self._rooms.expected:
            self._rooms.review(turn)

    def next_change_s(self, *, deciding: bool = True) -> float | None:
        """When time alone could change a decision: a deadline or an answer that expires.

        Unlike the time that `handle` returns, this leaves out retries, which give the same answer if nothing happened,
        and, unless `deciding`, everything that happens only in calls with a budget.
        """
        times = [self.bindings.next_wakeup(), self._context.next_alarm()]
        if deciding:
            times += [self.gangs.next_review_s(), self._notices.next_s(), self._rooms.stale.next_s()]
            times.append(self._rooms.next_search_s())
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def runner_of(self, pod: Pod) -> Runner | None:
        """The runner of the profile that is responsible for a pod; None if no profile is."""
        return self._context.runner_of(pod)

    def trial(self, now: float, misfit_s: float | None = None, work: int | None = None) -> Trial:
        """To find out where pods would go now; must be used inside a statement, which undoes it."""
        return Trial(self._context, now, misfit_s=misfit_s, work=work)

    def room_for(self, pod: Pod, now: float) -> tuple[str, tuple[str, ...]] | None:
        """The node that its queue would get for a waiting pod, and the pods that would leave; None if it gets none."""
        return self._rooms.room_for(self.queue.find(pod.uid), pod, now)

    @property
    def words_left_out(self) -> int:
        """How many conditions and events of pods that wait were not written, as they waited no more."""
        return self._words.left_out

    @property
    def room_rounds(self) -> int:
        """How many rounds of making room for units of queues there were."""
        return self._rooms.rounds

    def left_out(self, pod: Pod, now: float) -> str:
        """Why the plan has no node for a waiting pod; empty if it has one, or nothing is planned."""
        entry = self.queue.get(pod.uid)
        if entry is None or self._context.planning is None:
            return ""
        self._context.planning.settle(Turn(now))
        unit = self.queue.unit_of(entry)
        return "" if self._context.planning.admits(unit) else self._context.planning.refusal(unit)

    # --- events in ---

    def _pod_seen(self, event: PodSeen, turn: Turn) -> None:
        pod, context, state = event.pod, self._context, self.state
        record, entry = state.record(pod.uid), self.queue.get(pod.uid)
        if context.priorities.asked:
            pod = context.priorities.read(pod, turn.commands, is_new=record is None and entry is None)
        if pod.template.excess:
            excess.tell_pod(context, pod, turn.commands)
        template = pod.template
        if (record is not None and record.pod.template is not template) or (
            entry is not None and entry.pod.template is not template
        ):
            self._tell_gangs_left(record, entry, template)
            state.nominations.renew(pod)
        unit = None if template.gang is None else self.gangs.unit_of(pod)
        if unit is not None or context.planning is not None:
            self._note(pod, unit)
        before = None if record is None else record.pod
        move = state.observe_pod(pod)
        if move not in _NO_NEWS:
            self._changed(move, pod, before, turn)
        if state.workload.followed:
            learn(state, pod)
        if pod.phase in FINISHED or pod.deleted_s is not None:
            context.evictor.ending(pod, turn.now)
            self._settled(pod, turn)
        elif pod.node is not None:
            self._settled(pod, turn)
        elif unit is not None or context.runner_of(pod) is not None:
            self._waits(pod, entry, unit, turn.now)
        else:
            self._waits_for_others(pod)

    def _tell_gangs_left(self, record: PodRecord | None, entry: QueuedPod | None, template: PodTemplate) -> None:
        """A pod was changed: it may have left a gang, or joined one."""
        for known in (record, entry):
            if known is not None and known.pod.template.gang != template.gang:
                self._concern(known.pod)

    def _changed(self, move: PodMove, pod: Pod, before: Pod | None, turn: Turn) -> None:
        """Note what a pod's move means for other pods."""
        changes = self._context.changes
        changes.append(Change(MOVES[move], pod=pod, before=before))
        if move is PodMove.MOVED:
            changes.append(Change(What.POD_REMOVED, pod=before))
        elif move is PodMove.REMOVED and pod.phase in FINISHED and pod.deleted_s is None:
            self._context.turnover.ended(pod, turn.now)
        elif move is PodMove.ADDED and before is None:
            tell_race(self.state, pod, next(iter(self.runners)), turn.commands)

    def _waits(self, pod: Pod, known: QueuedPod | None, unit: GangKey | None, now: float) -> None:
        """A pod that needs a node from us; `known` is its entry so far, `unit` the gang that it is placed with."""
        if known is None and self.state.record(pod.uid) is not None:
            return  # its bind succeeded, and this is an older version of it
        before = None if known is None else known.pod.nominated_node
        if known is None and self._rooms.expected:
            self._rooms.came_back(pod)
        entry = self.queue.upsert(pod, now, unit)
        if (before or pod.nominated_node) and entry.state not in ON_ITS_WAY:
            self._follow_nomination(pod, before)
            if self.queue.shared is not None:  # what it is promised counts for its queue already
                self.queue.sort_again(entry.unit, now)

    def _waits_for_others(self, pod: Pod) -> None:
        """A pod of another scheduler: its nomination is respected here, too."""
        if self.state.nominations.node_of(pod.uid) not in (None, pod.nominated_node):
            self._context.end_nomination(pod.uid)
        if pod.nominated_node and self.state.record(pod.uid) is None:
            self.state.nominations.set(pod, pod.nominated_node)

    def _settled(self, pod: Pod, turn: Turn) -> None:
        """A pod that needs no node from us any more."""
        binding = self.bindings.get(pod.uid)
        known = self.queue.remove(pod.uid, turn.now) is not None or binding is not None
        if known or self.state.nominations.count:
            self._context.end_nomination(pod.uid)
        if not known:
            return
        self.state.evictions.forget(pod.uid)
        if binding is not None and (pod.node is None or binding.state is not BINDING):
            self._placing.abandon(pod.uid, turn)

    def _node_seen(self, event: NodeSeen, turn: Turn) -> None:
        before = self.state.upsert_node(event.node)
        self.gangs.turns.node_changed(before, event.node)
        if event.node.excess:
            excess.tell_node(self._context, before, event.node, turn.commands)
        devices = self.device_health.node_changed(before, event.node, next(iter(self.runners)), turn.commands)
        change = node_change(before, event.node, devices=devices)
        if change is not None:
            self._context.changes.append(change)

    def _node_gone(self, event: NodeGone, turn: Turn) -> None:
        for binding in self.bindings.waiting_for(event.name):
            message = f"node {event.name} was deleted while the pod waited to be bound to it"
            self._placing.bring_back(binding, Failure(message, frozenset()), turn)
        row = self.state.row_of(event.name)
        for record in () if row is None or self._context.planning is None else self.state.records_on(row):
            self._concern(record.pod)
        for pod in self.state.nominations.on(event.name):
            self._failing.withdraw_nomination(pod, turn)
        node = self.state.remove_node(event.name)
        self.gangs.turns.node_changed(node, None)
        if node is not None:
            self._context.changes.append(Change(What.NODE_REMOVED, node=node))

    def _object_seen(self, event: ObjectSeen, turn: Turn) -> None:
        before = self.state.put_object(event.kind, event.key, event.value)
        self._object_changed(event.kind, event.key, before, event.value, turn)

    def _object_gone(self, event: ObjectGone, turn: Turn) -> None:
        before = self.state.remove_object(event.kind, event.key)
        self._object_changed(event.kind, event.key, before, None, turn)

    def _object_changed(self, kind: str, key: str, before: Any, after: Any, turn: Turn) -> None:
        if kind in GANG_KINDS and said_of_gangs(self.state, before) != said_of_gangs(self.state, after):
            for pod in self.gangs.ruled_by(kind, key):
                self._concern(pod)
        if kind == BUDGET and before != after:
            self.state.disruptions.written(key, exists=after is not None)
        if kind in HEALTH_KINDS:
            self.device_health.changed(kind, before, after, next(iter(self.runners)), turn.commands)
        if kind in QUEUE_KINDS:
            self._rooms.follow(turn.now)
        if kind == NAMESPACE and self._context.sides.on:
            self._reconfiguration.namespace_changed(key, turn)
        if kind == PROVISIONING_REQUEST:
            self.gangs.provisioning.changed(before, after, turn.now)
        if kind == RESOURCE_CLAIM and before is None and after.owner is not None:
            entry = self.queue.get(after.owner.uid)
            if entry is not None:
                learn(self.state, entry.pod)
        freed = key == self.state.devices.freed
        self._context.changes.append(object_change(kind, key, before, after, freed=freed))

    def _nodes_answered(self, event: ExtendersAnswered, turn: Turn) -> None:
        if self._context.asking is not None:
            self._context.asking.nodes_answered(event, turn)

    def _victims_answered(self, event: PreemptionAnswered, turn: Turn) -> None:
        if self._context.asking is not None:
            self._context.asking.victims_answered(event, turn)

    def _decision_slow(self, event: DecisionSlow, turn: Turn) -> None:
        self.queue.pacing.slow(event.namespace, event.took_s, turn.now, self.queue.backoff.max_s)

    def _delete_done(self, event: DeleteDone, turn: Turn) -> None:
        """The preemptor is held no longer; the watch shows when the pod is gone."""
        record = self.state.record(event.uid)
        if record is not None:
            self._concern(record.pod)
        if not event.ok:
            self._rooms.stays(event.uid)
            if record is not None and record.row != NOWHERE:
                self.state.pod_log.append(record.row)  # what it was to leave serves no promise
        self._context.evictor.answered(event, turn)

    def _patch_done(self, event: PatchDone, turn: Turn) -> None:
        """The answer to a write that PreBind waits for: the watch shows success, a failure ends the attempt."""
        command = event.command
        if command.kind == RESOURCE_CLAIM and self.state.devices.answered(event):
            key = f"{command.namespace}/{command.name}"
            self._context.changes.append(Change(What.OBJECT, kind=RESOURCE_CLAIM, key=key, frees=True))
        binding = self.bindings.get(command.pod.uid)
        if event.ok or binding is None or binding.held_by is None or command not in binding.sent:
            return  # one that is not held any more: the watch has shown that the write worked
        self._placing.bring_back(binding, failure_of(Status(Code.ERROR, (event.message,), binding.held_by.name)), turn)

    def _follow_nomination(self, pod: Pod, before: str | None) -> None:
        """Adopt status.nominatedNodeName as written, by any process; a value that did not change is ignored."""
        if pod.nominated_node and pod.nominated_node != before:
            self.state.nominations.set(pod, pod.nominated_node)
        elif not pod.nominated_node and before:
            self._context.end_nomination(pod.uid)

    def _pod_gone(self, event: PodGone, turn: Turn) -> None:
        uid = event.uid
        entry = self.queue.remove(uid, turn.now)
        if entry is not None:
            if entry.unit.gang is not None:  # the gang that it was placed with, whatever its labels say now
                self.gangs.concern(entry.unit.gang)
            self._concern(entry.pod)
        self._context.evictor.gone(uid, turn.now)
        self._context.end_nomination(uid)
        self._placing.abandon(uid, turn)
        self.state.volumes.release(uid)
        self.state.devices.release(uid)
        self.state.workload.gone(uid)
        record = self.state.remove_pod(uid)
        if record is not None:
            self._concern(record.pod)
            self._context.changes.append(Change(What.POD_REMOVED, pod=record.pod))

    def _concern(self, pod: Pod) -> None:
        """Something happened to a pod that may matter to the plan, or to its gang, even one of another scheduler."""
        gang = pod.template.gang
        if gang is not None:
            self.gangs.concern(gang)
        self._note(pod, None if gang is None else self.gangs.unit_of(pod))

    def _note(self, pod: Pod, unit: GangKey | None) -> None:
        if unit is not None:
            self.gangs.met(unit, pod)
            if self.queue.shared is not None:
                self._rooms.stale.met(unit, pod)
        if self._context.planning is not None:
            self._context.planning.note(pod, unit)

    def _bind_done(self, event: BindDone, turn: Turn) -> None:
        binding = self.bindings.get(event.uid)
        if binding is None or binding.entry.state is not BINDING:
            return
        record = self.state.record(event.uid)
        seen_on = record.node if record is not None and not record.assumed else None
        outcome: BindOutcome | None = event.outcome
        if event.node != binding.node or outcome is not _BOUND:
            outcome = event.outcome_for(binding.node)
        if outcome is None:
            return
        if outcome is _BOUND or seen_on == binding.node:
            self._placing.arrived(binding, turn)
        elif outcome is BindOutcome.FAILED and seen_on is None:
            failure = Failure(f"binding rejected: {event.message}", frozenset(), Code.ERROR)
            self._context.sides.bind_failed(binding.entry.pod)
            self._placing.bring_back(binding, failure, turn)
            pod = binding.entry.pod
            if self.queue.get(pod.uid) is None and self.runner_of(pod) is not None:
                # Its profile was gone for a while, and is back.
                self._waits(pod, None, self.gangs.unit_of(pod), turn.now)
        else:
            self.queue.remove(event.uid, turn.now)
            self._placing.abandon(event.uid, turn)
            self._concern(binding.entry.pod)
            if outcome is BindOutcome.ELSEWHERE and event.node is not None and seen_on is None:
                self._placing.take_over(binding.entry.pod, event.node)

    def _configuration_changed(self, event: ConfigurationChanged, turn: Turn) -> None:
        self.document = event.document
        self._reconfiguration.changed(event, turn)

    # --- waking up ---

    def _tell_waiting(self, turn: Turn) -> None:
        """Wake the pods that changes can help, and continue the binding cycles that they concern."""
        while True:
            changes, self._context.changes = self._context.changes, []
            if self._context.asking is not None:
                self._context.asking.changed(changes)
            if changes and not self.queue.quiet:
                for change in changes:
                    self.queue.changed(change, turn.now, self._wakers_of(change.what, change.kind))
                    self.gangs.changed(change, turn.now)
            for binding in self.bindings.concerned(changes, turn.now):
                if self.bindings.get(binding.entry.pod.uid) is binding:
                    self._placing.go_on(binding, turn)
                    self._context.stopped()
            if not self._context.changes:
                return

    def _wakers_of(self, what: What, kind: str) -> list[str]:
        found = self._woken_by.get((what, kind))
        if found is None:
            found = self._woken_by[what, kind] = wakers_of(self._context.all_runners().values(), what, kind)
        return found

    def _helps(self, name: str, unit: Unit, change: Change, now: float) -> bool:
        sharing = self._context.sharing if self.queue.shared is not None else None
        if sharing is not None and sharing.governs(unit.pod) and not sharing.worth_trying(unit, change, now):
            return False
        return helps_unit(name, unit, change, self._context.runner_of, self.faults)

    def _queue_key(self, unit: Unit) -> tuple[Any, ...]:
        """QueueSort; a gang is sorted by its own priority and age."""
        if unit.gang is None:
            return self._sort.queue_key(unit.pod, unit.since_s)
        return self.gangs.queue_key(unit, self._sort)

    def _gate(self, unit: Unit, now: float) -> str | None:
        return self._gates.of(unit, now)

    def _next_wakeup(self, now: float) -> float | None:
        pacing = self.queue.pacing
        if self.queue.ready() or (self._context.asking is not None and self._context.asking.ready()):
            return now
        if self._rooms.unfinished or (pacing.ready() and not self.bindings.posted):
            return now
        times = [pacing.next_s(now), self.queue.next_wakeup(), self.bindings.next_wakeup(), self._context.next_alarm()]
        times += [self.gangs.next_s(), self._notices.next_s(), self._rooms.next_s(), self._rooms.stale.next_s()]
        times += [self._context.sides.next_s(), self._words.next_s(now)]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    # --- deciding ---

    def _try(self, unit: Unit, turn: Turn) -> int:
        """One attempt, finished or not; unless the unit waits on, the next one of its kind is tried then."""
        try:
            decided = self._attempt(unit, turn)
        except UnfinishedError:
            decided = self.queue.postpone(unit, turn.now)
        if unit.line and unit.state is not UNSCHEDULABLE:
            self.queue.leave_line(unit, turn.now)
        return decided

    def _attempt(self, unit: Unit, turn: Turn) -> int:
        """One scheduling cycle, in numbered steps; returns how many pods were decided on."""
        pod, context = unit.pod, self._context
        # 1. The profile, and whether the plan admits the unit.
        runner = context.runner_of(pod)
        if runner is None:
            self.queue.remove(pod.uid, turn.now)
            return 1
        if context.planning is not None and self._gates.plan(unit, turn.now) is not None:
            self.queue.hold(unit, context.planning.name, turn.now)
            return 1
        if unit.gang is not None:
            return self.gangs.attempt(unit, turn)
        (entry,) = unit.members.values()
        cycle = Cycle(pod, self.state, turn.now)
        cycle.misfit_s, cycle.work = entry.misfit_s, work_of(unit) if unit.pauses else WORK
        if context.planning is not None:
            cycle.only = context.planning.rows_for(pod)
        if context.observer is not None:
            context.observer(runner, cycle)
        if context.asking is not None and context.asking.takes(entry, runner, cycle, turn):
            return 1
        # 2. The node: that of the nomination if the pod fits there, else the best of all.
        judgement: Judgement | None = None
        try:
            row = choose(self.state, runner, cycle)
            if row == NOWHERE:
                judgement = runner.judge(cycle, self.state.rows())
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            self._failing.fail(entry, runner, Failure(failed(error), frozenset(), Code.ERROR), turn)
            return 1
        # 3. None: report why, run PostFilter, and wait for a change that helps.
        if judgement is not None:
            self._failing.unschedulable(entry, runner, cycle, judgement, turn)
            return 1
        self._placing.place(entry, runner, cycle, row, turn)
        return 1
