"""A small cluster that gangs are placed on, for tests."""

from __future__ import annotations

from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node
from tests.engine.play import Play


def gang_play() -> Play:
    """Two nodes with room for two members each."""
    play = Play(GangScheduling(), DefaultPreemption())
    play.see(make_node("n1", cpu="2"), make_node("n2", cpu="2"))
    return play
