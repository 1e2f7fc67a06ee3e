"""A share of the random worlds: each pair of capabilities meets once, and once more while leaders die."""

from __future__ import annotations

import pytest

from tests.crossings.covering import capabilities_of, pairs, round_of, wanted
from tests.crossings.making import make_world
from tests.crossings.run import judged
from tests.crossings.shrinking import RAISED

SEED, SHARES = 1, 12
HOLD = {"overcommitted", "placement", "partial gang", "level"}
"""Rules that hold already. The others follow as their defects are mended; worlds that break them are in `finds`."""
FORGED = "forged devices"
"""Pods whose tenants write which GPUs they have are believed so far."""


@pytest.mark.parametrize("crashes", [False, True], ids=["", "crashes"])
@pytest.mark.parametrize("share", range(SHARES))
def test_what_must_hold_holds_wherever_capabilities_meet(share: int, crashes: bool) -> None:
    """`python -m tests.crossings.run` tells about any world of these, and shrinks it with `--shrink 1`."""
    found = []
    for number in range(share, len(round_of(SEED, 0)), SHARES * (2 if crashes else 1)):
        if FORGED not in capabilities_of(SEED, number):
            breaches = judged(make_world(SEED, number, crashes=crashes))["breaches"]
            found += [(number, *each) for each in breaches if each[0] in HOLD or each[0].startswith(RAISED)]
    assert not found


def test_every_pair_of_capabilities_meets() -> None:
    """Each that can, in one round."""
    met = set().union(*(pairs(row) for row in round_of(SEED, 0)))
    assert met == wanted()


def test_a_world_is_made_again_from_its_number() -> None:
    """Else nothing that was found could be looked at."""
    assert make_world(3, 5, crashes=True) == make_world(3, 5, crashes=True)


def test_a_world_is_the_same_without_a_capability() -> None:
    """But for that one: what it drew is drawn for it alone."""
    whole = make_world(1, 0, ["bare pods", "priorities", "cordons"])
    less = make_world(1, 0, ["bare pods", "priorities"])
    assert [deed for deed in whole.script if deed.get("kind") != "Node"] == less.script
    assert whole.objects == less.objects
