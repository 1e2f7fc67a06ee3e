"""Random histories of gangs in which the configuration changes all the time."""

from __future__ import annotations

from random import Random

import pytest

from moorage.core.events import ConfigurationChanged, PodSeen
from moorage.engine.settings import EngineSettings
from tests.engine.gang_histories import History
from tests.engine.world import World
from tests.framework.readers import default_profile

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


def tell(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One history, with reloads at any moment."""
    monkeypatch.setattr("tests.engine.gang_histories.World", ChangingWorld)
    history = History(seed)
    assert isinstance(history.world, ChangingWorld)
    history.world.chance.seed(seed)
    try:
        history.tell()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; {' '.join(history.story)}") from error
    assert history.world.changes
