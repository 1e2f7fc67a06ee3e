"""Fairness among namespaces: what is slow in one of them must not delay the others.

Pods of a namespace are set aside, in their order, while other pods may be tried and
- the namespace is slow: deciding on one of its pods has just taken long. They come back after a few times as long, or
  at once when there is no other pod to try and no bind in flight whose answer would have to wait;
- the namespace is crowded: it has its share of the binds in flight. They come back as those are answered.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, TypeAlias

from moorage.core.values import dataclass

PATIENCE = 4.0
"""For how many times the duration of a slow decision its namespace gives way, so that others get most of the time."""

Item: TypeAlias = tuple[tuple[Any, ...], int, Any]
"""(queue key, ticket, entry), as in the queue."""


@dataclass(slots=True)
class Pacing:
    """Active entries that have to give way; `room` says how many more binds a namespace may order."""

    room: Callable[[str], int]
    untouched: int = 0
    """How many pods may be tried in this call before namespaces have to be checked."""
    _slow_until_s: dict[str, float] = field(default_factory=dict)
    """By namespace."""
    _aside: dict[str, list[Item]] = field(default_factory=dict)
    """By namespace, each a heap. Entries may be stale, recognised by the ticket."""

    @property
    def aside(self) -> bool:
        """Whether entries were set aside."""
        return bool(self._aside)

    def items(self) -> Iterator[Item]:
        """Entries that were set aside; some may be stale."""
        return itertools.chain.from_iterable(self._aside.values())

    def begin(self, now: float, untouched: int) -> None:
        """A call begins; `untouched` pods may be tried before a namespace could be crowded."""
        slow = self._slow_until_s and max(self._slow_until_s.values()) > now
        self.untouched = 0 if slow else untouched

    def slow(self, namespace: str, took_s: float, now: float, longest_s: float) -> None:
        """A decision on a pod of the namespace took long: others go first for a while, at most `longest_s`."""
        for name in [name for name, until_s in self._slow_until_s.items() if until_s <= now]:
            del self._slow_until_s[name]
        self._slow_until_s[namespace] = now + min(PATIENCE * took_s, longest_s)

    def holds_back(self, namespace: str, now: float) -> bool:
        """Whether pods of the namespace have to give way to others."""
        if self._slow_until_s and self._slow_until_s.get(namespace, now) > now:
            return True
        return self.room(namespace) <= 0

    def set_aside(self, namespace: str, item: Item) -> None:
        """Keep an entry until its namespace need not give way."""
        heapq.heappush(self._aside.setdefault(namespace, []), item)

    def admitted(self, now: float) -> list[Item]:
        """Take out the entries that may be tried now, as many as there is room for."""
        found: list[Item] = []
        for namespace in [name for name in self._aside if not self.holds_back(name, now)]:
            for _ in range((self.room(namespace) + 1) // 2):  # a bind takes two of it: a place, and one of its share
                item = self._next(namespace)
                if item is None:
                    break
                found.append(item)
        return found

    def next_slow(self) -> Item | None:
        """Take out the first entry of the namespace that was slow the longest time ago and has room for a bind."""
        while self._aside:
            namespaces = [name for name in self._aside if self.room(name) > 0]
            if not namespaces:
                return None
            item = self._next(min(namespaces, key=lambda name: (self._slow_until_s.get(name, 0.0), name)))
            if item is not None:
                return item
        return None

    def ready(self) -> bool:
        """Whether `next_slow` would find an entry."""
        return bool(self._aside) and any(self.room(name) > 0 for name in self._aside)

    def next_s(self, now: float) -> float | None:
        """When the next slow namespace with pods set aside need not give way any more."""
        if not self._aside:
            return None
        times = (self._slow_until_s[name] for name in self._aside if name in self._slow_until_s)
        return min((until_s for until_s in times if until_s > now), default=None)

    def clear(self) -> None:
        """Forget the entries; their keys belong to another order."""
        self._aside.clear()

    def _next(self, namespace: str) -> Item | None:
        while namespace in self._aside:
            heap = self._aside[namespace]
            item = heapq.heappop(heap)
            if not heap:
                del self._aside[namespace]
            if item[2].ticket == item[1]:
                return item
        return None
