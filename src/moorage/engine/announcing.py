"""Events for users that come up while questions are answered."""

from __future__ import annotations

from moorage.core.commands import Command


class Announcing:
    """Keeps commands until the server that asks takes them."""

    def __init__(self) -> None:
        self._commands: list[Command] = []

    def take_commands(self) -> list[Command]:
        """The commands since the last call, all of them events for users."""
        commands, self._commands = self._commands, []
        return commands
