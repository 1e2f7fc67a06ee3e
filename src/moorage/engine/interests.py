"""Names and the objects that they wait for, indexed by object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Thing: TypeAlias = tuple[str, str]
"""Kind and key of an object."""


class Interests:
    """The objects that each name waits for."""

    __slots__ = ("_names", "_things")

    def __init__(self) -> None:
        self._things: dict[str, Sequence[Thing]] = {}
        self._names: dict[Thing, set[str]] = {}

    def set(self, name: str, things: Sequence[Thing]) -> None:
        """The name waits for these objects, and for no others."""
        if self._things.get(name, ()) == things:
            return
        self.drop(name)
        if things:
            self._things[name] = things
        for thing in things:
            self._names.setdefault(thing, set()).add(name)

    def drop(self, name: str) -> None:
        """The name waits for nothing."""
        for thing in set(self._things.pop(name, ())):
            names = self._names[thing]
            names.discard(name)
            if not names:
                del self._names[thing]

    def of(self, things: Iterable[Thing]) -> list[str]:
        """The names that wait for any of these, sorted."""
        if not self._names:
            return []
        return sorted(set().union(*(self._names.get(thing, ()) for thing in things)))
