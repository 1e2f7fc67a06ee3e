"""The plan of profiles in which every pod takes a node of its own: who gets the nodes, kept up to date event by event.

Units are single pods and whole gangs, running or waiting, in the order of the QueueSort plugin (`unit_key`). Those that
fit into the number of nodes are the plan (`core.plan`). A waiting unit is tried only while it is in the plan, and only
pods whose unit is not may be evicted for it; so what runs stays where it is unless something better needs the node.

A profile is planned if its QueueSort plugin says so (`plans`) and it has the plugin OnePodPerNode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from moorage.core.commands import PatchPodStatus
from moorage.core.gangs import lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.plan import Plan
from moorage.core.pods import Pod
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import own_rank
from moorage.engine.board import Board, Commands
from moorage.engine.evictor import ref_of
from moorage.engine.notices import members_of
from moorage.engine.queue import Place, QueuedPod, gang_uid
from moorage.framework.profiles import Profile

ONE_POD_PER_NODE = "OnePodPerNode"
PLANNED = "PlanSort"
"""Whom a unit waits for that is not in the plan."""
_BLOCKING = ("NoSchedule", "NoExecute")
_NEVER = 1 << 40
"""Beyond every priority."""


class Planning:
    """One plan per scheduler name that is planned."""

    def __init__(self, board: Board, sort: Any) -> None:
        self._board = board
        self._state = board.state
        self._sort = sort
        self._plans: dict[str, Plan] = {}
        self._dirty: dict[str, tuple[str, GangKey | None, Pod]] = {}
        """Unit -> its scheduler, its gang and one of its pods."""
        self._nodes_at = -1

    def instruct(self, profiles: Iterable[Profile]) -> None:
        """Let the plugins that choose victims ask the plan."""
        for profile in profiles:
            for plugin in profile.plugins:
                if hasattr(plugin, "rank_of"):
                    plugin.rank_of = self.rank

    # --- what the engine asks ---

    def plans(self, pod: Pod) -> bool:
        """Whether the pod's profile is planned."""
        runner = self._board.runner_of(pod)
        return runner is not None and runner.plugin(ONE_POD_PER_NODE) is not None

    def admits(self, entry: QueuedPod) -> bool:
        """Whether a waiting unit may be tried."""
        if not self.plans(entry.pod):
            return True
        plan = self._plans.get(entry.pod.template.scheduler_name)
        return plan is not None and plan.has(entry.uid)

    def drops(self, key: GangKey, pod: Pod) -> bool:
        """Whether a gang of which something stands is not in the plan."""
        if not self.plans(pod):
            return False
        plan = self._plans.get(pod.template.scheduler_name)
        return plan is not None and not plan.has(gang_uid(key))

    def rank(self, record: PodRecord) -> int:
        """What a preemptor's priority must exceed to evict a pod: the plan protects whom it has, and nobody else."""
        if not self.plans(record.pod):
            return own_rank(self._state, record)
        plan = self._plans.get(record.pod.template.scheduler_name)
        unit = record.pod.template.gang
        uid = record.pod.uid if unit is None else gang_uid(unit)
        return _NEVER if plan is None or plan.has(uid) else -_NEVER

    # --- keeping it ---

    def note(self, pod: Pod, unit: GangKey | None) -> None:
        """Something happened to a pod; `unit` is its gang if it is placed with one."""
        if self.plans(pod):
            uid = pod.uid if unit is None else gang_uid(unit)
            self._dirty[uid] = (pod.template.scheduler_name, unit, pod)

    def settle(self, now: float, commands: Commands) -> None:
        """Take over what happened, and wake the units that came into the plan; the others are promised nothing."""
        dirty, self._dirty = self._dirty, {}
        for uid, (scheduler, unit, pod) in dirty.items():
            plan = self._plans.setdefault(scheduler, Plan())
            self._put(plan, uid, unit, pod)
        position = self._state.node_log.position
        if dirty or position != self._nodes_at:
            self._nodes_at = position
            for scheduler, plan in self._plans.items():
                plan.resize(count_usable(self._state, scheduler))
        for scheduler, plan in self._plans.items():
            entered, left = plan.changes()
            self._wake(entered, now)
            noted = (uid for uid, (name, _, _) in dirty.items() if name == scheduler)
            self._disappoint((uid for uid in (*left, *noted) if not plan.has(uid)), commands)

    def _wake(self, units: Iterable[str], now: float) -> None:
        for uid in units:
            entry = self._board.queue.find(uid)
            if entry is not None and entry.place in (Place.GATED, Place.UNSCHEDULABLE):
                self._board.queue.wake(entry, now)

    def _disappoint(self, units: Iterable[str], commands: Commands) -> None:
        """What was promised to units that are not in the plan is for those that are, also after a restart."""
        for uid in units:
            entry = self._board.queue.find(uid)
            for pod in () if entry is None else (member.pod for member in members_of(entry)):
                if self._state.nominations.node_of(pod.uid) is not None:
                    self._board.end_promise(pod.uid)
                    commands.append(PatchPodStatus(ref_of(pod), nominated_node=""))

    def _put(self, plan: Plan, uid: str, unit: GangKey | None, pod: Pod) -> None:
        """A unit as it is now, out of the plan's sight if it is gone or not complete."""
        standing, waiting = self._pods(uid, unit)
        everyone = [*standing, *waiting]
        least = 1 if unit is None else self._least(unit, waiting)
        if not everyone or least is None or len(everyone) < least:
            plan.drop(uid)
            return
        priority = min(each.template.priority for each in everyone)
        created_s = min(each.created_s for each in everyone)
        name = pod.key if unit is None else unit.object_key
        key = self._sort.unit_key(priority, len(everyone), bool(standing), created_s, name)
        plan.put(uid, key, len(everyone))

    def _pods(self, uid: str, unit: GangKey | None) -> tuple[list[Pod], list[Pod]]:
        """The unit's pods that stand and are going to stay, and those that wait."""
        if unit is not None:
            gang = self._board.queue.gang(unit)
            waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
            return [record.pod for record in lasting(self._state, unit)], waiting
        record, entry = self._state.record(uid), self._board.queue.get(uid)
        if record is not None:
            stays = record.pod.deleted_s is None and not self._state.evictions.evicting(uid)
            return ([record.pod] if stays else []), []
        return [], [] if entry is None or entry.pod.gates else [entry.pod]

    def _least(self, unit: GangKey, waiting: Iterable[Pod]) -> int | None:
        terms = terms_of(self._state, unit, waiting)
        return None if terms is None else terms.min_count or 1


def count_usable(state: ClusterState, scheduler: str) -> int:
    """The number of nodes that take pods, and of those that take no more but hold one of this scheduler."""
    rows = state.rows()
    blocked = np.array([any(taint.effect in _BLOCKING for taint in taints) for taints in state.taint_sets])
    closed = state.unschedulable[rows] | blocked[state.taint_ids[rows]]
    held = sum(
        any(record.pod.template.scheduler_name == scheduler for record in state.records_on(int(row)))
        for row in rows[closed]
    )
    return int(len(rows) - closed.sum()) + held
