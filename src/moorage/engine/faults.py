"""What plugins raise, or return against the contract, becomes an Error status or a log line.

It never ends the engine or other pods' attempts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from moorage.framework.contract import Named
from moorage.framework.cycle import UnfinishedError
from moorage.framework.status import Code, Status

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
_KEPT = 100


def describe(error: Exception) -> str:
    """The error in one line."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def failed(error: Exception) -> str:
    """What people are told of an attempt that a plugin ended by raising; one that is to go on is not ended."""
    if isinstance(error, UnfinishedError):
        raise error
    return f"running plugins failed: {describe(error)}"


def wrong_type(answer: object) -> TypeError:
    """The error for an answer that the contract does not allow."""
    return TypeError(f"the plugin returned {type(answer).__name__}, which its contract does not allow")


class Faults:
    """Calls plugins and keeps the latest exceptions; the process that runs the engine logs what `take` returns."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)

    def ask(
        self, plugin: Named, asked: Callable[Asked, Answer], *args: Asked.args, **more: Asked.kwargs
    ) -> Answer | Status:
        """The answer of a plugin's method; a Status with code Error if it raises."""
        try:
            return asked(*args, **more)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            return self.note(plugin, getattr(asked, "__name__", "a method"), error)

    def check(self, plugin: Named, method: str, answer: Answer, *expected: type) -> Answer | Status:
        """The answer of a plugin's method; a Status with code Error if it is of none of these types."""
        return answer if isinstance(answer, expected) else self.note(plugin, method, wrong_type(answer))

    def note(self, plugin: Named, method: str, error: Exception) -> Status:
        """Keep what a plugin raised; returns the status to use instead of an answer."""
        self.add(f"plugin {plugin.name}: {method}", error)
        return Status(Code.ERROR, (describe(error),), plugin.name)

    def add(self, what: str, error: Exception) -> None:
        """Keep what was raised where no single plugin was asked; `what` says what was going on."""
        self._lines.append(f"{what} raised {describe(error)}")

    def take(self) -> list[str]:
        """The exceptions since the last call, oldest first."""
        lines = list(self._lines)
        self._lines.clear()
        return lines
