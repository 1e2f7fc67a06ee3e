"""Contention as other projects publish it, smaller: what is wanted of Moorage beside its peers, in virtual time."""

from __future__ import annotations

import pytest

from tests.contention.judging import Wanted, judged
from tests.contention.shapes import cohorts, gangs3_tight

SEEDS = range(5)
QUARTER = 0.25
LARGE_GANG = 30
"""Pods at most; a gang is evicted as a whole, so a quarter of the 70 evictions of the whole shape would not be one."""
COHORTS = Wanted(utilisation=0.70, evictions=LARGE_GANG, requests_per_pod=12.0)
GANGS3 = Wanted(utilisation=0.69, evictions=0, requests_per_pod=6.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cohort_with_more_work_than_room_is_never_idle(seed: int) -> None:
    """Queues that borrow from each other use the cluster, with few evictions and few writes; gangs start whole."""
    breaches = judged(cohorts(QUARTER, seed), COHORTS)
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_backlog_of_small_gangs_drains_as_room_becomes_free(seed: int) -> None:
    """Nobody is evicted among equals, nothing waits behind words, and each gang is told of few times."""
    breaches = judged(gangs3_tight(0.2, seed), GANGS3)
    assert not breaches, "\n".join(breaches)
