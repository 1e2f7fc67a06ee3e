"""Five shapes of our own beside a plain greedy reference that packs by rank and evicts nobody."""

from __future__ import annotations

import pytest

from tests.contention.judging import Wanted, judged
from tests.contention.shapes import OWN

SEEDS = range(5)
OWN_SHAPES = Wanted(share_of_greedy=0.9, requests_per_pod=12.0, partial_s=2.5)
"""A member that was moved to another node is made again after a second."""
SCALES = {"fractions": 0.5}
"""On two nodes, as a quarter of them would be, the figure is that of the last jobs."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", OWN)
def test_the_cluster_is_used_nearly_as_well_as_by_a_plain_reference(name: str, seed: int) -> None:
    """Nine tenths of its utilisation, and never long without a start while something fits."""
    breaches = judged(OWN[name](SCALES.get(name, 0.25), seed), OWN_SHAPES)
    assert not breaches, "\n".join(breaches)
