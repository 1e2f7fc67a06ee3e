"""Histories that a seed makes up, told to an engine."""

from __future__ import annotations

from typing import Protocol

from tests.engine.world import World


class Told(Protocol):
    """A history: what happens, and the world that it happens to."""

    story: list[str]
    world: World

    def tell(self) -> None:
        """Make it happen."""


def outcome_of(history: Told, seed: int) -> list[str]:
    """What the engine does in a history; an AssertionError tells the history."""
    try:
        history.tell()
    except AssertionError as error:
        story, log = ", ".join(history.story), ", ".join(history.world.history[-12:])
        raise AssertionError(f"seed {seed}: {error}\nstory: {story}\nlast: {log}") from error
    return history.world.history
