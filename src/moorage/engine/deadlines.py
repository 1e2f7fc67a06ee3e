"""Deadlines by name; finding the first one takes O(log names)."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from moorage.core.membership import GangKey

Name = TypeVar("Name", str, GangKey)
_STALE = 64
"""Entries of the heap that may be stale besides one for each name."""


class Deadlines(Generic[Name]):
    """One time per name. A heap; entries of names that were dropped or got another time are stale and skipped."""

    __slots__ = ("_at_s", "_heap")

    def __init__(self) -> None:
        self._at_s: dict[Name, float] = {}
        self._heap: list[tuple[float, Name]] = []

    def __bool__(self) -> bool:
        return bool(self._at_s)

    def __contains__(self, name: Name) -> bool:
        return name in self._at_s

    def set(self, name: Name, at_s: float) -> None:
        """Set the time of a name, replacing any other."""
        if self._at_s.get(name) == at_s:
            return
        self._at_s[name] = at_s
        heapq.heappush(self._heap, (at_s, name))
        if len(self._heap) > 2 * len(self._at_s) + _STALE:
            self.tidy()

    def setdefault(self, name: Name, at_s: float) -> float:
        """Set a time unless the name has one; returns the one that it has."""
        if name not in self._at_s:
            self.set(name, at_s)
        return self._at_s[name]

    def tidy(self) -> None:
        """Drop stale entries."""
        self._heap = sorted((at_s, name) for name, at_s in self._at_s.items())

    def drop(self, name: Name) -> None:
        """Remove a name."""
        self._at_s.pop(name, None)

    def take_due(self, now: float) -> list[Name]:
        """Remove and return the names whose time has come, earliest first."""
        due = []
        while (at_s := self.first_s()) is not None and at_s <= now:
            name = heapq.heappop(self._heap)[1]
            del self._at_s[name]
            due.append(name)
        return due

    def first_s(self) -> float | None:
        """The earliest time."""
        while self._heap and self._at_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
