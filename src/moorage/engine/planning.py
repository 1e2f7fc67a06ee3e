"""The plan of profiles in which every pod gets a node of its own: which units get the nodes, updated with each event.

Units (`planunits`) are in the order of the QueueSort plugin (`unit_key`). In this order each gets nodes that its pods
can use (`usablenodes`) if there are any left (`core.nodeplan`). A waiting unit is tried only while it is in the plan,
and only pods of units outside the plan may be evicted for it. So running pods stay where they are unless a unit that
comes first needs their node. A unit that could not start if it were alone is tried too, so that the reason is told; it
holds no node. Neither does one that was tried and found no room even by evictions, until it is tried again.

A profile is planned if its QueueSort plugin orders units (`PlansUnits`) and a plugin gives every pod a node of its own
(`OwnsNodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.changelog import ChangeLog
from moorage.core.commands import PatchPodStatus
from moorage.core.gangs import group_object
from moorage.core.membership import GangKey
from moorage.core.nodeplan import Ask, NodePlan, Share
from moorage.core.pods import Pod
from moorage.core.seating import Bits, bits_of
from moorage.core.state import NOWHERE, ClusterState, PodRecord
from moorage.core.victims import own_rank
from moorage.engine.context import Commands, EngineContext
from moorage.engine.evictor import ref_of
from moorage.engine.lifecycle import GATED
from moorage.engine.plannedwords import PlannedWords
from moorage.engine.planunits import KnowsGangs, PlanUnits
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit, gang_uid
from moorage.engine.usablenodes import UsableNodes
from moorage.framework.contract import OwnsNodes, PlansUnits

_BLOCKING = ("NoSchedule", "NoExecute")
_NEVER = 1 << 40
"""Beyond every priority."""


class Planning:
    """One plan per scheduler name that is planned."""

    def __init__(
        self, context: EngineContext, sort: PlansUnits, gangs: KnowsGangs, concern: Callable[[GangKey], None]
    ) -> None:
        """`concern` is called with gangs that are not in the plan and have waiting members."""
        self._context = context
        self._state = context.state
        self._sort = sort
        self._plans: dict[str, NodePlan] = {}
        self._usable = UsableNodes(context.state, context.runner_of, self.rank)
        self._units = PlanUnits(context, sort, gangs, self._usable)
        self._members: dict[str, dict[str, int | None]] = {}
        """Gang -> the waiting pods that its unit needs, by their place in it, and those that are units of their own."""
        self._dirty: dict[str, tuple[str, GangKey | None]] = {}
        """Unit -> its scheduler and its gang."""
        self._failed: dict[str, None] = {}
        """Units that found no room when they were tried the last time."""
        self._news: dict[str, tuple[list[str], list[str]]] = {}
        """Scheduler -> units that get more than before, and units that get nothing any more, not acted on yet."""
        self._nodes_at = -1
        self._gangs: dict[str, GangKey] = {}
        """The keys of the gangs that are units."""
        self._reranked: ChangeLog[int] = ChangeLog()
        self._recalled = False
        """Whether units have yet to be asked since an image was read."""
        self._concern = concern

    # --- queries ---

    @property
    def name(self) -> str:
        """The plugin that keeps units outside the plan from being tried."""
        return self._sort.name

    def plans(self, pod: Pod) -> bool:
        """Whether the pod's profile is planned."""
        runner = self._context.runner_of(pod)
        return runner is not None and runner.plugins.first(OwnsNodes) is not None

    def admits(self, unit: Unit) -> bool:
        """Whether a waiting unit may be tried."""
        if not self.plans(unit.pod) or self._is_hopeless(unit):
            return True
        return any(self._may_be_placed(unit, uid) for uid in unit.members)

    def admitted(self, unit: Unit, entries: Sequence[QueuedPod]) -> list[QueuedPod]:
        """Those of the waiting members of a gang that have a place in the plan; all if it is tried in vain."""
        if not self.plans(unit.pod) or self._is_hopeless(unit):
            return list(entries)
        return [entry for entry in entries if self._may_be_placed(unit, entry.pod.uid)]

    def _may_be_placed(self, unit: Unit, uid: str) -> bool:
        """Whether the plan has a node for a waiting pod; or the pod could use none, and is tried to say why."""
        plan = self._plans.get(unit.pod.template.scheduler_name)
        if plan is None:
            return False
        if unit.gang is None or uid in plan:
            ask = plan.ask(uid)
            return plan.share(uid) is not None or (ask is not None and self._is_vain(ask.wants))
        place, ask, share = self._members.get(unit.uid, {}).get(uid), plan.ask(unit.uid), plan.share(unit.uid)
        if ask is None or share is None or place is None or place >= len(ask.wants):
            return False
        return place < share.granted or self._is_vain(ask.wants[place : place + 1])

    def _is_hopeless(self, unit: Unit) -> bool:
        """Whether a pod that it cannot do without could use no node, so that it is tried only to say why."""
        plan = self._plans.get(unit.pod.template.scheduler_name)
        ask = None if plan is None else plan.ask(unit.uid)
        return ask is not None and not ask.stands and self._is_vain(ask.wants)

    def _is_vain(self, kinds: Iterable[int]) -> bool:
        return any(not self._usable.bits(kind) for kind in kinds)

    def refusal(self, unit: Unit) -> str:
        """Why a unit that the plan does not admit has to wait."""
        plan = self._plans.get(unit.pod.template.scheduler_name)
        return PlannedWords(self._context, self._units, self._usable).refusal(unit, plan)

    def ahead(self, pod: Pod) -> tuple[str, ...]:
        """The units that come before a waiting pod and have nodes that it could use, in words."""
        plan = self._plans.get(pod.template.scheduler_name)
        entry = self._context.queue.get(pod.uid)
        if plan is None or entry is None:
            return ()
        unit = self._context.queue.unit_of(entry)
        return PlannedWords(self._context, self._units, self._usable).ahead(pod, unit, plan)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Scheduler name -> number of nodes that the plan assigns, and of nodes that it could assign."""
        takes_pods = bits_of(open_rows(self._state))
        return {scheduler: plan.sizes(takes_pods) for scheduler, plan in self._plans.items()}

    def drops(self, key: GangKey, pod: Pod) -> bool:
        """Whether a gang with pods on nodes is not in the plan."""
        if not self.plans(pod):
            return False
        plan = self._plans.get(pod.template.scheduler_name)
        return plan is not None and plan.share(gang_uid(key)) is None

    def rank(self, record: PodRecord) -> int:
        """What a preemptor's priority must exceed to evict a pod: units in the plan are protected, others are not."""
        if not self.plans(record.pod):
            return own_rank(self._state, record)
        plan = self._plans.get(record.pod.template.scheduler_name)
        share = None if plan is None else self._share_of(plan, record.pod)
        lost = plan is not None and (share is None or record.row in share.lost)
        return -_NEVER if lost else _NEVER

    @property
    def reranked(self) -> ChangeLog[int] | None:
        """The rows with pods whose rank may have changed; None during a trial, when profiles may change at once."""
        return None if self._context.sides.on else self._reranked

    def _rerank(self, uid: str) -> None:
        """The rank of the pods of a unit may be another."""
        gang, record = self._gangs.get(uid), self._state.record(uid)
        records = [record] if gang is None else self._state.gangs.standing(gang).values()
        for each in records:
            if each is not None and each.row != NOWHERE:
                self._reranked.append(each.row)

    def _share_of(self, plan: NodePlan, pod: Pod) -> Share | None:
        gang = pod.template.gang
        return plan.share(pod.uid if gang is None or pod.uid in plan else gang_uid(gang))

    def rows_for(self, pod: Pod) -> Mask | None:
        """The rows that a waiting pod may take without harm for others in the plan, bool[capacity]; None: any."""
        plan = self._plans.get(pod.template.scheduler_name)
        entry = None if plan is None else self._context.queue.get(pod.uid)
        if plan is None or entry is None:
            return None
        unit = self._context.queue.unit_of(entry)
        ask_id = pod.uid if unit.gang is None or pod.uid in plan else unit.uid
        if plan.ask(ask_id) is None:
            return None
        found = plan.choices(ask_id, self._promised(unit) if ask_id == unit.uid else ())
        bits = None if found is None else found.get(self._usable.kind_of(pod))
        return None if bits is None else self._mask(bits)

    def _promised(self, unit: Unit) -> list[tuple[int, int]]:
        """The rows that pods of the unit are nominated to, with the kinds of the pods."""
        found = []
        for entry in unit.members.values():
            node = self._state.nominations.node_of(entry.pod.uid)
            row = None if node is None else self._state.row_of(node)
            if row is not None:
                found.append((self._usable.kind_of(entry.pod), row))
        return found

    def _mask(self, bits: Bits) -> Mask:
        capacity = self._state.capacity
        packed = np.frombuffer(bits.to_bytes(-(-capacity // 8), "little"), dtype=np.uint8)
        found: Mask = np.unpackbits(packed, count=capacity, bitorder="little").astype(np.bool_)
        return found

    # --- what is remembered in images ---

    @property
    def inside(self) -> dict[str, dict[str, int]]:
        """Scheduler -> the units in its plan, and how many of their waiting pods have a node."""
        return {scheduler: plan.inside for scheduler, plan in self._plans.items()}

    @inside.setter
    def inside(self, known: dict[str, dict[str, int]]) -> None:
        """Units are asked again what they need, as if nothing had happened to them."""
        self._recalled = True
        for scheduler, inside in known.items():
            self._plan_of(scheduler).remember(inside)

    # --- updates ---

    def note(self, pod: Pod, unit: GangKey | None) -> None:
        """Something happened to a pod; `unit` is its gang if it is placed with one."""
        if self.plans(pod):
            uid = pod.uid if unit is None else gang_uid(unit)
            self._dirty[uid] = (pod.template.scheduler_name, unit)

    def failed(self, unit: Unit) -> None:
        """A unit was tried, and found no room even by evictions: it holds no node until it is tried again."""
        if self.plans(unit.pod) and not self._is_hopeless(unit):
            self._failed[unit.uid] = None
            self.note(unit.pod, unit.gang)

    def try_again(self, unit: Unit, now: float) -> None:
        """A unit that found no room is to be tried again, as something has happened: it has its place in the plan."""
        if unit.uid in self._failed:
            del self._failed[unit.uid]
            self.note(unit.pod, unit.gang)
            self._update(now)

    def settle(self, turn: Turn) -> None:
        """Update the plan, wake the units that entered it, and end nominations of units outside it."""
        dirty = self._update(turn.now)
        self._wake_hopeless(dirty, turn.now)
        news, self._news = self._news, {}
        for scheduler, plan in self._plans.items():
            more, less = news.get(scheduler, ((), ()))
            self._wake(more, turn.now)
            noted = [uid for uid, (name, _) in dirty.items() if name == scheduler]
            self._end_nominations(plan, [*less, *noted], turn.commands)

    def _wake_hopeless(self, uids: Iterable[str], now: float) -> None:
        """Units are tried to say why they fit nowhere, if the plan has kept them back so far."""
        for uid in uids:
            unit = self._context.queue.find(uid)
            if unit is not None and unit.state is GATED and self.plans(unit.pod) and self._is_hopeless(unit):
                self._context.queue.wake(unit, now)

    def _update(self, now: float) -> dict[str, tuple[str, GangKey | None]]:
        """Ask units again that something happened to, and settle the plans; returns those units."""
        self._look_at_nodes()
        if self._usable.refresh(now):
            for plan in self._plans.values():
                plan.usable_changed()
            for entry in self._context.queue.entries() if self._usable.some_are_vain else ():
                self._note_with_gang(entry.pod)
            for gang in self._context.queue.gangs():
                self.note(gang.pod, gang.key)
        dirty, self._dirty = self._dirty, {}
        for uid, (scheduler, unit) in dirty.items():
            self._put(self._plan_of(scheduler), uid, unit)
        for scheduler, plan in self._plans.items():
            more, less = plan.settle()
            for uid in plan.changed():
                self._rerank(uid)
            known = self._news.setdefault(scheduler, ([], []))
            known[0].extend(more)
            known[1].extend(less)
        self._usable.forget(lambda: set().union(*(plan.kinds() for plan in self._plans.values())))
        self._state.gangs.moving = self._moving()
        return dirty

    def _moving(self) -> frozenset[str]:
        """Members of gangs that lose their node and have another one at once."""
        found = set()
        for plan in self._plans.values():
            for row in plan.lost_rows():
                for record in self._state.records_on(row):
                    share = self._share_of(plan, record.pod)
                    if share is not None and row in share.lost:
                        found.add(record.pod.uid)
        return frozenset(found)

    def _plan_of(self, scheduler: str) -> NodePlan:
        plan = self._plans.get(scheduler)
        if plan is None:
            plan = self._plans[scheduler] = NodePlan(self._usable.bits, lambda: self._vacant(scheduler))
        return plan

    def _vacant(self, scheduler: str) -> Bits:
        """The rows without a pod of the scheduler."""
        free = self._state.alive.copy()
        for record in self._state.records():
            if record.row != NOWHERE and record.pod.template.scheduler_name == scheduler:
                free[record.row] = False
        return bits_of(np.flatnonzero(free).tolist())

    def call_began(self, now: float) -> None:
        """The engine is called: if it goes on from an image, all units are put, without acting on them."""
        if not self._recalled:
            return
        self._recalled, self._nodes_at = False, self._state.node_log.position
        self._usable.refresh(now)
        dirty, self._dirty = self._dirty, {}
        for record in self._state.records():
            self._note_with_gang(record.pod)
        for entry in self._context.queue.entries():
            self._note_with_gang(entry.pod)
        everyone, self._dirty = self._dirty, dirty
        for uid, (scheduler, unit) in everyone.items():
            if uid not in dirty:
                self._put(self._plan_of(scheduler), uid, unit)
        for plan in self._plans.values():
            for kind in plan.kinds():
                self._usable.bits(kind)  # as of now, before the events of this call

    def _look_at_nodes(self) -> None:
        """Pods on nodes that have changed, gangs that wait for amounts, and everything at the beginning."""
        log = self._state.node_log
        if log.position == self._nodes_at:
            return
        rows = log.since(self._nodes_at) if self._nodes_at >= 0 else None
        self._nodes_at = log.position
        for row in range(self._state.capacity) if rows is None else dict.fromkeys(rows):
            for record in self._state.records_on(row):
                self._note_with_gang(record.pod)
        if rows is None:
            for entry in self._context.queue.entries():
                self._note_with_gang(entry.pod)
        for gang in self._context.queue.gangs():
            group = group_object(self._state, gang.key)
            if group is not None and group.min_resources:
                self.note(gang.pod, gang.key)

    def _note_with_gang(self, pod: Pod) -> None:
        runner = self._context.runner_of(pod)
        self.note(pod, pod.template.gang if runner is not None and runner.places_gangs else None)

    def _wake(self, units: Iterable[str], now: float) -> None:
        for uid in dict.fromkeys(units):
            unit = self._context.queue.find(uid)
            if unit is not None:
                self._context.queue.wake(unit, now)

    def _end_nominations(self, plan: NodePlan, uids: Iterable[str], commands: Commands) -> None:
        """End the nominations of pods that the plan has no node for, including those found after a restart."""
        for uid in dict.fromkeys(uids):
            unit = self._context.queue.find(uid)
            if unit is None or uid not in (unit.uid, *unit.members):
                continue
            if unit.gang is not None and plan.share(unit.uid) is None:
                self._concern(unit.key)
            for entry in unit.members.values():
                pod = entry.pod
                promised = self._state.nominations.node_of(pod.uid) is not None
                if promised and not self._may_be_placed(unit, pod.uid):
                    self._context.end_nomination(pod.uid)
                    commands.append(PatchPodStatus(ref_of(pod), nominated_node=""))

    def _put(self, plan: NodePlan, uid: str, gang: GangKey | None) -> None:
        """Put a unit as it is now; it is dropped if it is gone or incomplete."""
        found = self._units.of(uid, gang)
        asks = [ask for ask in map(self._without_failed, found.asks) if ask is not None]
        before = self._members.pop(uid, {})
        if gang is not None:
            self._gangs[uid] = gang
        for each in (uid, *before):
            self._rerank(each)
        for known in {uid, *before} - {ask.id for ask in asks}:
            plan.drop(known)
        for ask in asks:
            plan.put(ask)
        if gang is not None and found.asks:
            places: Mapping[str, int | None] = {pod: place for place, pod in enumerate(found.waiting)}
            self._members[uid] = {**dict.fromkeys(ask.id for ask in found.asks[1:]), **places}
        if not found.asks or not found.waiting:
            self._failed.pop(uid, None)
        if not found.asks:
            self._gangs.pop(uid, None)

    def _without_failed(self, ask: Ask) -> Ask | None:
        """The ask of a unit as it counts: pods that found no room do without, and count only where they stand."""
        if not self._failed or not ask.wants or self._unit_uid(ask) not in self._failed:
            return ask
        return ask._replace(wants=()) if ask.stands else None

    def _unit_uid(self, ask: Ask) -> str:
        unit = self._context.queue.find(ask.id)
        return ask.id if unit is None else unit.uid


def open_rows(state: ClusterState) -> list[int]:
    """The rows of nodes that take pods which tolerate nothing."""
    rows = state.rows()
    blocked = np.array([any(taint.effect in _BLOCKING for taint in taints) for taints in state.taints.sets])
    found: list[int] = rows[~(state.unschedulable[rows] | blocked[state.taints.ids[rows]])].tolist()
    return found
