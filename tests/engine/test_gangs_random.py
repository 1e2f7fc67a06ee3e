"""Gangs on random histories: whatever fails, vanishes or crashes, no gang is left started in part.

`MOORAGE_PLAN_SEQUENCES` says how many histories are tried: 10000 for a thorough run. A failure names its seed:
`MOORAGE_PLAN_SEED=17` runs that history alone.
"""

from __future__ import annotations

import os

import pytest

from tests.engine.gang_histories import told

SEQUENCES = int(os.environ.get("MOORAGE_PLAN_SEQUENCES", "60"))
ONLY = os.environ.get("MOORAGE_PLAN_SEED")
SHARES = 1 if ONLY else 4
"""Tests that share the histories out, so that they can run side by side."""


@pytest.mark.timeout(60 + SEQUENCES)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_gang_is_left_in_part(share: int) -> None:
    """At every quiet point; nothing is overcommitted, what fits is placed, and evictions keep to the gangs' rules."""
    for seed in [int(ONLY)] if ONLY else range(share, SEQUENCES, SHARES):
        told(seed)
