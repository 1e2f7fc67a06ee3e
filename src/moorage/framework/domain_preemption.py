"""Preemption for a gang that a plugin plans: one whole domain is freed as far as needed, the cheapest one.

In every domain in which the gang may lie, all less important pods are removed inside a statement, and the gang is
planned again. If it fits then, the removed pods are put back as far as every member keeps its place (`reprieve`). The
domain whose victims matter least is chosen, so nothing is evicted unless the gang is known to fit afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from moorage.core.arrays import Rows
from moorage.core.disruption.away import GONE, Away
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import eviction_priority
from moorage.core.objects import PodDisruptionBudget
from moorage.core.state import PodRecord
from moorage.core.victims import VictimTable, breaking
from moorage.framework.contract import PlansGangs
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import GangPlan, RoomLimits
from moorage.framework.holding import hold
from moorage.framework.preemption import EvictionRules
from moorage.framework.reprieve import Preemptor, Reprieve
from moorage.framework.runner import Runner

_MOST_DOMAINS = 64
"""The most domains that are emptied to find out what that costs."""
_MOST_MEMBERS = 2048
"""The most members that are planned for that, all domains together; two domains are looked at in any case."""


class Freed(NamedTuple):
    """A domain that can be freed for the gang."""

    nodes: dict[str, str]
    """Member's uid -> node."""
    victims: list[PodRecord]
    """Most important first."""
    cost: tuple[int, int, int, int]
    """Violated budgets, the highest priority of a victim, the sum of priorities, the number of victims."""


class DomainSearch:
    """One search for the members of one gang."""

    def __init__(
        self,
        cycles: Sequence[Cycle],
        runner: Runner,
        table: VictimTable,
        budgets: Mapping[str, PodDisruptionBudget],
        rules: EvictionRules,
        needs: GangNeeds,
    ) -> None:
        self._cycles, self._runner, self._rules, self._needs = cycles, runner, rules, needs
        self._state = cycles[0].state
        self._table, self._budgets = table, budgets

    def search(self, planner: PlansGangs, domains: Sequence[Rows]) -> Freed | None:
        """The cheapest domain; None if the gang fits none of them even without less important pods."""
        best: Freed | None = None
        with self._state.statement():
            for cycle in self._cycles:  # the nomination of one member must not block another
                self._state.nominations.clear(cycle.pod.uid)
            emptied = [(rows, [*self._evictable(rows)]) for rows in domains]
            emptied.sort(key=lambda each: (not each[1], len(each[1])))
            for _, records in emptied[: max(2, min(_MOST_DOMAINS, _MOST_MEMBERS // len(self._cycles)))]:
                if not records:
                    break
                found = self._free(planner, records)
                if found is not None and (best is None or found.cost < best.cost):
                    best = found
        return best

    def _evictable(self, rows: Rows) -> Iterator[PodRecord]:
        ranks = self._runner.ranks
        for row in rows.tolist():
            for record in self._state.records_on(row):
                rank = eviction_priority(self._state, record) if ranks is None else ranks.rank(record)
                if rank < self._rules.priority:
                    yield record

    def _free(self, planner: PlansGangs, records: Sequence[PodRecord]) -> Freed | None:
        """What it takes to place the gang if these pods may go."""
        state, runner = self._state, self._runner
        with state.statement():
            away = Away(state, with_claims=runner.preempts_devices)
            away.take_along(records, GONE)
            limits = RoomLimits(prices=dict.fromkeys(away.rows, -1))
            plan = planner.plan_gang(self._cycles, lambda _: runner, self._needs, limits)
            preemptors = self._preemptors(plan.rows if isinstance(plan, GangPlan) else {})
            if preemptors is None:
                return None
            broken = breaking(away.ordered(), self._table.budgets, self._rules.spent)
            may_start = partial(self._needs.admits, state, len(preemptors))
            victims = Reprieve(runner, away, preemptors, may_start).victims(broken)
            if not victims or (self._rules.strict and any(each.pod.uid in broken for each in victims)):
                return None
            nodes = {preemptor.cycle.pod.uid: state.node(preemptor.row).name for preemptor in preemptors}
        violations = len(breaking(victims, self._table.budgets, self._rules.spent))
        priorities = [record.pod.template.priority for record in victims]
        return Freed(nodes, victims, (violations, max(priorities), sum(priorities), len(victims)))

    def _preemptors(self, rows: Mapping[str, int]) -> list[Preemptor] | None:
        """The members assumed where a plan wants them; None if that does not work out."""
        preemptors = []
        for cycle in self._cycles:
            row = rows.get(cycle.pod.uid)
            if row is None:
                continue
            if not (self._runner.fits(cycle, row) and hold(self._runner, cycle, row)):
                return None
            preemptors.append(Preemptor(cycle, row))
        return preemptors if preemptors and self._needs.admits(self._state, len(preemptors)) else None
