"""Names for the array types that cross module borders.

A *row* is the index of a node in every column of the state; rows are stable and recycled, never shifted.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.intp]
"""Row numbers, ascending, shape (n,)."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""Amounts, scores or reason bits, shape (n,)."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth per row, shape (n,)."""

Ids: TypeAlias = npt.NDArray[np.int32]
"""Interned ids, -1 where absent, shape (n,)."""

Hashes: TypeAlias = npt.NDArray[np.uint64]
"""Hash values, shape (n,)."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""Fractions, shape (n,)."""
