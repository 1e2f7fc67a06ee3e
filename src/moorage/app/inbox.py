"""The events that a shadow has seen and not taken yet: a bounded number, so that memory does not grow where decisions
come faster than they are compared.

Events cannot be dropped, or the shadow would know another cluster. So the oldest are taken at once where there are too
many, without being compared, and the decisions that they show are counted as not compared.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MOST_WAITING = 20_000
"""Events that wait; at two milliseconds a decision, the last of them are compared 40 seconds later."""
MOST_WAITING_BYTES = 128 << 20
"""Of these: a pod may be large."""

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in the order of their arrival; `take` is told when each arrived and whether there is time to compare."""

    def __init__(
        self,
        take: Callable[[Item, float, bool], None],
        size_of: Callable[[Item], int],
        most: int = MOST_WAITING,
        most_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        self._take = take
        self._size_of = size_of
        self._most, self._most_bytes = most, most_bytes
        self._waiting: deque[tuple[Item, float]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: Item) -> None:
        """Something arrived; with it there are at most as many as may wait."""
        self._waiting.append((item, time.monotonic()))
        self._bytes += self._size_of(item)
        while len(self._waiting) > self._most or (self._bytes > self._most_bytes and len(self._waiting) > 1):
            self.take(compares=False)

    def take(self, *, compares: bool = True) -> None:
        """Take the oldest."""
        item, arrived_s = self._waiting.popleft()
        self._bytes -= self._size_of(item)
        self._take(item, arrived_s, compares)
