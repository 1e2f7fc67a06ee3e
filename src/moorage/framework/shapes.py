"""Scoring functions that a profile gives by points: linear between them and constant outside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from moorage.core.arrays import Ints

HIGHEST = 10
"""Points have scores up to this one; tables go up to 100."""


class ScoringPoint(Protocol):
    """At this utilization in percent, this score."""

    @property
    def utilization(self) -> int:
        """0 to 100."""

    @property
    def score(self) -> int:
        """0 to `HIGHEST`."""


Points = TypeVar("Points", bound=Sequence[ScoringPoint])


def rising(shape: Points) -> Points:
    """The points, if their utilization rises from each to the next; for validators."""
    for before, after in pairwise(shape):
        if before.utilization >= after.utilization:
            raise ValueError(
                f"utilization {after.utilization} follows {before.utilization}; sort the points in increasing order"
            )
    return shape


def score_table(shape: Sequence[ScoringPoint]) -> Ints:
    """The score at every whole percent, int64[101] in 0..100."""
    points = [(point.utilization, 100 // HIGHEST * point.score) for point in shape]
    return np.array([_between(points, percent) for percent in range(101)], dtype=np.int64)


def _between(points: list[tuple[int, int]], percent: int) -> int:
    """The score at one utilization; differences are truncated towards the point on the left."""
    left_at, left = points[0]
    if percent <= left_at:
        return left
    for right_at, right in points[1:]:
        if percent <= right_at:
            step = abs(right - left) * (percent - left_at) // (right_at - left_at)
            return left + step if right >= left else left - step
        left_at, left = right_at, right
    return left
