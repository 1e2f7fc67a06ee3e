"""The rows that share the best rank, kept from one decision to the next.

A burst of equal pods takes one tied row after the other; looking for the best rank again each time would cost more than
the choice itself. A row that was chosen leaves the ties in constant time; a row that a pod makes better than all others
(its resources are used more evenly now) is ahead of them until it falls back; after any other change of the ranks, the
ties are searched again.
"""

from __future__ import annotations

import numpy as np

from moorage.core.arrays import Hashes, Ints, Rows
from moorage.core.hashing import tie_hashes

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)
_NO_HASHES: Hashes = np.zeros(0, dtype=np.uint64)


def best_of(rows: Rows, ranks: Ints, pod_hash: int, node_hashes: Hashes) -> int:
    """The one of these rows with the best rank and, among equals, the smallest hash; `ranks` is in their order."""
    best = rows[ranks == ranks.item(ranks.argmax())]
    if len(best) == 1:
        return int(best[0])
    hashes = node_hashes.take(best)
    return int(best[tie_hashes(pod_hash, hashes, hashes).argmin()])


class Ties:
    """`pick` chooses among the best rows; `changed` must be called for every changed rank, or `forget` for many."""

    __slots__ = (
        "_ahead",
        "_ahead_hash",
        "_ahead_rank",
        "_ahead_tied",
        "_count",
        "_hashes",
        "_picked",
        "_picked_row",
        "_rows",
        "_scratch",
        "_top",
    )

    def __init__(self) -> None:
        self._count = 0
        """Number of tied rows; 0 if they have to be searched again."""
        self._top = 0
        self._ahead = -1
        """A row that alone is better than the ties; -1 if there is none."""
        self._ahead_rank = 0
        self._ahead_hash = np.uint64(0)
        self._ahead_tied = False
        """Whether it was one of the ties before, so that its place among them is free."""
        self._picked = 0
        self._picked_row = -1
        self._rows = _NO_ROWS
        self._hashes = self._scratch = _NO_HASHES

    def forget(self) -> None:
        """Search for the best rows again next time."""
        self._count = 0
        self._ahead = -1

    def changed(self, row: int, before: int, after: int) -> None:
        """The rank of a row changed."""
        if row == self._ahead:
            self._fall_back(after)
        elif self._ahead >= 0 and after >= self._ahead_rank:
            self.forget()
        elif self._count and (after >= self._top or before >= self._top):
            self._leave(row, before, after)

    def _fall_back(self, after: int) -> None:
        """The row that is ahead changed."""
        if not self._count:
            self.forget()
        elif after > self._top:
            self._ahead_rank = after
        else:
            if after == self._top and not self._ahead_tied:
                self._count = 0
            elif after == self._top:  # its old place is free: no tie was added since it left
                self._rows[self._count] = self._ahead
                self._hashes[self._count] = self._ahead_hash
                self._count += 1
            self._ahead = -1

    def _leave(self, row: int, before: int, after: int) -> None:
        """A row left the ties, downwards or upwards, or came to them."""
        tied = before >= self._top and row == self._picked_row and after != self._top
        if tied:
            self._drop_picked()
        elif before >= self._top or after == self._top:
            self._count = 0
        if after > self._top:
            if self._ahead < 0 and self._count:
                self._ahead, self._ahead_rank, self._ahead_tied = row, after, tied
            else:
                self._count = 0

    def pick(self, pod_hash: int, ranks: Ints, node_hashes: Hashes) -> int:
        """The row with the best rank and, among equals, the smallest hash. At least one rank must be feasible."""
        if self._ahead >= 0:
            return self._ahead
        if not self._count:
            self._find(ranks, node_hashes)
        count = self._count
        picked = 0
        if count > 1:
            mixed = tie_hashes(pod_hash, self._hashes[:count], self._scratch[:count])
            picked = int(mixed.argmin())
        self._picked = picked
        self._picked_row = self._rows.item(picked)
        return self._picked_row

    def _find(self, ranks: Ints, node_hashes: Hashes) -> None:
        self._top = ranks.item(ranks.argmax())
        self._rows = (ranks == self._top).nonzero()[0]
        self._hashes = node_hashes.take(self._rows)
        self._count = len(self._rows)
        if len(self._scratch) < self._count:
            self._scratch = np.empty(len(ranks), dtype=np.uint64)

    def _drop_picked(self) -> None:
        last = self._count - 1
        self._ahead_hash = self._hashes[self._picked]
        self._rows[self._picked] = self._rows[last]
        self._hashes[self._picked] = self._hashes[last]
        self._count = last
        self._picked_row = -1
