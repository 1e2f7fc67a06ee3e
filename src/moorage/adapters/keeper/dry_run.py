"""The keeper's dry run: every command is printed once and answered as if it had been carried out, but none is."""

from __future__ import annotations

from collections.abc import Callable

from moorage.core.commands import KeeperCommand
from moorage.core.echo import answer_to
from moorage.core.events import KeeperEvent
from moorage.views.story import ordered

_REMEMBERED = 10_000


class KeeperDryRun:
    """`say` gets a line for each new command, `put` the answers."""

    def __init__(self, say: Callable[[str], None], put: Callable[[KeeperEvent], None]) -> None:
        self._say = say
        self._put = put
        self._said: dict[str, None] = {}

    def submit(self, command: KeeperCommand) -> None:
        """Print a command and answer it."""
        line = ordered(command)
        # Places and times differ from one plan to the next; pods and actions do not.
        key = line.partition(";")[0].partition(",")[0]
        if line and key not in self._said:
            self._say(f"would {line}")
            self._said[key] = None
            if len(self._said) > _REMEMBERED:
                del self._said[next(iter(self._said))]
        answer = answer_to(command)
        if answer is not None:
            self._put(answer)
