"""The pods of every row in order of importance, as columns: the input of preemption, for all nodes at once.

A slot is a pod's place in the order of its row: higher rank first, then the one that started earlier (a pod that has
not started counts as the youngest), then by name, so that the order is the same in every run.

A pod's rank is the priority that a preemptor must exceed to evict it. It is the pod's priority, unless more important
members of its gang would be evicted with it, or `Ranks` were given.

Arrays are [slots, capacity], slot k of row r at [k, r]. Empty slots have the priority EMPTY, which no preemptor
exceeds, and no amounts. Rows are filled again when the state's logs name them, so a reader pays for changed rows only.
Ranks can change without that: rows with a gang whose members differ in priority are checked every time, and so are the
rows that `Ranks` name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Protocol

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.budgets import Budgets, same_objects
from moorage.core.changelog import ChangeLog
from moorage.core.gangs import eviction_priority
from moorage.core.membership import GangKey
from moorage.core.objects import PodDisruptionBudget
from moorage.core.state import NOWHERE, ClusterState, PodRecord

Slots = npt.NDArray[np.int64]
"""One number per slot, shape (slots, n)."""
RankOf = Callable[[PodRecord], int]
"""The priority that a preemptor must exceed to evict a pod."""


class Ranks(Protocol):
    """What says which pods may be evicted where their priorities alone do not."""

    @property
    def reranked(self) -> ChangeLog[int] | None:
        """The rows with pods of other ranks than before, though the pods are the same; None: nobody knows which."""

    def rank(self, record: PodRecord, /) -> int:
        """The priority that a preemptor must exceed to evict a pod."""


EMPTY = np.iinfo(np.int64).max
_FIRST_DEPTH = 16
_NO_BUDGET = -1
_NEVER = -1
"""Before the beginning of every log."""


def staying(state: ClusterState, record: PodRecord) -> bool:
    """Whether the deletion of the pod has not been ordered yet."""
    return record.pod.deleted_s is None and not state.evictions.evicting(record.pod.uid)


def own_rank(state: ClusterState, record: PodRecord) -> int:
    """The rank without `Ranks`; with a pod that is already being deleted no others are evicted."""
    if record.pod.template.gang is None or not staying(state, record):
        return record.pod.template.priority
    return eviction_priority(state, record)


def breaking(records: Iterable[PodRecord], budgets: Budgets, spent: Ints | None = None) -> frozenset[str]:
    """Uids of those pods that violate a budget if all of them are evicted, counted from the first one on."""
    if not len(budgets):
        return frozenset()
    left = budgets.allowed.copy() if spent is None else budgets.allowed - spent
    found: set[str] = set()
    for record in records:
        covering = list(budgets.covering(record.pod))
        left[covering] -= 1
        if (left[covering] < 0).any():
            found.add(record.pod.uid)
    return frozenset(found)


class VictimTable:
    """Reads one state; call `refresh` before looking at anything."""

    def __init__(self, state: ClusterState, ranks: Ranks | None = None) -> None:
        self.state = state
        self.depth = _FIRST_DEPTH
        self.records: list[list[PodRecord]] = []
        """Per row the pods in order of importance."""
        self.budgets = Budgets()
        self.ranks = ranks
        """They replace the table's own."""
        self._reranked_at = _NEVER
        """How far the log of `ranks` was read."""
        self._objects: Mapping[str, PodDisruptionBudget] = {}
        self._positions: tuple[int, int] | None = None
        self._extra: dict[int, list[tuple[int, int]]] = {}
        """Row -> (slot, budget) of pods that more than one budget covers, beyond the first."""
        self._lifted: dict[int, list[int]] = {}
        """Row -> ranks of its pods in the order of `records`, where they are not just their priorities."""
        self._suspects: set[GangKey] = set()
        """Gangs that gained or lost a member since the last refresh."""
        self._uneven: set[GangKey] = set()
        """Gangs whose members differ in priority."""
        self._uneven_rows: set[int] = set()
        """The rows of their members at the last refresh."""
        self._allocate()

    def rank_of(self, record: PodRecord) -> int:
        """The priority that a preemptor must exceed to evict this pod; cheap for gangs of equals."""
        if self.ranks is not None:
            return self.ranks.rank(record)
        if record.pod.template.gang not in self._uneven:
            return record.pod.template.priority
        return own_rank(self.state, record)

    def _allocate(self) -> None:
        shape = (self.depth, self.state.capacity)
        self.priority: Slots = np.full(shape, EMPTY, dtype=np.int64)
        self.rank: Slots = self.priority
        """The same array as `priority` as long as no rank differs from it."""
        self.grouped: Mask | None = None
        """Which pods are members of gangs; None as long as there are none."""
        self.start: npt.NDArray[np.float64] = np.full(shape, inf, dtype=np.float64)
        self._amounts: dict[int, Slots] = {}
        """What the pods request, by the column of a resource; resources without requests are left out."""
        self.budget: npt.NDArray[np.int32] = np.full(shape, _NO_BUDGET, dtype=np.int32)
        self.records = [[] for _ in range(self.state.capacity)]
        self._extra.clear()
        self._lifted.clear()
        self._suspects.update(self.state.gangs.keys())

    # --- keeping up ---

    def refresh(self, budgets: Mapping[str, PodDisruptionBudget]) -> None:
        """Take over everything that changed since the last time; `budgets` by key."""
        state = self.state
        again = self._take_budgets(budgets)
        now = (state.pod_log.position, state.start_log.position)
        rows: Iterable[int] | None = None
        if self._positions is not None and self.priority.shape[1] == state.capacity and not again:
            if now == self._positions and self.ranks is None and not self._uneven:
                return
            logs = (state.pod_log.since(self._positions[0]), state.start_log.since(self._positions[1]))
            rows = None if logs[0] is None or logs[1] is None else {*logs[0], *logs[1]}
        if rows is None:
            self._allocate()
            rows = map(int, state.rows())
        self._positions = now
        for row in rows:
            self._fill(row)
        if self._ranks_matter():
            self._look_at_ranks()

    def _take_budgets(self, budgets: Mapping[str, PodDisruptionBudget]) -> bool:
        """Returns whether other pods are covered now."""
        if same_objects(self._objects, budgets):
            return False
        before, self.budgets = self.budgets, Budgets(budgets.values())
        self._objects = dict(budgets)
        return not self.budgets.covers_like(before)

    # --- ranks ---

    def _ranks_matter(self) -> bool:
        """Whether there may be ranks that differ from priorities, or were a moment ago."""
        return bool(self.state.gangs or self._uneven or self._suspects or self._lifted or self.ranks is not None)

    def _look_at_ranks(self) -> None:
        """Fill those rows again on which ranks have changed, though their pods may be the same."""
        for key in self._suspects:
            priorities = {record.pod.template.priority for record in self.state.gangs.standing(key).values()}
            (self._uneven.add if len(priorities) > 1 else self._uneven.discard)(key)
        self._suspects.clear()
        for row in self._rows_in_doubt():
            ranks = list(map(self.rank_of, self.records[row]))
            known = self._lifted.get(row) or [record.pod.template.priority for record in self.records[row]]
            if ranks != known:
                self._fill(row)

    def _rows_in_doubt(self) -> list[int]:
        before, self._uneven_rows = self._uneven_rows, set()
        for key in self._uneven:
            self._uneven_rows.update(record.row for record in self.state.gangs.standing(key).values())
        self._uneven_rows.discard(NOWHERE)
        reranked = self._reranked()
        return (
            list(map(int, self.state.rows())) if reranked is None else sorted({*before, *self._uneven_rows, *reranked})
        )

    def _reranked(self) -> list[int] | None:
        """The rows that `ranks` name since the last refresh; None if that may be any."""
        if self.ranks is None:
            return []
        log = self.ranks.reranked
        known, self._reranked_at = self._reranked_at, _NEVER if log is None else log.position
        return None if log is None else log.since(known)

    def _ranked(self, row: int) -> list[PodRecord]:
        """The pods of a row in order of importance; takes note of their ranks and gangs."""
        records = self.state.records_on(row)
        if not self._ranks_matter():
            return sorted(records, key=importance)
        gangs = (record.pod.template.gang for record in (*records, *self.records[row]))
        self._suspects.update(key for key in gangs if key is not None)
        if self.grouped is None:
            self.grouped = np.zeros(self.priority.shape, dtype=np.bool_)
        rank = {record.pod.uid: self.rank_of(record) for record in records}
        records.sort(key=lambda record: (-rank[record.pod.uid], _start(record), record.pod.key))
        ranks = [rank[record.pod.uid] for record in records]
        if ranks == [record.pod.template.priority for record in records]:
            self._lifted.pop(row, None)
        else:
            self._lifted[row] = ranks
            if self.rank is self.priority:
                self.rank = self.priority.copy()
        return records

    # --- filling ---

    def _fill(self, row: int) -> None:
        records = self._ranked(row)
        self.records[row] = records
        count = len(records)
        if count > self.depth:
            self._deepen(count)
        self.priority[:, row] = EMPTY
        self.start[:, row] = inf
        self.budget[:, row] = _NO_BUDGET
        self._extra.pop(row, None)
        self.priority[:count, row] = [record.pod.template.priority for record in records]
        if self.rank is not self.priority:
            self.rank[:, row] = self.priority[:, row]
            self.rank[:count, row] = self._lifted.get(row) or self.priority[:count, row]
        if self.grouped is not None:
            self.grouped[:, row] = False
            self.grouped[:count, row] = [record.pod.template.gang is not None for record in records]
        self._fill_amounts(row, records)
        if not count:
            return
        self.start[:count, row] = [_start(record) for record in records]
        if len(self.budgets):
            self._fill_budgets(row, records)

    def _fill_amounts(self, row: int, records: list[PodRecord]) -> None:
        asked: dict[int, list[int]] = {}
        for slot, record in enumerate(records):
            for column, amount in record.vector.pairs:
                if column not in asked:
                    asked[column] = [0] * len(records)
                asked[column][slot] = amount
        for slots in self._amounts.values():
            slots[:, row] = 0
        for column, amounts in asked.items():
            if column not in self._amounts:
                self._amounts[column] = np.zeros(self.priority.shape, dtype=np.int64)
            self._amounts[column][: len(amounts), row] = amounts

    def amounts(self, column: int) -> Slots:
        """What the pods request of a resource, by its column; [slots, capacity]. Do not change it."""
        found = self._amounts.get(column)
        return np.broadcast_to(np.int64(0), self.priority.shape) if found is None else found

    def _fill_budgets(self, row: int, records: list[PodRecord]) -> None:
        for slot, record in enumerate(records):
            covering = self.budgets.covering(record.pod)
            if covering:
                self.budget[slot, row] = covering[0]
                if len(covering) > 1:
                    self._extra.setdefault(row, []).extend((slot, number) for number in covering[1:])

    def _deepen(self, count: int) -> None:
        more = max(count, self.depth * 3 // 2) - self.depth
        self.depth += more
        alike = self.rank is self.priority
        self.priority = np.pad(self.priority, ((0, more), (0, 0)), constant_values=EMPTY)
        self.rank = self.priority if alike else np.pad(self.rank, ((0, more), (0, 0)), constant_values=EMPTY)
        self.grouped = None if self.grouped is None else np.pad(self.grouped, ((0, more), (0, 0)))
        self.start = np.pad(self.start, ((0, more), (0, 0)), constant_values=inf)
        self._amounts = {column: np.pad(slots, ((0, more), (0, 0))) for column, slots in self._amounts.items()}
        self.budget = np.pad(self.budget, ((0, more), (0, 0)), constant_values=_NO_BUDGET)

    # --- budgets ---

    def violating(
        self, rows: Rows, lower: Mask, *, spent: Ints | None = None, least_first: bool = False
    ) -> Mask | None:
        """Which of the pods in `lower` (bool[slots, n]) would violate a budget, counted from the most important one on.

        Each row is counted by itself. A pod uses up every budget that covers it. None if no budget is broken. `spent`
        is what each budget has lost already, by its number; `least_first` counts from the least important one on.
        """
        if not len(self.budgets):
            return None
        budget = self.budget[: len(lower), rows]
        column, slot = np.nonzero((lower & (budget != _NO_BUDGET)).T)
        number = budget[slot, column].astype(np.int64)
        column, slot, number = self._with_extra(rows, lower, (column, slot, number))
        if not len(column):
            return None
        order = np.lexsort((-slot if least_first else slot, number, column))
        column, slot, number = column[order], slot[order], number[order]
        first = np.ones(len(column), dtype=np.bool_)
        first[1:] = (column[1:] != column[:-1]) | (number[1:] != number[:-1])
        position = np.arange(len(column))
        rank = position - np.maximum.accumulate(np.where(first, position, 0))
        allowed = self.budgets.allowed if spent is None else self.budgets.allowed - spent
        broken = rank >= allowed[number]
        if not broken.any():
            return None
        found: Mask = np.zeros(lower.shape, dtype=np.bool_)
        found[slot[broken], column[broken]] = True
        return found

    def _with_extra(self, rows: Rows, lower: Mask, known: tuple[Rows, Rows, Slots]) -> tuple[Rows, Rows, Slots]:
        if not self._extra:
            return known
        more = [
            (column, slot, number)
            for column, row in enumerate(map(int, rows))
            for slot, number in self._extra.get(row, ())
            if slot < len(lower) and lower[slot, column]
        ]
        if not more:
            return known
        added = np.array(more, dtype=np.int64).T
        column, slot, number = (np.concatenate(pair) for pair in zip(known, added, strict=True))
        return column, slot, number


def _start(record: PodRecord) -> float:
    started_s = record.pod.started_s
    return inf if started_s is None else started_s


def importance(record: PodRecord) -> tuple[int, float, str]:
    """Sorts the more important pod first, ranks left aside."""
    return -record.pod.template.priority, _start(record), record.pod.key
