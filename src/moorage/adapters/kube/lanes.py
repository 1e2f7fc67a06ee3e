"""Commands that wait for one of a number of places, shared fairly by namespaces.

A namespace may take another place while it has fewer than are left. So one that is alone gets half of them, two get a
third each, and there is always a place left for one that comes: however slow the requests of some namespaces are, those
of others need not wait for them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from moorage.core.shares import Shares

T = TypeVar("T")


class Lane(Generic[T]):
    """What waits for places of all these shares. Namespaces take turns; within one, first come, first served."""

    def __init__(self, *shares: Shares) -> None:
        self._shares = shares
        self.waiting: OrderedDict[str, deque[T]] = OrderedDict()
        """By namespace."""

    def put(self, namespace: str, item: T) -> None:
        """Queue something."""
        line = self.waiting.get(namespace)
        if line is None:
            line = self.waiting[namespace] = deque()
        line.append(item)

    def take(self) -> tuple[str, T] | None:
        """Take out what comes next, with its places; None if nothing may."""
        for namespace in self.waiting:
            for shares in self._shares:
                if not shares.has_room(namespace):
                    break
            else:
                return namespace, self._first_of(namespace)
        return None

    def _first_of(self, namespace: str) -> T:
        line = self.waiting[namespace]
        item = line.popleft()
        if line:
            self.waiting.move_to_end(namespace)
        else:
            del self.waiting[namespace]
        for shares in self._shares:
            shares.take(namespace)
        return item

    def leave(self, namespace: str) -> None:
        """Give the places back."""
        for shares in self._shares:
            shares.leave(namespace)


class Lanes(Generic[T]):
    """Several lanes, of which each goes before the next one; all but the first have some of the places at most."""

    def __init__(self, places: int, *most: int) -> None:
        """`most` is how many places the second lane may have, and each further one."""
        self._places = places
        shares = Shares(places)
        self._lanes = (Lane[T](shares), *(Lane[T](shares, Shares(number)) for number in most))
        self._idlers: deque[asyncio.Future[tuple[Lane[T], str, T]]] = deque()
        """Workers that have nothing to do."""
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, namespace: str, item: T, lane: int) -> None:
        """Queue something in a lane, 0 being the first; never blocks."""
        self._lanes[lane].put(namespace, item)
        self._unfinished += 1
        self._idle.clear()
        self._hand_out()

    async def work(self, do: Callable[[T], Awaitable[None]]) -> None:
        """Do what is queued, with a worker for each place, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._places):
                workers.create_task(self._work(do))

    async def drained(self, timeout_s: float) -> bool:
        """Wait until everything that was queued is done; False when that takes longer than `timeout_s`."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def _work(self, do: Callable[[T], Awaitable[None]]) -> None:
        while True:
            found = self._take()
            if found is None:
                turn = asyncio.get_running_loop().create_future()
                self._idlers.append(turn)
                found = await turn
            elif self._idlers:
                self._hand_out()  # a place that was given back may let another namespace take one, too
            lane, namespace, item = found
            try:
                await do(item)
            finally:
                lane.leave(namespace)
                self._unfinished -= 1
                if not self._unfinished:
                    self._idle.set()

    def _take(self) -> tuple[Lane[T], str, T] | None:
        for lane in self._lanes:
            found = lane.take() if lane.waiting else None
            if found is not None:
                return lane, *found
        return None

    def _hand_out(self) -> None:
        """Give what may be done now to workers that have nothing to do."""
        while self._idlers:
            if self._idlers[0].done():  # cancelled
                self._idlers.popleft()
                continue
            found = self._take()
            if found is None:
                return
            self._idlers.popleft().set_result(found)
