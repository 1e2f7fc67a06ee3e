"""The pods of every row in order of importance, as columns: what preemption looks at, for all nodes at once.

A slot is a pod's place in the order of its row: higher priority first, then the one that started earlier (a pod that
has not started counts as the youngest), then by name, so that the order is the same in every run.

Arrays are [slots, capacity], slot k of row r at [k, r]. Empty slots have the priority NOBODY, which is lower than
nobody's, and no amounts. Rows are filled again when the state's logs name them, so a reader pays for changed rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Mask, Rows
from moorage.core.budgets import Budgets, same_objects
from moorage.core.objects import PodDisruptionBudget
from moorage.core.state import ClusterState, PodRecord

Slots = npt.NDArray[np.int64]
"""One number per slot, shape (slots, n)."""

NOBODY = np.iinfo(np.int64).max
_FIRST_DEPTH = 16
_NO_BUDGET = -1


class VictimTable:
    """Reads one state; call `refresh` before looking at anything."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.depth = _FIRST_DEPTH
        self.records: list[list[PodRecord]] = []
        """Per row the pods in order of importance."""
        self.budgets = Budgets()
        self._objects: Mapping[str, PodDisruptionBudget] = {}
        self._positions: tuple[int, int] | None = None
        self._extra: dict[int, list[tuple[int, int]]] = {}
        """Row -> (slot, budget) of pods that more than one budget covers, beyond the first."""
        self._allocate()

    def _allocate(self) -> None:
        shape = (self.depth, self.state.capacity)
        self.priority: Slots = np.full(shape, NOBODY, dtype=np.int64)
        self.start: npt.NDArray[np.float64] = np.full(shape, inf, dtype=np.float64)
        self.amounts: npt.NDArray[np.int64] = np.zeros((len(self.state.resources.names), *shape), dtype=np.int64)
        self.budget: npt.NDArray[np.int32] = np.full(shape, _NO_BUDGET, dtype=np.int32)
        self.records = [[] for _ in range(self.state.capacity)]
        self._extra.clear()

    # --- keeping up ---

    def refresh(self, budgets: Mapping[str, PodDisruptionBudget]) -> None:
        """Take over everything that changed since the last time; `budgets` by key."""
        state = self.state
        again = self._take_budgets(budgets)
        now = (state.pod_log.position, state.start_log.position)
        rows: Iterable[int] | None = None
        if self._positions is not None and self.priority.shape[1] == state.capacity and not again:
            if now == self._positions:
                return
            logs = (state.pod_log.since(self._positions[0]), state.start_log.since(self._positions[1]))
            rows = None if logs[0] is None or logs[1] is None else {*logs[0], *logs[1]}
        if rows is None:
            self._allocate()
            rows = map(int, state.rows())
        elif len(self.amounts) != len(state.resources.names):
            more = len(state.resources.names) - len(self.amounts)
            self.amounts = np.pad(self.amounts, ((0, more), (0, 0), (0, 0)))
        self._positions = now
        for row in rows:
            self._fill(row)

    def _take_budgets(self, budgets: Mapping[str, PodDisruptionBudget]) -> bool:
        """Returns whether other pods are covered now."""
        if same_objects(self._objects, budgets):
            return False
        before, self.budgets = self.budgets, Budgets(budgets.values())
        self._objects = dict(budgets)
        return not self.budgets.covers_like(before)

    def _fill(self, row: int) -> None:
        records = sorted(self.state.records_on(row), key=_importance)
        self.records[row] = records
        count = len(records)
        if count > self.depth:
            self._deepen(count)
        self.priority[:, row] = NOBODY
        self.start[:, row] = inf
        self.budget[:, row] = _NO_BUDGET
        self._extra.pop(row, None)
        if not count:
            self.amounts[:, :, row] = 0
            return
        self.priority[:count, row] = [record.pod.template.priority for record in records]
        self.start[:count, row] = [_start(record) for record in records]
        amounts = np.zeros((len(self.amounts), self.depth), dtype=np.int64)
        for slot, record in enumerate(records):
            for column, amount in record.vector.pairs:
                amounts[column, slot] = amount
        self.amounts[:, :, row] = amounts
        if len(self.budgets):
            self._fill_budgets(row, records)

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
        self.priority = np.pad(self.priority, ((0, more), (0, 0)), constant_values=NOBODY)
        self.start = np.pad(self.start, ((0, more), (0, 0)), constant_values=inf)
        self.amounts = np.pad(self.amounts, ((0, 0), (0, more), (0, 0)))
        self.budget = np.pad(self.budget, ((0, more), (0, 0)), constant_values=_NO_BUDGET)

    # --- budgets ---

    def violating(self, rows: Rows, lower: Mask) -> Mask | None:
        """Which of the pods in `lower` (bool[slots, n]) would break a budget, counted from the most important one on.

        Each row is counted by itself. A pod uses up every budget that covers it. None if no budget is broken.
        """
        if not len(self.budgets):
            return None
        budget = self.budget[: len(lower), rows]
        column, slot = np.nonzero((lower & (budget != _NO_BUDGET)).T)
        number = budget[slot, column].astype(np.int64)
        column, slot, number = self._with_extra(rows, lower, (column, slot, number))
        if not len(column):
            return None
        order = np.lexsort((slot, number, column))
        column, slot, number = column[order], slot[order], number[order]
        first = np.ones(len(column), dtype=np.bool_)
        first[1:] = (column[1:] != column[:-1]) | (number[1:] != number[:-1])
        position = np.arange(len(column))
        rank = position - np.maximum.accumulate(np.where(first, position, 0))
        broken = rank >= self.budgets.allowed[number]
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


def _importance(record: PodRecord) -> tuple[int, float, str]:
    return -record.pod.template.priority, _start(record), record.pod.key
