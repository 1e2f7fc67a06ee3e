"""Counts by a small integer (a row, a value id): a dictionary while few are above zero, an array once many are.

Selectors that match few pods must cost little memory, those that match many must be readable as an array at once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Rows

Counts: TypeAlias = npt.NDArray[np.int32]
"""Numbers of pods, shape (n,)."""

FEW = 128
"""Up to this many counts above zero stand in a dictionary."""

_ONE_BY_ONE = 8
"""Up to this many counts are written into an array one by one, more with one call."""

_ENTRY_BYTES = 100
"""What an entry of a dictionary costs, with its key, roughly."""


class SparseCounts:
    """Counts that are never negative; `total` is their sum, `places` the number of those above zero."""

    __slots__ = ("_few", "_many", "places", "total")

    def __init__(self) -> None:
        self.total = 0
        self.places = 0
        self._few: dict[int, int] = {}
        self._many: Counts | None = None

    @classmethod
    def of(cls, counts: Counts) -> SparseCounts:
        """These counts by their index; the array is taken over."""
        found = cls()
        found.total, found.places = int(counts.sum()), int(np.count_nonzero(counts))
        if found.places > FEW:
            found._many = counts
        else:
            found._few = {index: counts.item(index) for index in np.flatnonzero(counts).tolist()}
        return found

    def add(self, index: int, number: int) -> None:
        """Count `number` more (or, below zero, fewer) at an index."""
        self.total += number
        many = self._many
        if many is not None:
            if index >= len(many):
                many = self._many = np.pad(many, (0, max(index + 1, 2 * len(many)) - len(many)))
            before = many.item(index)
            many[index] = before + number
            self.places += (before + number > 0) - (before > 0)
            return
        count = self._few.get(index, 0) + number
        if count:
            self._few[index] = count
            if len(self._few) > FEW:
                self._many, self._few = self.dense(2 * max(self._few)), {}
        else:
            del self._few[index]
        self.places = len(self._few) if self._many is None else FEW + 1

    def add_all(self, other: SparseCounts) -> None:
        """Count everything that another one counts."""
        if other._many is None:
            for index, count in other._few.items():
                self.add(index, count)
            return
        size = max(len(other._many), max(self._few, default=0) + 1, 0 if self._many is None else len(self._many))
        self._many = self.dense(size).copy()
        self._many[: len(other._many)] += other._many
        self._few = {}
        self.places = int(np.count_nonzero(self._many))
        self.total += other.total

    def get(self, index: int) -> int:
        """The count at an index."""
        if self._many is None:
            return self._few.get(index, 0)
        return self._many.item(index) if index < len(self._many) else 0

    def peak(self) -> int:
        """The highest count."""
        return max(self._few.values(), default=0) if self._many is None else int(self._many.max())

    def least(self) -> int:
        """The lowest count above zero; there must be one."""
        if self._many is None:
            return min(self._few.values())
        return int(self._many[self._many > 0].min())

    def above_zero(self) -> tuple[Rows, Counts]:
        """The indices with counts above zero, ascending if many, and the counts."""
        if self._many is not None:
            indices = np.flatnonzero(self._many)
            return indices, self._many[indices]
        size = len(self._few)
        return np.fromiter(self._few, np.intp, size), np.fromiter(self._few.values(), np.int32, size)

    def dense(self, size: int) -> Counts:
        """All counts below `size` as an array of that length. Do not change it; it is good until the next change."""
        if self._many is not None and len(self._many) >= size:
            return self._many[:size]
        found: Counts = np.zeros(size, dtype=np.int32)
        if self._many is not None:
            found[: len(self._many)] = self._many
        elif len(self._few) <= _ONE_BY_ONE:
            for index, count in self._few.items():
                if index < size:
                    found[index] = count
        else:
            indices, counts = self.above_zero()
            if max(self._few) >= size:
                indices, counts = indices[indices < size], counts[indices < size]
            found[indices] = counts
        return found

    @property
    def bytes_used(self) -> int:
        """Roughly how much memory the counts take."""
        return _ENTRY_BYTES * len(self._few) if self._many is None else self._many.nbytes
