"""Room for a gang that a plugin plans, in one of the domains in which it may lie: the one that costs least.

In each domain victims are added in their order, only such as have a pod there, until the gang fits as it was planned
and the result is allowed. Domains with most room come first, as they need the fewest victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.state import ClusterState
from moorage.engine.roomparts import ClaimPlan
from moorage.engine.sharedjobs import StandingJob, Standings, VictimUnit

_MOST_DOMAINS = 32
"""So many domains are looked at."""
_MOST_VICTIMS = 1024
"""So many units are taken away in one domain at most."""

Attempt = Callable[[list[VictimUnit]], ClaimPlan | None]
"""What is to be done if these units go; None if that is no solution."""


class DomainRoom:
    """One search for one claimant."""

    def __init__(self, state: ClusterState, victims: Standings, attempt: Attempt, ends: Callable[[], bool]) -> None:
        self._state, self._victims, self._attempt, self._ends = state, victims, attempt, ends

    def find(
        self,
        domains: Sequence[Rows],
        need: Amounts,
        columns: Sequence[int | None],
        order: Callable[[Standings], Iterable[VictimUnit]],
    ) -> ClaimPlan | None:
        """The cheapest solution. `need` has amounts by the number of a resource, `columns` the column of each."""
        best: tuple[tuple[int, int], ClaimPlan] | None = None
        for rows in self._most_room_first(domains, need, columns)[:_MOST_DOMAINS]:
            names = {self._state.node(row).name for row in rows.tolist()}
            units = [*_touching(names, order(self._inside(names)))][:_MOST_VICTIMS]
            plan = self._fewest(units)
            if plan is not None:
                cost = sum(len(unit.records) for unit in plan.lost), len(plan.moves)
                best = min(best or (cost, plan), (cost, plan), key=lambda each: each[0])
            if self._ends():
                break
        return None if best is None else best[1]

    def _inside(self, names: set[str]) -> Standings:
        """The jobs that have a pod in a domain."""
        found: dict[QueueNode, list[StandingJob]] = {}
        for leaf, jobs in self._victims.items():
            there = [each for each in jobs if any(record.node in names for record in each.left)]
            if there:
                found[leaf] = there
        return found

    def _most_room_first(self, domains: Sequence[Rows], need: Amounts, columns: Sequence[int | None]) -> list[Rows]:
        """Domains that would be large enough if they were empty, those with most of what is needed free first."""
        resources = self._state.resources
        found: list[tuple[float, int, Rows]] = []
        for number, rows in enumerate(domains):
            least = np.inf
            for index, amount in need:
                column = columns[index]
                if column is None or not amount:
                    continue
                offered = resources.allocatable[column, rows]
                left = (offered - resources.requested[column, rows]).clip(0)
                least = min(least, float(left.sum()) / amount) if int(offered.sum()) >= amount else -1.0
            if least >= 0:
                found.append((-least, number, rows))
        return [rows for _, _, rows in sorted(found, key=lambda each: each[:2])]

    def _fewest(self, units: list[VictimUnit]) -> ClaimPlan | None:
        """The solution with the shortest beginning of these units that is one: by doubling, then by halves."""
        best, below, count = None, 0, 1
        while units and best is None:
            best = self._attempt(units[:count])
            if best is None and count >= len(units):
                return None
            below, count = (below, count) if best is not None else (count, min(2 * count, len(units)))
        while count - below > 1:
            middle = (below + count) // 2
            plan = self._attempt(units[:middle])
            best, below, count = (best, middle, count) if plan is None else (plan, below, middle)
        return best


def _touching(names: set[str], units: Iterable[VictimUnit]) -> Iterator[VictimUnit]:
    """Units with a pod on these nodes, each after those of the same job that have to go before it."""
    before: dict[int, list[VictimUnit]] = {}
    for unit in units:
        waiting = before.setdefault(id(unit.job), [])
        waiting.append(unit)
        if any(record.node in names for record in unit.records):
            yield from waiting
            waiting.clear()
