"""Gangs on random histories in which the configuration changes all the time: still, none is left started in part.

`MOORAGE_RELOAD_SEQUENCES` says how many histories are tried.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from moorage.core.events import ConfigurationChanged, PodSeen
from moorage.engine.engine import EngineSettings
from tests.engine.test_gangs_random import History
from tests.engine.world import World
from tests.framework.readers import default_profile

SEQUENCES = int(os.environ.get("MOORAGE_RELOAD_SEQUENCES", "10"))
SHARE = 0.08
"""Turns before which the configuration changes."""


class ChangingWorld(World):
    """A world whose engine gets new plugins from time to time, and sees all pods again afterwards."""

    changes = 0

    def turn(self) -> None:
        if self.chance.random() < SHARE:
            self.changes += 1
            changed = ConfigurationChanged("", [default_profile()], EngineSettings(seed=5))
            self._orders.extend(self.engine.handle([changed], self.now, budget=0)[0])
            self._watch.extend(PodSeen(pod) for pod in self.pods.values())
        super().turn()

    @property
    def chance(self) -> Random:
        """Apart from the dice of the history, which stays the same whether or not anything changes."""
        if not hasattr(self, "_chance"):
            self._chance = Random(len(self.history))
        return self._chance


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_gang_is_left_in_part(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reloads at any moment: while members wait for each other, for their record, or are being bound."""
    monkeypatch.setattr("tests.engine.test_gangs_random.World", ChangingWorld)
    history = History(seed)
    assert isinstance(history.world, ChangingWorld)
    history.world.chance.seed(seed)
    try:
        history.tell()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; {' '.join(history.story)}") from error
    assert history.world.changes
