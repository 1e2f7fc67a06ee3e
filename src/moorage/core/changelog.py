"""Which rows changed since a reader last looked. Positions only rise; a rollback counts as a change too."""

from __future__ import annotations

_KEEP = 1 << 15


class ChangeLog:
    """An append-only list of row numbers, trimmed at the old end; readers keep a position, there are no callbacks."""

    __slots__ = ("_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0
        self.position = 0
        """Where the log ends now; keep it and hand it to `since` later."""

    def append(self, row: int) -> None:
        """Note that a row changed."""
        self._rows.append(row)
        self.position += 1
        if len(self._rows) > 2 * _KEEP:
            del self._rows[:_KEEP]
            self._start += _KEEP

    def since(self, position: int) -> list[int] | None:
        """The rows noted from `position` on, oldest first, repeats included; None if the log does not reach back."""
        if position < self._start:
            return None
        return self._rows[position - self._start :]
