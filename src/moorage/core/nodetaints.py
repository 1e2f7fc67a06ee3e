"""Node taints as a column: one int32 id per row into the list of different sets of taints."""

from __future__ import annotations

import numpy as np

from moorage.core.arrays import Ids
from moorage.core.taints import Taint

TaintSet = tuple[Taint, ...]

_SPARE = 64
"""So many sets that no row has any more may lie around whatever the number of those in use."""


class TaintColumn:
    """`ids[row]` indexes `sets`; 0 is the empty set, and rows of dead nodes have it.

    Sets that no row has any more stay until they are more than those in use: then the list is made anew, and ids with
    it. Code that keeps something by id keeps the list beside it and starts over when `sets` is another one.
    """

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.zeros(capacity, dtype=np.int32)
        self.sets: list[TaintSet] = [()]
        self._index: dict[TaintSet, int] = {(): 0}
        self._uses: list[int] = [1]
        """How many rows have a set; the empty one is always there."""
        self._unused = 0

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self.ids = np.pad(self.ids, (0, capacity - len(self.ids)))

    def set_row(self, row: int, taints: TaintSet) -> None:
        """Replace the taints of one row."""
        before = self.ids.item(row)
        if self.sets[before] == taints:
            return
        found = self._index.get(taints)
        if found is None:
            found = self._index[taints] = len(self.sets)
            self.sets.append(taints)
            self._uses.append(0)
        elif not self._uses[found]:
            self._unused -= 1
        self.ids[row] = found
        if found:
            self._uses[found] += 1
        if before:
            self._uses[before] -= 1
            if not self._uses[before]:
                self._unused += 1
                if self._unused > _SPARE + len(self.sets) // 2:
                    self._compact()

    def _compact(self) -> None:
        kept = [number for number, uses in enumerate(self._uses) if uses]
        moved = np.zeros(len(self.sets), dtype=np.int32)
        moved[kept] = np.arange(len(kept), dtype=np.int32)
        self.ids = moved.take(self.ids)
        self.sets = [self.sets[number] for number in kept]
        self._uses = [self._uses[number] for number in kept]
        self._index = {taints: number for number, taints in enumerate(self.sets)}
        self._unused = 0
