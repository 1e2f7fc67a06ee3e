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

import structlog

MOST_WAITING = 20_000
"""Events that wait; at two milliseconds a decision, the last of them are compared 40 seconds later."""

Item = TypeVar("Item")
log = structlog.get_logger()


class Inbox(Generic[Item]):
    """Items in the order of their arrival; `take` is told when each arrived and whether there is time to compare."""

    def __init__(self, take: Callable[[Item, float, bool], None], most: int = MOST_WAITING) -> None:
        self._take = take
        self._most = most
        self._waiting: deque[tuple[Item, float]] = deque()
        self._overrun = False
        """Whether there were too many since the inbox was last empty."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: Item) -> None:
        """Something arrived; with it there are at most as many as may wait."""
        self._waiting.append((item, time.monotonic()))
        if len(self._waiting) > self._most:
            if not self._overrun:
                self._overrun = True
                log.warning("decisions come faster than they are compared; some will not be", waiting=self._most)
            self._take(*self._waiting.popleft(), False)

    def take(self, *, compares: bool = True) -> None:
        """Take the oldest."""
        self._take(*self._waiting.popleft(), compares)
        if not self._waiting:
            self._overrun = False
