"""The plan of profiles in which every pod gets a node of its own: which units get the nodes, updated with each event.

Units are single pods and whole gangs, running or waiting, in the order of the QueueSort plugin (`unit_key`). The first
of them, as many as there are nodes for, are the plan (`core.plan`). A waiting unit is tried only while it is in the
plan, and only pods of units outside the plan may be evicted for it. So running pods stay where they are unless a unit
that comes first needs their node.

A profile is planned if its QueueSort plugin orders units (`PlansUnits`) and a plugin gives every pod a node of its own
(`OwnsNodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from moorage.core.commands import PatchPodStatus
from moorage.core.gangneeds import GangNeeds, needs_of
from moorage.core.gangs import GangTerms, group_object, lasting
from moorage.core.membership import GangKey
from moorage.core.plan import Plan
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE, ClusterState, PodRecord
from moorage.core.victims import own_rank
from moorage.engine.context import Commands, EngineContext
from moorage.engine.evictor import ref_of
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit, gang_uid
from moorage.framework.contract import OwnsNodes, PlansUnits

_BLOCKING = ("NoSchedule", "NoExecute")
_NEVER = 1 << 40
"""Beyond every priority."""


class Planning:
    """One plan per scheduler name that is planned."""

    def __init__(
        self,
        context: EngineContext,
        sort: PlansUnits,
        runs: Callable[[GangKey, GangTerms], bool],
        concern: Callable[[GangKey], None],
    ) -> None:
        """`runs` says whether a gang that has lost members was complete before.

        `concern` is called with gangs that are not in the plan and have waiting members.
        """
        self._context = context
        self._state = context.state
        self._sort = sort
        self._plans: dict[str, Plan] = {}
        self._dirty: dict[str, tuple[str, GangKey | None, Pod]] = {}
        """Unit -> its scheduler, its gang and one of its pods."""
        self._settled: set[str] = set()
        """Units on nodes that take no more pods, so that no other unit could have those nodes."""
        self._open = 0
        self._nodes_at = -1
        self._runs = runs
        self._concern = concern

    @property
    def unseen_rows(self) -> tuple[int, ...] | None:
        """Rows of nodes that have changed since the plan was last updated; None: all of them."""
        rows = self._state.node_log.since(self._nodes_at) if self._nodes_at >= 0 else None
        return None if rows is None else tuple(rows)

    @unseen_rows.setter
    def unseen_rows(self, rows: tuple[int, ...] | None) -> None:
        self._nodes_at = -1 if rows is None else self._state.node_log.position
        for row in rows or ():
            self._state.node_log.append(row)

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
        if not self.plans(unit.pod):
            return True
        return self._has(unit.pod.template.scheduler_name, unit.uid)

    def refusal(self, unit: Unit) -> str:
        """Why a unit that the plan does not admit has to wait."""
        plan = self._plans.get(unit.pod.template.scheduler_name)
        needed, given = (0, 0) if plan is None else (plan.size(unit.uid), plan.capacity)
        said = "units that come first in the plan leave it too few of them"
        needs = None if unit.gang is None else self._needs(unit.uid, unit.gang)
        obstacle = None if needs is None else needs.lasting_obstacle(self._state)
        if obstacle is not None:
            said = obstacle.message
        elif needed > given:
            said = f"the unit needs {needed}, one for each of its pods, and the plan has {given} to give"
        return f"0/{self._state.node_count} nodes are available: {said}."

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Scheduler name -> number of nodes that the plan assigns, and of nodes that it could assign."""
        return {scheduler: (plan.used, plan.capacity) for scheduler, plan in self._plans.items()}

    def drops(self, key: GangKey, pod: Pod) -> bool:
        """Whether a gang with pods on nodes is not in the plan."""
        if not self.plans(pod):
            return False
        scheduler = pod.template.scheduler_name
        return scheduler in self._plans and not self._has(scheduler, gang_uid(key))

    def rank(self, record: PodRecord) -> int:
        """What a preemptor's priority must exceed to evict a pod: units in the plan are protected, others are not."""
        if not self.plans(record.pod):
            return own_rank(self._state, record)
        scheduler, unit = record.pod.template.scheduler_name, record.pod.template.gang
        uid = record.pod.uid if unit is None else gang_uid(unit)
        return _NEVER if scheduler not in self._plans or self._has(scheduler, uid) else -_NEVER

    def _has(self, scheduler: str, uid: str) -> bool:
        """Whether a unit is in the plan, or needs none of its nodes."""
        plan = self._plans.get(scheduler)
        return uid in self._settled or (plan is not None and plan.has(uid))

    # --- updates ---

    def note(self, pod: Pod, unit: GangKey | None) -> None:
        """Something happened to a pod; `unit` is its gang if it is placed with one."""
        if self.plans(pod):
            uid = pod.uid if unit is None else gang_uid(unit)
            self._dirty[uid] = (pod.template.scheduler_name, unit, pod)

    def settle(self, turn: Turn) -> None:
        """Update the plan, wake the units that entered it, and end nominations of units outside it."""
        self._look_at_nodes()
        dirty, self._dirty = self._dirty, {}
        for uid, (scheduler, unit, pod) in dirty.items():
            if scheduler not in self._plans:
                self._plans[scheduler] = Plan(self._open)
            self._put(self._plans[scheduler], uid, unit, pod)
        for scheduler, plan in self._plans.items():
            entered, left = plan.changes()
            self._wake(entered, turn.now)
            noted = [uid for uid, (name, _, _) in dirty.items() if name == scheduler]
            self._end_nominations((uid for uid in (*left, *noted) if not self._has(scheduler, uid)), turn.commands)

    def _look_at_nodes(self) -> None:
        """The plan assigns nodes that take pods; pods on other nodes need none of them."""
        log = self._state.node_log
        if log.position == self._nodes_at:
            return
        rows = log.since(self._nodes_at) if self._nodes_at >= 0 else None
        self._nodes_at = log.position
        self._open = count_open(self._state)
        for plan in self._plans.values():
            plan.resize(self._open)
        for row in range(self._state.capacity) if rows is None else dict.fromkeys(rows):
            for record in self._state.records_on(row):
                runner = self._context.runner_of(record.pod)
                gangs = runner is not None and runner.places_gangs
                self.note(record.pod, record.pod.template.gang if gangs else None)
        for gang in self._context.queue.gangs():
            group = group_object(self._state, gang.key)
            if group is not None and group.min_resources:
                self.note(gang.pod, gang.key)

    def _wake(self, units: Iterable[str], now: float) -> None:
        for uid in units:
            unit = self._context.queue.find(uid)
            if unit is not None:
                self._context.queue.wake(unit, now)

    def _end_nominations(self, units: Iterable[str], commands: Commands) -> None:
        """End the nominations of units that are not in the plan, including those found after a restart."""
        for uid in units:
            entry, unit = self._context.queue.get(uid), self._context.queue.find(uid)
            if unit is None:
                continue
            if entry is None:
                self._concern(unit.key)
            pods = [each.pod for each in (unit.members.values() if entry is None else (entry,))]
            for pod in pods:
                if self._state.nominations.node_of(pod.uid) is not None:
                    self._context.end_nomination(pod.uid)
                    commands.append(PatchPodStatus(ref_of(pod), nominated_node=""))

    def _put(self, plan: Plan, uid: str, unit: GangKey | None, pod: Pod) -> None:
        """Put a unit as it is now; it is dropped if it is gone or incomplete."""
        standing, waiting = self._pods(uid, unit)
        everyone = [*(record.pod for record in standing), *waiting]
        needs = None if unit is None else self._needs(uid, unit)
        self._settled.discard(uid)
        if not everyone or (unit is not None and not self._may_start(needs, standing, waiting)):
            plan.drop(uid)
            return
        priority = None if needs is None else needs.terms.priority
        if priority is None:
            priority = min(each.template.priority for each in everyone)
        created_s = min(each.created_s for each in everyone)
        name = pod.key if unit is None else unit.object_key
        key = self._sort.unit_key(priority, len(everyone), bool(standing), created_s, name)
        size = len(waiting) + sum(not is_closed(self._state, record.row) for record in standing)
        if size:
            plan.put(uid, key, size)
        else:
            plan.drop(uid)
            self._settled.add(uid)

    def _needs(self, uid: str, unit: GangKey) -> GangNeeds | None:
        return needs_of(self._state, unit, self._pods(uid, unit)[1], self._runs)

    def _may_start(self, needs: GangNeeds | None, standing: Sequence[PodRecord], waiting: Sequence[Pod]) -> bool:
        """Whether there are enough members and, if none is on a node yet, the nodes have what the gang needs."""
        if needs is None:
            return False
        return needs.enough(len(waiting)) if standing else needs.possible(self._state, len(waiting))

    def _pods(self, uid: str, unit: GangKey | None) -> tuple[list[PodRecord], list[Pod]]:
        """The unit's pods on nodes that are going to stay, and those that wait."""
        if unit is not None:
            gang = self._context.queue.gang(unit)
            waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
            return lasting(self._state, unit), waiting
        record, entry = self._state.record(uid), self._context.queue.get(uid)
        if self._is_member(record or entry):
            return [], []  # it has joined a gang since
        if record is not None:
            stays = record.pod.deleted_s is None and not self._state.evictions.evicting(uid)
            return ([record] if stays else []), []
        return [], [] if entry is None or entry.pod.gates else [entry.pod]

    def _is_member(self, known: PodRecord | QueuedPod | None) -> bool:
        if known is None or known.pod.template.gang is None:
            return False
        runner = self._context.runner_of(known.pod)
        return runner is not None and runner.places_gangs


def is_closed(state: ClusterState, row: int) -> bool:
    """Whether the node of a row takes no more pods."""
    if row == NOWHERE:
        return False
    taints = state.taints.sets[state.taints.ids[row]]
    return bool(state.unschedulable[row]) or any(taint.effect in _BLOCKING for taint in taints)


def count_open(state: ClusterState) -> int:
    """The number of nodes that take pods."""
    rows = state.rows()
    blocked = np.array([any(taint.effect in _BLOCKING for taint in taints) for taints in state.taints.sets])
    return int(len(rows) - (state.unschedulable[rows] | blocked[state.taints.ids[rows]]).sum())
