"""What stands idle, and what of it is of no use: for metrics."""

from __future__ import annotations

from typing import NamedTuple


class Idle(NamedTuple):
    """Of one resource over all nodes."""

    amount: float
    unusable: float
    """What typical pods cannot use, as other things that they need are missing there, or as it lies in pieces."""
