"""A number for every row that follows from the node alone, kept until a node changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.core.changelog import ChangeLog

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

Number = TypeVar("Number", bound=np.generic)

_ROW_BY_ROW = 32
"""Up to this many changed nodes are looked at one by one, more with one call on all rows."""


class NodeColumn(Generic[Number]):
    """The kept array of one rule. `one_row` and `all_rows`, the rule for a single row and for all, must agree."""

    def __init__(self) -> None:
        self._kept: npt.NDArray[Number] | None = None
        self._log: ChangeLog[int] | None = None
        self._position = -1

    def of(
        self, state: ClusterState, one_row: Callable[[int], int], all_rows: Callable[[], npt.NDArray[Number]]
    ) -> npt.NDArray[Number]:
        """The number of every row, shape (state.capacity,). Do not change the array."""
        log = state.node_log
        kept = self._kept if self._log is log else None
        if kept is not None and self._position == log.position:
            return kept
        changed = log.since(self._position) if kept is not None and len(kept) == state.capacity else None
        if kept is None or changed is None or len(changed) > _ROW_BY_ROW:
            kept = self._kept = all_rows()
        else:
            for row in changed:
                kept[row] = one_row(row)
        self._log, self._position = log, log.position
        return kept
