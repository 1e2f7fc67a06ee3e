"""Gangs whose binds were ordered: complete, still running, or to be completed or released.

Recovery needs no memory of its own: after a crash the next leader sees which members are on nodes and which wait. A
record on a member says whether a start was in progress; without a record, a waiting member that is older than the
placement of the others shows it. An interrupted start is completed if there is room within `recoverSeconds`. Otherwise
the members on nodes are deleted, so that their controllers create new ones and the gang can start as a whole. Members
without a controller, which would not be created again, and members that a disruption budget protects are not deleted:
users are told, and the gang is completed when there is room.

A gang that was evicted only in part, because a deletion failed or its leader died, is no running gang either: members
that still stand show the mark of the eviction. If it is not complete again soon, the rest follows, tried again after
longer and longer pauses; bare pods too, as the eviction was for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from moorage.core.commands import PatchObject, PatchPodStatus, PodRef
from moorage.core.disruption.ledger import DisruptionReason
from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import STARTED
from moorage.core.gangs import NATIVE_KIND, Disruption, GangTerms, lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.objects import NATIVE_GROUPS
from moorage.core.pods import PREEMPTION
from moorage.core.state import PodRecord
from moorage.engine.bindingcycles import GangBinding
from moorage.engine.context import Commands, EngineContext
from moorage.engine.deadlines import Deadlines
from moorage.engine.evictor import ref_of
from moorage.engine.gangrecords import recorded_size, records_of
from moorage.engine.gangreleases import AGAIN_S, GangReleases
from moorage.engine.turn import Turn
from moorage.engine.units import Place, Unit

RELEASED = "GangReleased"
"""Reason of the event, and of the condition DisruptionTarget, on members that are deleted."""
_MOST_DOUBLINGS, _LONGEST_S = 10, 300.0
"""How often the pause between two evictions of the rest of a gang doubles, and how long it is at most."""
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class Recovery:
    """Looks after gangs that have begun to start."""

    def __init__(self, context: EngineContext, vanished: Callable[[GangKey], None]) -> None:
        """`vanished` is called with gangs that have no members any more."""
        self._context = context
        self._state = context.state
        self._vanished = vanished
        self._concerned: dict[GangKey, None] = {}
        self._gang_bindings: dict[GangKey, list[GangBinding]] = {}
        """Members in binding cycles; those that come later have a `GangBinding` of their own."""
        self._starting: set[GangKey] = set()
        """Gangs that have begun to start and are not complete yet, even if the member with the record is gone."""
        self._carriers: dict[GangKey, str] = {}
        """The member that carries the record of a gang."""
        self._running: set[GangKey] = set()
        """Gangs that have been complete and still have members on nodes."""
        self._whole: dict[GangKey, int] = {}
        """How many members made these gangs complete the last time."""
        self._deadlines: Deadlines[GangKey] = Deadlines()
        """Gangs that were started in part -> when they are released."""
        self._overdue: dict[GangKey, None] = {}
        """Gangs past their deadline with members in binding cycles: they are released if those fail, too."""
        self._told: dict[GangKey, str] = {}
        """What the group's condition says of gangs without room."""
        self.releases = GangReleases(context, DisruptionReason.RELEASE, RELEASED)
        self._remnants: dict[GangKey, int] = {}
        """Gangs that were evicted in part -> how often the rest was told to go."""
        self.evictions = GangReleases(context, DisruptionReason.PREEMPT, PREEMPTION)
        """Of what is left of these."""

    # --- notes and queries ---

    def concern(self, key: GangKey) -> None:
        """Something happened to a gang."""
        self._concerned[key] = None

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return bool(self._concerned or self._deadlines or self._overdue)

    def next_review_s(self) -> float | None:
        """When `review` has something to do even if nothing happens."""
        return self._deadlines.first_s()

    def binding_began(self, gang_binding: GangBinding) -> None:
        """Binding cycles of members began; if no other member is on a node, the gang begins to start."""
        self._gang_bindings.setdefault(gang_binding.key, []).append(gang_binding)
        if len(gang_binding.members) == len(lasting(self._state, gang_binding.key)):
            self._starting.add(gang_binding.key)

    def gathering(self, key: GangKey, after: GangBinding | None = None) -> list[GangBinding]:
        """Members of a gang that have a node but are not being bound yet, in order: all, or those after some."""
        known = self._gang_bindings.get(key, [])
        first = known.index(after) + 1 if after in known else 0
        return [each for each in known[first:] if each.members and not each.begun]

    def recorded_on(self, key: GangKey, uid: str) -> None:
        """The record of a start is being written on this member; the watch may show it later."""
        self._carriers[key] = uid

    def wants_record(self, gang_binding: GangBinding) -> bool:
        """Whether the start has to be recorded: it takes several binds, and no record covers it yet."""
        if len(gang_binding.members) < 2 or gang_binding.key in self._running:
            return False
        pods = [binding.entry.pod for binding in gang_binding.members if binding.entry.pod.gang_record is not None]
        pods += [record.pod for record in lasting(self._state, gang_binding.key) if record.pod.gang_record is not None]
        if not pods:
            return True
        names = {binding.entry.pod.name for binding in gang_binding.members}
        return not any(not record.done and names <= record.nodes.keys() for record in records_of(pods))

    def runs(self, key: GangKey, terms: GangTerms) -> bool:
        """Whether a gang that has lost members was complete before."""
        there = lasting(self._state, key)
        if not there or key in self._starting or self._is_remnant(key, terms, there):
            return False
        return key in self._running or self._was_complete(key, terms, there)

    def whole(self, key: GangKey, terms: GangTerms) -> int:
        """How many members make a running gang complete: not those that it is to grow by, until it has them.

        After a restart these cannot be told from members that were lost; then those that are there by then are enough.
        """
        there = len(lasting(self._state, key))
        known = self._whole.get(key, there)
        return known if terms.min_count is None else min(known, terms.min_count)

    def _was_complete(self, key: GangKey, terms: GangTerms, there: list[PodRecord]) -> bool:
        """The same, as far as it can be observed."""
        if terms.min_count is not None and len(there) >= terms.min_count:
            return not any(self._is_current(record) for record in there)
        gang = self._context.queue.gang(key)
        waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
        if terms.disruption is not Disruption.SINGLE and self._is_evicted(key):
            return False
        records = records_of([*waiting, *(record.pod for record in there)])
        if records:  # before the group's condition, which may be about members that are gone
            return any(record.done for record in records)
        since = [record.pod.scheduled_s for record in there if record.pod.scheduled_s is not None]
        if since and any(pod.created_s < min(since) for pod in waiting):  # in whole seconds: equal ones prove nothing
            return False  # whatever the group says: it may have been complete once, and started again since
        if terms.group is not None and terms.group.scheduled:
            return True
        return bool(since) and not any(self._is_current(record) for record in there)

    def _is_evicted(self, key: GangKey) -> bool:
        """Whether an eviction of the gang has begun, and may not be finished."""
        return any(record.pod.preempted for record in self._state.gangs.standing(key).values())

    def _is_remnant(self, key: GangKey, terms: GangTerms, there: list[PodRecord]) -> bool:
        """Whether these members were to go with others that are gone, so that too few are left."""
        if terms.disruption is Disruption.SINGLE or len(there) >= (terms.min_count or 0):
            return False
        stayed = self._context.evictor.stayed
        return key in self._remnants or any(each.pod.preempted or each.pod.uid in stayed for each in there)

    def _is_current(self, record: PodRecord) -> bool:
        return self._context.bindings.get(record.pod.uid) is not None

    def _is_ours(self, record: PodRecord) -> bool:
        """Whether the pod's profile is ours and places gangs."""
        runner = self._context.runner_of(record.pod)
        return runner is not None and runner.places_gangs

    # --- review ---

    def review(self, turn: Turn) -> None:
        """Review the gangs that something happened to, and those whose deadline is due."""
        self._overdue.update(dict.fromkeys(self._deadlines.take_due(turn.now)))
        concerned, self._concerned = self._concerned, {}
        for key in [*(concerned | self._overdue)]:
            self._look(key, turn)

    def _look(self, key: GangKey, turn: Turn) -> None:
        gang = self._context.queue.gang(key)
        if gang is not None and gang.place is Place.GATED:
            self._context.queue.wake(gang, turn.now)
        if self._under_way(key):
            return
        there = lasting(self._state, key)
        if not there:
            self._forget(key, gang)
            return
        if key in self._running:
            self._keep_mark(key, there, turn.commands)
            terms = terms_of(self._state, key)
            remnant = terms is not None and self._is_remnant(key, terms, there)
            if key not in self._starting and self._context.planning is None and not remnant:
                return  # lost members are replaced; only a plan or an eviction could say otherwise
        if all(self._is_ours(record) for record in there):
            self._judge(key, gang, there, turn)

    def _judge(self, key: GangKey, gang: Unit | None, there: list[PodRecord], turn: Turn) -> None:
        """Do what a gang with these members on nodes needs."""
        planning = self._context.planning
        waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
        terms = terms_of(self._state, key, waiting)
        if terms is not None and terms.min_count is None:
            terms = terms._replace(min_count=recorded_size([*waiting, *(record.pod for record in there)]))
        if terms is None or terms.min_count is None:
            self._starting.discard(key)
            self._end_deadline(key)
        elif len(there) >= terms.min_count:
            self._completed(key, terms, there, turn)
        elif planning is not None and planning.drops(key, there[0].pod):
            self._let_go(key, there, turn, lost=self.runs(key, terms))
        elif not self.runs(key, terms):
            self._half_started(key, terms, there, turn)
        else:
            self._end_deadline(key)
            self._recognise(key, terms, there, turn.commands)

    def _recognise(self, key: GangKey, terms: GangTerms, there: list[PodRecord], commands: Commands) -> None:
        """A gang that ran under an earlier leader: remember it, as the evidence may go with the next member."""
        if key in self._running or (terms.group is not None and not terms.group.scheduled):
            return
        self._running.add(key)
        self._whole.setdefault(key, len(there))
        told = [record for record in there if record.pod.gang_record is not None]
        self._carriers[key] = (told or there)[0].pod.uid
        if not told:
            commands.append(PatchPodStatus(ref_of(there[0].pod), gang_record=STARTED))

    def _forget(self, key: GangKey, gang: Unit | None) -> None:
        """The gang has no members on nodes any more."""
        self._running.discard(key)
        self._starting.discard(key)
        self._carriers.pop(key, None)
        self._end_deadline(key)
        self._end_remnant(key)
        self._gang_bindings.pop(key, None)
        self.releases.forget(key)
        if not self._state.gangs.standing(key):
            self._whole.pop(key, None)
        if gang is None:
            self._told.pop(key, None)
            if not self._state.gangs.standing(key):
                self._vanished(key)

    def _under_way(self, key: GangKey) -> bool:
        current = self._context.bindings.get
        while gang_bindings := self._gang_bindings.get(key):
            for binding in gang_bindings[0].members:
                if current(binding.entry.pod.uid) is binding:
                    return True
            gang_bindings.pop(0).members.clear()  # they refer to each other, and would live until the next collection
        if gang_bindings is not None:
            del self._gang_bindings[key]
        return False

    def _completed(self, key: GangKey, terms: GangTerms, there: list[PodRecord], turn: Turn) -> None:
        """As many members as needed are bound: write that down once."""
        self.releases.forget(key)
        self._starting.discard(key)
        self._end_deadline(key)
        self._end_remnant(key)
        self._told.pop(key, None)
        self._whole[key] = len(there) if terms.min_count is None else terms.min_count
        if key in self._running:
            return
        self._running.add(key)
        for record in there:
            uid, said = record.pod.uid, record.pod.gang_record
            if said is None and uid != self._carriers.get(key):
                continue
            self._carriers[key] = uid
            if said is None or not said.done:
                turn.commands.append(PatchPodStatus(ref_of(record.pod), gang_record=STARTED))
        if terms.group is not None and not terms.group.scheduled:
            self._write(terms, ref_of(there[0].pod), ("True", "Scheduled", ""), turn)

    def _keep_mark(self, key: GangKey, there: list[PodRecord], commands: Commands) -> None:
        """Move the record of a complete gang to another member when the one that carries it is lost."""
        carrier = self._carriers.get(key)
        record = None if carrier is None else self._state.record(carrier)
        if carrier is not None and (record is None or record.pod.deleted_s is not None):
            self._carriers[key] = there[0].pod.uid
            commands.append(PatchPodStatus(ref_of(there[0].pod), gang_record=STARTED))

    def _half_started(self, key: GangKey, terms: GangTerms, there: list[PodRecord], turn: Turn) -> None:
        """An interrupted start: the recorded nodes are kept for a while, then the members on nodes are released.

        Nothing is kept for a gang that was to go.
        """
        if key not in self._starting and (self._is_remnant(key, terms, there) or self._is_evicted(key)):
            self._remnants.setdefault(key, 0)
        self._starting.add(key)
        if key in self._overdue:
            self._let_go(key, there, turn)
        elif key not in self._deadlines:
            patience_s, tries = self._patience_s(there[0], terms), self._remnants.get(key)
            if tries is None:
                self._keep_recorded(key, there)
            else:
                patience_s = min(max(patience_s, 1.0) * 2.0 ** min(tries, _MOST_DOUBLINGS), _LONGEST_S)
            self._deadlines.set(key, turn.now + patience_s)

    def _end_remnant(self, key: GangKey) -> None:
        self._remnants.pop(key, None)
        self.evictions.forget(key)

    def _end_deadline(self, key: GangKey) -> None:
        if self._deadlines or self._overdue:
            self._deadlines.drop(key)
            self._overdue.pop(key, None)

    def _patience_s(self, record: PodRecord, terms: GangTerms) -> float:
        """How long a start may take to be completed: the plugin's argument, or less if the group says so."""
        patience = self.releases.patience(record)
        patience_s = 0.0 if patience is None else patience.recover_seconds
        return patience_s if terms.timeout_s is None else min(patience_s, terms.timeout_s)

    def _keep_recorded(self, key: GangKey, there: list[PodRecord]) -> None:
        gang = self._context.queue.gang(key)
        if gang is None:
            return
        pods = {entry.pod.name: entry.pod for entry in gang.members.values()}
        for record in records_of([*pods.values(), *(each.pod for each in there)]):
            for name, node in record.nodes.items():
                pod = pods.get(name)
                if pod is not None and self._state.nominations.node_of(pod.uid) is None:
                    self._state.nominations.set(pod, node)

    def _let_go(self, key: GangKey, there: list[PodRecord], turn: Turn, *, lost: bool = False) -> None:
        """Release the members on nodes, unless that is not allowed; then users are told, and it is tried again.

        `lost`: the gang ran, and units that come first have the node of one of its members.
        """
        self._overdue.pop(key, None)
        if key in self._remnants:
            self._evict_rest(key, there, turn)
            return
        state = "is short of members" if lost else "was started in part"
        why = "and units that come first in the plan have their nodes" if lost else "and could not be completed"
        if self.releases.release(key, there, state, why, turn):
            self._end_nominations(key)
        else:
            self._deadlines.set(key, turn.now + AGAIN_S)

    def _evict_rest(self, key: GangKey, there: list[PodRecord], turn: Turn) -> None:
        """The other members were evicted: these follow, as far as the profile keeps to budgets."""
        self._remnants[key] += 1
        strict = self._context.keeps_budgets(there[0].pod)
        if self.evictions.release(key, there, "was evicted in part", "and could not be completed", turn, strict=strict):
            self._end_nominations(key)
        else:
            self._deadlines.set(key, turn.now + AGAIN_S)

    def _end_nominations(self, key: GangKey) -> None:
        gang = self._context.queue.gang(key)
        for uid in () if gang is None else gang.members:
            self._context.end_nomination(uid)

    def start_anew(self, key: GangKey, there: list[PodRecord], message: str, turn: Turn) -> None:
        """Release the members of a running gang that fits elsewhere as a whole, unless that is not allowed."""
        if self.releases.objection(there, turn.now) is None:
            self.releases.order(there, message, turn)
            self._end_nominations(key)

    # --- reporting ---

    def unschedulable(self, gang: Unit, message: str, turn: Turn) -> None:
        """Write into the group's condition that there is no room, unless the gang has begun to start."""
        terms = terms_of(self._state, gang.key, [entry.pod for entry in gang.members.values()])
        if terms is None or terms.group is None or terms.group.scheduled or not gang.members:
            return
        if self._told.get(gang.key) == message or gang.key in self._gang_bindings:
            return
        self._told[gang.key] = message
        member = next(iter(gang.members.values())).pod
        self._write(terms, ref_of(member), ("False", "Unschedulable", message), turn)

    def _write(self, terms: GangTerms, member: PodRef, said: tuple[str, str, str], turn: Turn) -> None:
        group = terms.group
        if group is None or group.api_group != NATIVE_GROUPS:
            return
        status, reason, message = said
        condition = FrozenDict(
            type=INITIALLY_SCHEDULED,
            status=status,
            reason=reason,
            message=message,
            observedGeneration=group.generation,
            lastTransitionTime=datetime.fromtimestamp(turn.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        patch = FrozenDict(status=FrozenDict(conditions=(condition,)))
        turn.commands.append(
            PatchObject(member, NATIVE_KIND, group.namespace, group.name, patch, uid=group.uid, subresource="status")
        )
