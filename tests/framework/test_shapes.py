"""Scoring functions by points, compared with their definition."""

from __future__ import annotations

from itertools import pairwise
from math import trunc
from random import Random
from typing import NamedTuple

import pytest

from moorage.framework.shapes import rising, score_table


class Given(NamedTuple):
    utilization: int
    score: int


def expected(shape: list[Given], percent: int) -> int:
    """As kube-scheduler computes it: differences are truncated towards zero."""
    if percent <= shape[0].utilization:
        return shape[0].score * 10
    for left, right in pairwise(shape):
        if percent <= right.utilization:
            rise = (right.score - left.score) * 10 * (percent - left.utilization)
            return left.score * 10 + trunc(rise / (right.utilization - left.utilization))
    return shape[-1].score * 10


@pytest.mark.parametrize("seed", range(20))
def test_the_table_follows_the_points(seed: int) -> None:
    """Rising and falling, with points inside and at the ends."""
    rng = Random(seed)
    shape = [Given(at, rng.randint(0, 10)) for at in sorted(rng.sample(range(101), rng.randint(1, 6)))]
    assert score_table(shape).tolist() == [expected(shape, percent) for percent in range(101)]


def test_points_out_of_order_are_refused() -> None:
    """The message names both, and what to do."""
    assert rising((Given(0, 1), Given(1, 0))) == (Given(0, 1), Given(1, 0))
    with pytest.raises(ValueError, match="utilization 5 follows 5; sort the points in increasing order"):
        rising((Given(5, 1), Given(5, 2)))
