"""Preemption for a whole gang: the victims that make room for its members, for all of them if possible.

Inside a statement the members are assumed where they fit, one after the other. Where one fits nowhere, the search for
single pods (`preemption`) finds a node and victims on the state at that point; these are removed with their companions.
In the end, removed pods are put back as far as every member still fits (`reprieve`). Members that no node could ever
hold are left out. If there is not room for all the others, the search tries to place as many as are needed, leaving out
those that do not fit; if that fails too, nothing is evicted.

Each member takes the node that costs least at that point, which may leave no room for a later one. If members request
different amounts, the search is therefore repeated with the largest first, or the smallest first if not all are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import inf

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.disruption.away import GONE, Away
from moorage.core.gangneeds import GangNeeds
from moorage.core.objects import PodDisruptionBudget
from moorage.core.state import NOWHERE, PodRecord
from moorage.core.values import dataclass
from moorage.core.victims import VictimTable, breaking
from moorage.framework.cycle import Cycle
from moorage.framework.gang_capacity import holdable, kind_of
from moorage.framework.holding import hold
from moorage.framework.preemption import EvictionRules, VictimSearch, no_candidate, potential_rows
from moorage.framework.reprieve import Preemptor, Reprieve
from moorage.framework.runner import Runner

_APART = "the pods fit one by one but not together"


@dataclass(slots=True)
class GangFound:
    """What a search found: a node for each member, or why there is none."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Member's uid -> node; empty if there is no room."""
    victims: list[PodRecord] = field(default_factory=list)
    """Most important first."""
    placed: int = 0
    """How many members found room before one did not."""
    why: str = ""
    """Why that one did not."""


class GangSearch:
    """One search for the members of one gang, in their order. `enough` is passed to the search node by node."""

    def __init__(
        self,
        cycles: Sequence[Cycle],
        runner: Runner,
        table: VictimTable,
        budgets: Mapping[str, PodDisruptionBudget],
        rules: EvictionRules,
        enough: int,
        needs: GangNeeds,
    ) -> None:
        self._needs = needs
        self._cycles = cycles
        self._state = cycles[0].state
        self._runner = runner
        self._table = table
        self._budgets = budgets
        self._rules = rules
        self._enough = enough

    def search(self) -> GangFound:
        """Room for all members that the nodes can hold, else for as many as are needed; does not change the state."""
        needed = min(max(self._needs.members, 1), len(self._cycles))
        best = GangFound(placed=-1)
        with self._state.statement():
            for cycle in self._cycles:  # the nomination of one member must not block another
                self._state.nominations.clear(cycle.pod.uid)
            members = holdable(self._cycles, lambda _: self._runner)
            if len(members) < needed:
                return GangFound(placed=len(members), why=no_candidate(self._state, 0, Counter()))
            alike = len({kind_of(cycle.pod) for cycle in members}) == 1
            for order, aim in self._aims(members, needed):
                if alike and 0 <= best.placed < aim < len(order):
                    continue  # the attempt for all of them ended before this number
                found = self._attempt(order, aim)
                if found.nodes:
                    return found
                if found.placed > best.placed:
                    best = found
        return best

    def _aims(self, members: Sequence[Cycle], needed: int) -> Iterator[tuple[Sequence[Cycle], int]]:
        """What to try, in this order: the members, and how many of them are enough."""
        by_size = len({cycle.pod.requests for cycle in members}) > 1
        yield members, len(members)
        if by_size:
            yield sorted(members, key=self._size, reverse=True), len(members)
        if needed == len(members):
            return
        yield members, needed
        if by_size:
            yield sorted(members[:needed], key=self._size, reverse=True), needed
            yield sorted(members, key=self._size), needed

    def _size(self, cycle: Cycle) -> float:
        """The largest share that a pod takes of what the largest node has."""
        allocatable = self._state.resources.allocatable
        vector = self._state.resources.vector(cycle.pod.requests)
        if vector.unknown:
            return inf
        return max((amount / max(int(allocatable[column].max()), 1) for column, amount in vector.pairs), default=0.0)

    def _attempt(self, members: Sequence[Cycle], aim: int) -> GangFound:
        """Room for `aim` of the members; those that do not fit are left out as long as enough others are left."""
        state = self._state
        preemptors: list[Preemptor] = []
        without: dict[object, str] = {}
        """Kinds of members that found no room, and why."""
        with state.statement():
            away = Away(state, with_claims=self._runner.preempts_devices)
            for number, cycle in enumerate(members):
                if len(preemptors) == aim:
                    break
                row = NOWHERE
                if kind_of(cycle.pod) not in without:
                    row, why = self._room(cycle, away)
                if row != NOWHERE and hold(self._runner, cycle, row):
                    preemptors.append(Preemptor(cycle, row))
                    continue
                without.setdefault(kind_of(cycle.pod), why or _APART)
                if len(preemptors) + len(members) - number - 1 < aim:
                    return GangFound(placed=len(preemptors), why=next(iter(without.values())))
            obstacle = self._needs.obstacle(state)
            if obstacle is not None:
                return GangFound(placed=len(preemptors), why=f"{obstacle.message} even then.")
            broken = breaking(away.ordered(), self._table.budgets, self._rules.spent)
            may_start = partial(self._needs.admits, state, len(preemptors))
            victims = Reprieve(self._runner, away, preemptors, may_start).victims(broken)
        if victims is None:
            return GangFound(placed=len(preemptors) - 1, why=_APART)
        return GangFound({g.cycle.pod.uid: state.node(g.row).name for g in preemptors}, victims, len(preemptors))

    def _room(self, cycle: Cycle, away: Away) -> tuple[int, str]:
        """A row for one member, whose victims are removed; or why there is none."""
        state = self._state
        row = self._runner.decide(cycle)
        if row != NOWHERE:
            return row, ""
        judgement = self._runner.judge(cycle, state.rows())
        rows = potential_rows(state, judgement)
        self._table.refresh(self._budgets)
        rules = self._rules._replace(spent=self._spent(away))
        skipped = None if judgement.refusal is not None else judgement.skipped
        found = VictimSearch(cycle, self._runner, self._table, self._enough, rules).search(rows, skipped)
        if found.best is None:
            return NOWHERE, no_candidate(state, len(rows), found.reasons)
        away.take((*found.best.victims, *found.best.companions), GONE)
        return found.best.row, ""

    def _spent(self, away: Away) -> Ints | None:
        """How many evictions the members have cost each budget so far."""
        budgets = self._table.budgets
        if not len(budgets) or not away.records:
            return self._rules.spent
        known = self._rules.spent
        spent: Ints = np.zeros(len(budgets), dtype=np.int64) if known is None else known.copy()
        for record in away.records:
            for number in budgets.covering(record.pod):
                spent[number] += 1
        return spent
