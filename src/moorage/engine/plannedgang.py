"""A gang that a plugin plans: the plan is carried out, and what turns out about room is part of the next plan.

A plan counts amounts; filters and Reserve know more. Where they refuse a member, nodes are measured: how many members
of its sort a node takes while no other member stands anywhere. That is a fact about the node, unless another member
could lift the refusal, as with spread: then members find places beside those of the plan, inside the same domains, and
the plugin plans once more with just as many on each node. After a few plans the gang waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from moorage.core.arrays import Mask, Rows
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangtopology import role_of
from moorage.core.state import NOWHERE
from moorage.core.values import dataclass
from moorage.engine.diagnosis import rejecting_plugins
from moorage.engine.failures import failure_of, failure_of_judgement
from moorage.engine.gangplacement import MOST_KINDS, GangPlacement
from moorage.engine.units import QueuedPod
from moorage.framework.changes import Change, What
from moorage.framework.contract import PlansGangs
from moorage.framework.gang_capacity import kind_of
from moorage.framework.gangplans import GangPlan, RoomLimits
from moorage.framework.gangquestions import sort_of
from moorage.framework.status import Code, Status

if TYPE_CHECKING:
    from moorage.engine.trial import Trial

_MOST_PLANS = 8
"""The most plans that are made in one attempt."""
_MOST_MEASURED = 512
"""So many members are put on nodes at most to measure nodes that are not part of a plan, in one attempt."""

Spots = Counter[tuple[Hashable, int]]
"""Sort of members, row -> how many of them stand there."""
Places = Mapping[str, Sequence[Rows]]
"""Role -> sets of rows; a member may lie anywhere in the set that its plan puts it in."""


@dataclass(slots=True)
class _Carried:
    """What came of a plan."""

    placement: GangPlacement
    spots: Spots = field(default_factory=Counter)
    refused: dict[tuple[Hashable, int], QueuedPod] = field(default_factory=dict)
    """Sort of members, row -> one that it was planned for, and that found no place in the end."""


class PlannedGang:
    """One attempt to place the members of a gang that wait, on the state of a trial."""

    def __init__(
        self,
        trial: Trial,
        planner: PlansGangs,
        ready: Sequence[QueuedPod],
        needs: GangNeeds,
        prices: Mapping[int, int],
    ) -> None:
        """`prices` as in `RoomLimits`."""
        self._trial, self._planner, self._ready, self._needs = trial, planner, ready, needs
        self._context, self._state = trial.context, trial.context.state
        self._limits = RoomLimits(prices=prices)
        self._sorts: dict[str, Hashable] = {}
        self._refused: set[Hashable] = set()
        """Sorts of which a member was refused: they come first the next time."""
        self._measures = _MOST_MEASURED
        self._bound: tuple[int, ...] = ()
        """Of the latest plan that rested on no guess."""

    def place(self) -> GangPlacement | None:
        """Place the members where the plugin wants them; None if it has no plan for such gangs."""
        nominations = self._state.nominations
        before = {entry.pod: node for entry in self._ready if (node := nominations.node_of(entry.pod.uid)) is not None}
        with self._state.statement() as what_if:
            for pod in before:  # the nomination of one member must not block another
                nominations.clear(pod.uid)
            placement = self._place()
            if placement is not None and placement.enough:
                nodes = {binding.entry.pod: binding.node for binding in placement.bindings}
                placement.given_up = [pod for pod, node in before.items() if nodes.get(pod) != node]
                what_if.commit()
        return placement

    def carry_out(self, plan: GangPlan) -> GangPlacement:
        """Put the members where a plan wants them, all or none."""
        return self._carry_out(plan).placement

    def _place(self) -> GangPlacement | None:
        placement, tried = GangPlacement(), list[Mapping[str, int]]()
        for left in reversed(range(_MOST_PLANS)):
            plan = self._plan(self._limits)
            if plan is None:
                return None
            if isinstance(plan, Status):
                if self._limits.ease():
                    continue
                return self._unplanned(plan, placement)
            if plan.rows in tried:
                break
            tried.append(plan.rows)
            carried = self._carry_out(plan)
            if not carried.placement.enough and (not self._learn(carried, plan) or not left):
                carried = self._rearranged(plan) or carried
            placement = carried.placement
            if placement.enough:
                placement.plan = None if placement.plan is None else replace(placement.plan, bound=self._bound)
                break
            self._context.stopped()
        return placement

    def _plan(self, limits: RoomLimits) -> GangPlan | Status | None:
        cycles = [self._trial.member_cycle(entry) for entry in self._ready]
        planner = self._planner
        plan = self._context.faults.ask(planner, planner.plan_gang, cycles, self._trial.runner_of, self._needs, limits)
        if isinstance(plan, GangPlan) and not limits.guesses:
            self._bound = plan.bound
        return plan

    # --- carrying a plan out ---

    def _carry_out(self, plan: GangPlan, places: Places | None = None) -> _Carried:
        """Put the members where they belong, or elsewhere in these places where that is refused.

        A member that is refused is tried again after the others: they may have lifted what stood against it.
        """
        carried = _Carried(GangPlacement(plan=plan, planned=True))
        waiting = [(entry, plan.rows[entry.pod.uid]) for entry in self._ready if entry.pod.uid in plan.rows]
        if self._refused:
            waiting.sort(key=lambda each: self._sort(each[0]) not in self._refused)
        carried.placement.tried += [entry.pod for entry, _ in waiting]
        with self._state.statement() as what_if:
            left = None
            while waiting and left != len(waiting):
                left = len(waiting)
                carried.refused.clear()
                carried.placement.failure = None
                waiting = [each for each in waiting if not self._put(carried, *each)]
                if places is not None:
                    stuck = set[tuple[Hashable, int]]()
                    waiting = [each for each in waiting if not self._put_near(carried, *each, places, stuck)]
            placement = carried.placement
            placement.enough = not waiting and self._needs.admits(self._state, len(placement.bindings))
            if placement.enough:
                what_if.commit()
        return carried

    def _put(self, carried: _Carried, entry: QueuedPod, row: int) -> bool:
        spot = self._sort(entry), row
        if spot in carried.refused:
            return False
        cycle = self._trial.member_cycle(entry)
        runner = self._trial.runner_of(cycle)
        self._trial.observe(runner, cycle)
        if not runner.takes(cycle, row):
            judgement = runner.judge(cycle, self._rows(row))
            carried.placement.fail(failure_of_judgement(judgement, 1), entry.pod)
        elif self._trial.put_member(carried.placement, entry, cycle, row):
            carried.spots[spot] += 1
            return True
        carried.refused[spot] = entry
        return False

    def _put_near(
        self, carried: _Carried, entry: QueuedPod, row: int, places: Places, stuck: set[tuple[Hashable, int]]
    ) -> bool:
        """Put a member anywhere in the set of rows that the plan puts it in."""
        near = self._near(entry, row, places)
        spot = self._sort(entry), int(near[0])
        if spot in stuck:
            return False
        cycle = self._trial.member_cycle(entry)
        only: Mask = np.isin(np.arange(self._state.capacity), near)
        cycle.only = only if cycle.only is None else only & cycle.only
        row = self._trial.runner_of(cycle).decide(cycle)
        if row != NOWHERE and self._trial.put_member(carried.placement, entry, cycle, row):
            carried.spots[self._sort(entry), row] += 1
            return True
        stuck.add(spot)
        return False

    def _near(self, entry: QueuedPod, row: int, places: Places) -> Rows:
        sets = places.get(role_of(entry.pod.template), ())
        return next((rows for rows in sets if row in rows), self._rows(row))

    def _rearranged(self, plan: GangPlan) -> _Carried | None:
        """The members placed near to where a plan wants them, if all of them find a place so."""
        cycles = [self._trial.member_cycle(entry) for entry in self._ready]
        places = self._context.faults.ask(self._planner, self._planner.gang_places, cycles, self._needs)
        if isinstance(places, Status):
            return None
        with self._state.statement():
            moved = self._carry_out(plan, places)
        if moved.placement.enough:
            exact = self._plan(replace(self._limits, exactly=moved.spots))
            carried = self._carry_out(exact) if isinstance(exact, GangPlan) else None
            if carried is not None and carried.placement.enough:
                return carried
        for (sort, row), entry in moved.refused.items():
            for near in self._near(entry, row, places).tolist():
                self._limits.found[sort, near] = moved.spots[sort, near]
        return None

    # --- what turns out about room ---

    def _learn(self, carried: _Carried, plan: GangPlan) -> bool:
        """Measure where members were refused, and nodes beside them; whether the next plan will be another one."""
        wanted = Counter((self._sort(entry), plan.rows[entry.pod.uid]) for entry in self._ready
                         if entry.pod.uid in plan.rows)  # fmt: skip
        self._refused.update(sort for sort, _ in carried.refused)
        for sort, row in carried.refused:
            self._measure(sort, row)
        on_row = self._limits.on_row
        short = [spot for spot in carried.refused if on_row.get(spot, wanted[spot]) < wanted[spot]]
        for sort in dict.fromkeys(sort for sort, _ in short):
            for row in self._others():
                self._measures -= 0 if (sort, row) in on_row else self._measure(sort, row)
                if self._measures <= 0:
                    break
        return bool(short)

    def _others(self) -> Iterator[int]:
        cycles = [self._trial.member_cycle(entry) for entry in self._ready]
        domains = self._context.faults.ask(self._planner, self._planner.gang_domains, cycles, self._needs)
        for rows in () if domains is None or isinstance(domains, Status) else domains:
            yield from rows.tolist()

    def _measure(self, sort: Hashable, row: int) -> int:
        """Find out how many members of a sort a node takes if no other stands anywhere; returns how many were tried."""
        members = [entry for entry in self._ready if self._sort(entry) == sort]
        carried = _Carried(GangPlacement())
        with self._state.statement():
            refused = next((entry for entry in members if not self._put(carried, entry, row)), None)
        if refused is None or not self._may_lift(carried.placement.rejected_by, refused):
            self._limits.on_row[sort, row] = carried.spots[sort, row]
        return carried.spots[sort, row] + 1

    def _may_lift(self, names: Collection[str], refused: QueuedPod) -> bool:
        """Whether others of the members, once they stand somewhere, may make these plugins take one back.

        Volumes belong to a member alone, so what is learned with them is no fact for the others.
        """
        plugins = self._context.responsible(refused.pod).plugins
        known = {each.name: each for each in (*plugins.filter, *plugins.reserve)}
        if refused.pod.template.volumes or any(name not in known for name in names):
            return True
        waking = [known[name] for name in names if known[name].wakes & What.POD_ADDED]
        others = {kind_of(entry.pod): Change(What.POD_ADDED, pod=entry.pod) for entry in self._ready}
        ask, template = self._context.faults.ask, refused.pod.template
        return any(ask(plugin, plugin.helps, template, other) for plugin in waking for other in others.values())

    # --- else ---

    def _unplanned(self, status: Status, latest: GangPlacement) -> GangPlacement:
        """There is no plan: what keeps members from nodes may have to change, too."""
        failure, planner = failure_of(replace(status, plugin=self._planner.name)), self._planner.name
        rejected_by = {planner, *self._trial.counting(self._ready), *latest.rejected_by}
        placement = GangPlacement(failure=failure, planned=True, rejected_by=rejected_by)
        if status.code is Code.UNRESOLVABLE:
            placement.hopeless = True
            return placement
        for entry in {kind_of(entry.pod): entry for entry in self._ready[:MOST_KINDS]}.values():
            cycle = self._trial.member_cycle(entry)
            judgement = self._trial.runner_of(cycle).judge(cycle, self._state.rows())
            placement.rejected_by |= rejecting_plugins(judgement)
        return placement

    def _sort(self, entry: QueuedPod) -> Hashable:
        uid = entry.pod.uid
        if uid not in self._sorts:
            cycle = self._trial.member_cycle(entry)
            self._sorts[uid] = sort_of(cycle, self._trial.runner_of(cycle))
        return self._sorts[uid]

    @staticmethod
    def _rows(row: int) -> Rows:
        return np.array([row], dtype=np.intp)
