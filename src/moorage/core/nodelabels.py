"""Node labels as columns: one int32 column per label key, interned value ids per node, -1 for absent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from moorage.core.arrays import Ids, Mask, Rows
from moorage.core.selectors import Operator, Requirement


class LabelColumn:
    """The values of one label key. `ids[row]` indexes `values`; -1 where the node lacks the label."""

    __slots__ = ("_index", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, dtype=np.int32)
        self.values: list[str] = []
        self._index: dict[str, int] = {}

    def intern(self, value: str) -> int:
        """The id of a value, new ones get the next number."""
        found = self._index.get(value)
        if found is None:
            found = self._index[value] = len(self.values)
            self.values.append(value)
        return found

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
    """All label keys that any node has ever had."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}
        self._row_keys: dict[int, tuple[str, ...]] = {}

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
                self._columns[key].ids[row] = -1
        for key, value in labels.items():
            column = self.column(key)
            column.ids[row] = column.intern(value)
        if labels:
            self._row_keys[row] = tuple(labels)

    def column(self, key: str) -> LabelColumn:
        """The column of a key, made on first use."""
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = LabelColumn(self._capacity)
        return found

    def known(self, key: str) -> LabelColumn | None:
        """The column of a key if any node has or had it."""
        return self._columns.get(key)

    def matching(self, requirement: Requirement, rows: Rows) -> Mask:
        """Which of the rows satisfy the requirement, shape (len(rows),)."""
        column = self._columns.get(requirement.key)
        if column is None:
            return np.full(len(rows), requirement.matches_value(None), dtype=np.bool_)
        return column.truth_table(requirement)[column.ids[rows]]
