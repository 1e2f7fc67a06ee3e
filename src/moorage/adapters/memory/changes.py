"""The history of a store: one log of changes in commit order, read through watches that remember their place.

Watches pull; nothing calls back. The same calls in the same order therefore always give the same reading. A change is
kept until every open watch has passed it, so a reader that stops must close its watch.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from moorage.adapters.memory.errors import Expired
from moorage.adapters.memory.objects import KubeObject

_TRIM_AT = 4096


class ChangeType(StrEnum):
    """The types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class StoreChange(NamedTuple):
    """One committed change. `object` is the new state; for DELETED the last one, under a new resource version."""

    type: ChangeType
    kind: str
    object: KubeObject
    old: KubeObject | None
    """The state before; None for ADDED."""


class StoreLog:
    """Changes in commit order; positions count from the first change ever made."""

    def __init__(self) -> None:
        self._changes: list[StoreChange] = []
        self._first = 0
        self._watches: list[Watch] = []

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self._first + len(self._changes)

    def append(self, change: StoreChange) -> None:
        """Add a change; dropped at once if there are no watches."""
        if self._watches:
            self._changes.append(change)
        else:
            self._first += 1

    def open(self, kinds: Iterable[str] | None, initial: Iterable[StoreChange] = ()) -> Watch:
        """A watch that reads `initial`, then everything from now on; kinds None means every kind."""
        watch = Watch(self, None if kinds is None else frozenset(kinds), list(initial))
        self._watches.append(watch)
        return watch

    def since(self, position: int) -> list[StoreChange]:
        """The changes from this position on."""
        if position < self._first:
            raise Expired(f"changes before position {self._first} are no longer kept; asked for {position}")
        return self._changes[position - self._first :]

    def release(self, watch: Watch) -> None:
        """Forget a watch that was closed."""
        if watch in self._watches:
            self._watches.remove(watch)
        self.trim(always=True)

    def trim(self, *, always: bool = False) -> None:
        """Forget what every watch has passed; now and then only, as each time costs a copy of the rest."""
        passed = min((watch.position for watch in self._watches), default=self.end) - self._first
        if passed > 0 and (always or passed >= _TRIM_AT):
            del self._changes[:passed]
            self._first += passed


class Watch:
    """One reader's place in the log. Pull it regularly, or close it."""

    def __init__(self, log: StoreLog, kinds: frozenset[str] | None, initial: list[StoreChange]) -> None:
        self._log = log
        self._kinds = kinds
        self._initial = initial
        self._closed = False
        self.position = log.end

    @property
    def behind(self) -> bool:
        """Whether there is anything to pull, of whatever kind."""
        return bool(self._initial) or self.position < self._log.end

    def pull(self) -> list[StoreChange]:
        """The changes since the last pull, in commit order."""
        if self._closed:
            raise Expired("this watch is closed")
        if not self.behind:
            return []
        changes = self._log.since(self.position)
        self.position = self._log.end
        self._log.trim()
        if self._kinds is not None:
            changes = [change for change in changes if change.kind in self._kinds]
        if self._initial:
            changes, self._initial = self._initial + changes, []
        return changes

    def close(self) -> None:
        """Stop watching; a closed watch cannot be pulled."""
        if not self._closed:
            self._closed = True
            self._log.release(self)
