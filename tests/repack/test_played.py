"""Plans are carried out as they were proven, though another scheduler places the successors; in memory."""

from __future__ import annotations

import pytest

from tests.repack.leftover import TRACE, leftover
from tests.repack.played import LONGEST_S, Play, settings_of

pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="needs the openb trace")


@pytest.mark.parametrize("seed", [1, 2])
def test_as_many_nodes_become_empty_as_were_planned(seed: int) -> None:
    """Budgets refuse nothing, no pod waits, and the moves are those of the plan."""
    play = Play(leftover(60, seed=seed), settings_of(60))
    found = play.run()
    assert found.planned > 0.4 * found.before
    assert found.before - found.after == found.planned
    assert (found.pending, found.refused) == (0, 0)
    assert play.keeper.repack.missed == 0
    assert not any(node.unschedulable for node in play.nodes.values())


def test_small_plans_one_after_the_other_end() -> None:
    """Each gains what it promised; when nothing is left to gain, nothing is moved."""
    play = Play(leftover(60), settings_of(5, least_gain=0.05))
    found = play.run()
    assert found.took_s < LONGEST_S / 2
    assert found.before - found.after > 2 * found.planned
    assert found.evictions <= 4 * (found.before - found.after)
    assert play.keeper.repack.missed == 0
