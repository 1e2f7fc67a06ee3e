"""Which rows changed since a reader last looked. Positions only rise; a rollback counts as a change too."""

from __future__ import annotations

from typing import Generic, TypeVar

Thing = TypeVar("Thing")

_KEEP = 1 << 15


class ChangeLog(Generic[Thing]):
    """An append-only list of what changed, mostly rows by number, trimmed at the old end.

    Readers keep a position, there are no callbacks.
    """

    __slots__ = ("_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows: list[Thing] = []
        self._start = 0
        self.position = 0
        """Where the log ends now; keep it and hand it to `since` later."""

    def append(self, row: Thing) -> None:
        """Note that a row, or whatever the log is about, changed."""
        self._rows.append(row)
        self.position += 1
        if len(self._rows) > 2 * _KEEP:
            del self._rows[:_KEEP]
            self._start += _KEEP

    def since(self, position: int) -> list[Thing] | None:
        """The rows noted from `position` on, oldest first, repeats included; None if the log does not reach back."""
        if position < self._start:
            return None
        return self._rows[position - self._start :]
