"""Whether rows can hold pieces of one resource, all together: what can be said without trying where each could go.

Cut into parts of one size, a row has as many as fit into it, and a piece takes as many as fit into that: pieces that do
not get enough parts, whatever the size, cannot all have a place. If they do, nothing follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from moorage.core.arrays import Ints

_MOST_SIZES = 32


class PartCounts:
    """Rows, and the pieces that are on them and could go to any other one."""

    def __init__(self, rows: Ints, pieces: Mapping[int, int]) -> None:
        """`rows` is what each has if all pieces are away, `pieces` how many there are of each amount."""
        self._rows: Ints = np.maximum(rows, 0)
        kept = sorted(amount for amount in pieces if amount > 0)
        self._amounts: Ints = np.array(kept, dtype=np.int64)
        self._counts: Ints = np.array([pieces[amount] for amount in kept], dtype=np.int64)
        self._most = kept[-1] if kept else 0
        self._left: dict[int, int] = {size: self._find_left(size) for size in kept[-_MOST_SIZES:]}
        """How many parts of a size are left."""

    def _find_left(self, size: int) -> int:
        return int((self._rows // size).sum()) - int((self._amounts // size * self._counts).sum())

    def holds(self, amounts: Sequence[int]) -> bool:
        """Whether there may be room for more pieces of these amounts, none of them 0."""
        if any(sum(amount // size for amount in amounts) > left for size, left in self._left.items()):
            return False
        least = min(amounts)
        if least > self._most:
            return True
        return sum(amount // least for amount in amounts) <= self._find_left(least)
