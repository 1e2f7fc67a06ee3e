"""Names and the times at which something is due for them: the first is found at once, whatever their number."""

from __future__ import annotations

import heapq

_STALE = 64
"""Entries of the heap that may be stale besides one for each name."""


class Deadlines:
    """One time per name. A heap; entries of names that were dropped or got another time are stale and left out."""

    __slots__ = ("_at_s", "_heap")

    def __init__(self) -> None:
        self._at_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, at_s: float) -> None:
        """Something is due at this time, and at no other."""
        if self._at_s.get(name) == at_s:
            return
        self._at_s[name] = at_s
        heapq.heappush(self._heap, (at_s, name))
        if len(self._heap) > 2 * len(self._at_s) + _STALE:
            self._heap = sorted((at_s, name) for name, at_s in self._at_s.items())

    def drop(self, name: str) -> None:
        """Nothing is due for it any more."""
        self._at_s.pop(name, None)

    def take_due(self, now: float) -> list[str]:
        """The names whose time has come, the earliest first; they are dropped."""
        due = []
        while (at_s := self.first_s()) is not None and at_s <= now:
            name = heapq.heappop(self._heap)[1]
            del self._at_s[name]
            due.append(name)
        return due

    def first_s(self) -> float | None:
        """When something is due next."""
        while self._heap and self._at_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
