"""Gangs on random histories in which the configuration changes all the time: still, none is left started in part.

`MOORAGE_RELOAD_SEQUENCES` says how many histories are tried.
"""

from __future__ import annotations

import os

import pytest

from tests.engine import changing_world

SEQUENCES = int(os.environ.get("MOORAGE_RELOAD_SEQUENCES", "10"))


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_gang_is_left_in_part(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reloads at any moment: while members wait for each other, for their record, or are being bound."""
    changing_world.tell(seed, monkeypatch)
