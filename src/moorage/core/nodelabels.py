"""Node labels as columns: one int32 column per label key, interned value ids per node, -1 for absent.

Values that no node has any more stay until they are more than those in use, and a key that no node has any more loses
its column. Then ids begin anew: code that keeps something by id keeps `values` beside it, and starts over when the
column has another list.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from moorage.core.arrays import Ids, Mask, Rows
from moorage.core.selectors import Operator, Requirement

_SPARE = 64
"""So many values that no node has any more may lie around whatever the number of those in use."""


class LabelColumn:
    """The values of one label key. `ids[row]` indexes `values`; -1 where the node lacks the label."""

    __slots__ = ("_index", "_unused", "_uses", "ids", "rows", "values", "version")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, dtype=np.int32)
        self.values: list[str] = []
        self.rows = 0
        """How many nodes have the label."""
        self.version = 0
        """Set by `LabelColumns` to another number whenever a node gets, loses or changes the label."""
        self._index: dict[str, int] = {}
        self._uses: list[int] = []
        """How many nodes have a value."""
        self._unused = 0

    def put(self, row: int, value: str) -> bool:
        """A node has this value now; returns whether it had another, or none."""
        before = self.ids.item(row)
        if before >= 0 and self.values[before] == value:
            return False
        found = self._index.get(value)
        if found is None:
            found = self._index[value] = len(self.values)
            self.values.append(value)
            self._uses.append(1)
        else:
            self._unused -= not self._uses[found]
            self._uses[found] += 1
        self.ids[row] = found
        self.rows += 1
        self._part(before)
        return True

    def clear(self, row: int) -> None:
        """A node has the label no longer."""
        before = self.ids.item(row)
        self.ids[row] = -1
        self._part(before)

    def _part(self, before: int) -> None:
        if before < 0:
            return
        self.rows -= 1
        self._uses[before] -= 1
        if not self._uses[before]:
            self._unused += 1
            if self._unused > _SPARE + len(self.values) // 2:
                self._compact()

    def _compact(self) -> None:
        kept = [number for number, uses in enumerate(self._uses) if uses]
        moved: Ids = np.full(len(self.values) + 1, -1, dtype=np.int32)
        moved[kept] = np.arange(len(kept), dtype=np.int32)
        self.ids = moved.take(self.ids, mode="wrap")
        self.values = [self.values[number] for number in kept]
        self._uses = [self._uses[number] for number in kept]
        self._index = {value: number for number, value in enumerate(self.values)}
        self._unused = 0

    def find(self, value: str) -> int | None:
        """The id of a value that some node has or had."""
        return self._index.get(value)

    def truth_table(self, requirement: Requirement) -> Mask:
        """One truth per value id, and a last one for nodes without the label: index it with `ids`."""
        size = len(self.values)
        operator = requirement.operator
        if operator in (Operator.IN, Operator.NOT_IN):
            wanted = operator is Operator.IN
            table: Mask = np.full(size + 1, not wanted, dtype=np.bool_)
            for value in requirement.values:
                found = self._index.get(value)
                if found is not None:
                    table[found] = wanted
            return table
        truths = [requirement.matches_value(value) for value in self.values]
        return np.array([*truths, requirement.matches_value(None)], dtype=np.bool_)


class LabelColumns:
    """All label keys that nodes have."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}
        self._row_keys: dict[int, tuple[str, ...]] = {}
        self._changes = 0

    def __len__(self) -> int:
        return len(self._columns)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        for column in self._columns.values():
            ids = np.full(capacity, -1, dtype=np.int32)
            ids[: self._capacity] = column.ids
            column.ids = ids
        self._capacity = capacity

    def set_row(self, row: int, labels: Mapping[str, str]) -> None:
        """Replace the labels of one row; an empty mapping clears it."""
        for key in self._row_keys.pop(row, ()):
            if key not in labels:
                column = self._columns[key]
                column.clear(row)
                self._note(column)
                if not column.rows:
                    del self._columns[key]
        for key, value in labels.items():
            found = self._columns.get(key)
            if found is None:
                found = self._columns[key] = LabelColumn(self._capacity)
            if found.put(row, value):
                self._note(found)
        if labels:
            self._row_keys[row] = tuple(labels)

    def _note(self, column: LabelColumn) -> None:
        self._changes += 1
        column.version = self._changes

    def version(self, key: str) -> int:
        """A number that differs whenever the values of a key do, never used again; 0 if no node has the key."""
        column = self._columns.get(key)
        return 0 if column is None else column.version

    def names(self) -> list[str]:
        """The keys that some node has."""
        return list(self._columns)

    def known(self, key: str) -> LabelColumn | None:
        """The column of a key if any node has it."""
        return self._columns.get(key)

    def matching(self, requirement: Requirement, rows: Rows) -> Mask:
        """Which of the rows satisfy the requirement, shape (len(rows),)."""
        column = self._columns.get(requirement.key)
        if column is None:
            return np.full(len(rows), requirement.matches_value(None), dtype=np.bool_)
        return column.truth_table(requirement)[column.ids[rows]]
