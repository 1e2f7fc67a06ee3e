"""What stands idle and what of it is of no use, and how evenly pods are spread: for metrics and views."""

from __future__ import annotations

from typing import NamedTuple

from moorage.core.affinity import SpreadConstraint


class Idle(NamedTuple):
    """Of one resource over all nodes."""

    amount: float
    unusable: float
    """What typical pods cannot use, as other things that they need are missing there, or as it lies in pieces."""


class Skew(NamedTuple):
    """The pods of one spread constraint as they stand."""

    constraint: SpreadConstraint
    found: int
    """By how much the fullest domain exceeds the emptiest one that counts."""

    @property
    def violated(self) -> bool:
        """Whether that is more than the constraint allows."""
        return self.found > self.constraint.max_skew
