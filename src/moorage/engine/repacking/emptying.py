"""The search for nodes that can be emptied, and its proof.

A pass cordons a set of nodes in a what-if and places their pods anew, the largest first, each where its profile would.
When a pod fits nowhere, the node that is worth least of all is kept, its pods come home, and the pass goes on. At its
end every other node is tried once more. The first set is as large as the bound allows, the cheapest nodes first, in a
few orders; the best set is placed anew without dropping any node, and that pass is the proof: the moves are good one
after the other, in its order. Work is counted in placements, and ends at a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from moorage.core.disruption.away import Away
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.bound import Bound, bound
from moorage.engine.repacking.census import Census, Mover, amounts
from moorage.engine.repacking.choice import choice
from moorage.engine.repacking.plans import EmptyingPlan, PlannedMove

MOST_STEPS = 100_000
"""Placements of one search."""
_TRIES = 8
"""So many nodes are looked at for one that would let a pod in if it were kept."""
_PROOFS = 8
"""So many times a set may lose nodes before it is proven."""

Key = Callable[[int], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class EmptyingAims:
    """What a plan must achieve, and what it may cost."""

    least_gain: float = 0.0
    """Share of the nodes in use that must become empty."""
    most_nodes: int | None = None
    """More nodes than these are not emptied by one plan."""
    most_steps: int = MOST_STEPS


class _Found(NamedTuple):
    rows: tuple[int, ...]
    """Those that are empty, in the order of the search."""
    moves: tuple[PlannedMove, ...]
    proof: bool
    """Whether the moves are good one after the other: no node turned out to be needed, and none was added later."""

    def score(self) -> tuple[int, int]:
        return len(self.rows), -len(self.moves)


class Emptying:
    """One search on one state; the state is as before when it ends."""

    def __init__(self, proofs: Proofs, census: Census, now: float, aims: EmptyingAims | None = None) -> None:
        self._proofs = proofs
        self._state = proofs.state
        self._census = census
        self._now = now
        self._aims = aims or EmptyingAims()
        self._bound: Bound = bound(self._state, census)
        self._steps = 0
        in_use = census.in_use
        most = min(max(0, self._bound.most - len(census.empty)), in_use)
        self.result = EmptyingPlan(in_use=in_use, bound=most, finished=False)
        """What was found so far."""
        self._offered = np.maximum(self._state.resources.allocatable.sum(axis=1), 1).astype(np.float64)

    def plan(self) -> EmptyingPlan:
        """The best plan that is found; without moves if none gains enough."""
        for _ in self.work():
            pass
        return self.result

    def work(self) -> Iterator[None]:
        """The same in parts that take about as long as placing every pod once; `result` has the plan at the end.

        Between parts the state may change. A plan that was found on an earlier state has to be proven again.
        """
        empty = len(self._census.empty)
        best: _Found | None = None
        for key in self._keys():
            for found in self._search(key):
                if found.proof and (best is None or found.score() > best.score()):
                    best = found
                yield
            if self.spent or (best is not None and len(best.rows) - empty >= self.result.bound):
                break
        if best is not None and self._gains(best):
            best = self._cut(best)
        self.result = self._planned(best if best is not None and self._gains(best) else None)

    def proven(self, names: Iterable[str]) -> EmptyingPlan:
        """The plan that empties these nodes, as far as they can be emptied; without moves if that gains nothing."""
        empty, rows = self._census.empty, (self._state.row_of(name) for name in names)
        found = self._proven([*empty, *(row for row in rows if row is not None and self._census.movers.get(row))])
        self.result = self._planned(found if found is not None and len(found.rows) > len(empty) else None)
        return self.result

    def fills_empty(self, names: Iterable[str]) -> bool:
        """Whether pods of these nodes would go to empty ones if those were open; then they have to be closed, too."""
        rows = [row for name in names if (row := self._state.row_of(name)) is not None and self._census.movers.get(row)]
        empty, found = {*self._names(self._census.empty)}, self._pass(rows)
        return not found.proof or any(move.target in empty for move in found.moves)

    def _planned(self, found: _Found | None) -> EmptyingPlan:
        in_use, most = self.result.in_use, self.result.bound
        if found is None:
            return EmptyingPlan(in_use=in_use, bound=most, steps=self._steps, finished=not self.spent)
        movers = self._census.movers
        nodes = sorted((row for row in found.rows if movers[row]), key=lambda row: len(movers[row]))
        empty = {*found.rows}
        spared = [row for row in self._census.empty if row in empty]
        filled = [row for row in self._census.empty if row not in empty]
        return EmptyingPlan(
            moves=found.moves,
            nodes=self._names(nodes),
            filled=self._names(filled),
            spared=self._names(spared),
            in_use=in_use,
            bound=most,
            steps=self._steps,
            finished=not self.spent,
        )

    def _names(self, rows: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._state.node(row).name for row in rows)

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self._steps >= self._aims.most_steps

    def _gains(self, found: _Found) -> bool:
        """Whether enough nodes become empty; a node that was empty and is filled counts against them."""
        gained = len(found.rows) - len(self._census.empty)
        return gained > 0 and gained >= self._aims.least_gain * self._census.in_use

    def _cut(self, found: _Found) -> _Found | None:
        """The nodes with the fewest moves of them, if a plan must not empty as many."""
        movers = self._census.movers
        full = [row for row in found.rows if movers[row]]
        if self._aims.most_nodes is None or len(full) <= self._aims.most_nodes:
            return found
        chosen = sorted(full, key=lambda row: (len(movers[row]), self._state.node(row).name))[: self._aims.most_nodes]
        return self._proven([*(row for row in found.rows if not movers[row]), *chosen])

    # --- orders ---

    def _keys(self) -> Iterable[Key]:
        """In which order nodes are emptied: the cheapest room first, or the fewest moves, or the least to move."""
        movers, worth = self._census.movers, self._bound.worth
        names = {row: float(self._state.node_hashes[row]) for row in movers}
        volume = {row: self.size(movers[row]) for row in movers}
        yield lambda row: (round(worth[row], 2), len(movers[row]), names[row])
        yield lambda row: (worth[row] + 0.02 * len(movers[row]), names[row])
        yield lambda row: (len(movers[row]), worth[row], names[row])
        yield lambda row: (worth[row] + volume[row], names[row])

    # --- passes ---

    def _search(self, key: Key) -> Iterator[_Found]:
        """One set after the other, each a part of the one before; the last one is proven if it dropped no node."""
        order = sorted(self._census.movers, key=key)
        first = order[: self._bound.most + 1]
        found = self._pass(first, spares=[*order[len(first) :], *reversed(first)])
        yield found
        for _ in range(_PROOFS):
            if found.proof:
                return
            found = self._pass(found.rows)
            yield found

    def _proven(self, rows: Sequence[int]) -> _Found | None:
        """A set placed anew, without nodes that turn out to be needed."""
        for _ in range(_PROOFS):
            found = self._pass(rows)
            if found.proof:
                return found
            rows = found.rows
        return None

    def _pass(self, rows: Sequence[int], spares: Sequence[int] = ()) -> _Found:
        with self._state.statement():
            return _Pass(self, self._state, self._census, rows).run(spares)

    def place(self, mover: Mover, away: Away) -> str | None:
        """Place a pod of a cordoned node anew; None if it fits nowhere, or the search is over."""
        if self.spent:
            return None
        self._steps += 1
        return self._proofs.grant(mover.pod, self._now, choice(self._state, mover.pod.template, mover.row), away=away)

    def size(self, movers: Iterable[Mover]) -> float:
        """The largest share of all that nodes offer which pods take."""
        return float((amounts(self._state, movers) / self._offered).max())


class _Pass:
    """A set of nodes in a what-if."""

    def __init__(self, search: Emptying, state: ClusterState, census: Census, rows: Sequence[int]) -> None:
        self._search = search
        self._state = state
        self._movers, self._away = census.movers, Away(state)
        self._rows = dict.fromkeys(rows)
        """Nodes that become empty, the best ones first."""
        self._targets: dict[str, tuple[Mover, str]] = {}
        """Pods that were moved -> where they were, and where they are."""
        self._dropped = self._added = False

    def run(self, spares: Sequence[int]) -> _Found:
        """Place everything; then try whether further nodes can be emptied, too."""
        for row in self._rows:
            self._cordon(row, value=True)
        for mover in self._by_size(mover for row in self._rows for mover in self._movers[row]):
            if mover.row in self._rows and not self._move(mover) and not self._make_do(mover):
                self._keep(mover.row)
        for row in spares:
            if row not in self._rows and not self._search.spent:
                self._empty_too(row)
        moves = tuple(PlannedMove(mover.pod, mover.node, target) for mover, target in self._targets.values())
        return _Found(tuple(self._rows), moves, proof=not self._dropped and not self._added)

    def _by_size(self, movers: Iterable[Mover]) -> list[Mover]:
        return sorted(movers, key=lambda each: (-self._search.size([each]), each.pod.key))

    def _cordon(self, row: int, *, value: bool) -> None:
        self._state.upsert_node(replace(self._state.node(row), unschedulable=value))

    def _move(self, mover: Mover) -> bool:
        target = self._search.place(mover, self._away)
        if target is not None:
            self._targets[mover.pod.uid] = (mover, target)
        return target is not None

    # --- nodes that are needed after all ---

    def _make_do(self, mover: Mover) -> bool:
        """Keep another node than the pod's own, if that lets it in: one of the last, with enough room.

        None that is empty as it is: keeping the pod's own node costs as much, and saves a move.
        """
        tried = 0
        for row in reversed([*self._rows]):
            if row == mover.row or not self._movers[row] or not self._would_hold(row, mover):
                continue
            tried += 1
            self._keep(row)
            if self._move(mover):
                return True
            if tried >= _TRIES or self._search.spent:
                break
        return False

    def _would_hold(self, row: int, mover: Mover) -> bool:
        """Whether a node has enough left for the pod once its own pods are back."""
        resources = self._state.resources
        away = amounts(self._state, (each for each in self._movers[row] if each.pod.uid in self._targets))
        left = resources.allocatable[:, row] - resources.requested[:, row] - away
        return all(left[column] >= amount for column, amount in mover.amounts)

    def _keep(self, row: int) -> None:
        """A node is not emptied: its pods come home."""
        self._dropped = True
        del self._rows[row]
        self._cordon(row, value=False)
        for mover in self._movers[row]:
            if self._targets.pop(mover.pod.uid, None) is not None:
                self._away.put_back(self._away.home(mover.pod.uid))

    def _empty_too(self, row: int) -> None:
        """Empty one more node if all its pods, and those that were moved to it, find a place."""
        name, before = self._state.node(row).name, dict(self._targets)
        guests = [mover for mover, target in self._targets.values() if target == name]
        with self._state.statement() as attempt:
            self._cordon(row, value=True)
            if all(self._move(mover) for mover in self._by_size([*self._movers[row], *guests])):
                self._rows[row] = None
                self._added = True
                attempt.commit()
                return
        self._targets = before
