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
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, namespace: str, item: T) -> None:
        """Queue something."""
        line = self._waiting.get(namespace)
        if line is None:
            line = self._waiting[namespace] = deque()
        line.append(item)

    def take(self) -> tuple[str, T] | None:
        """Take out what comes next, with its places; None if nothing may."""
        for namespace in self._waiting:
            if all(shares.has_room(namespace) for shares in self._shares):
                break
        else:
            return None
        line = self._waiting[namespace]
        item = line.popleft()
        if line:
            self._waiting.move_to_end(namespace)
        else:
            del self._waiting[namespace]
        for shares in self._shares:
            shares.take(namespace)
        return namespace, item

    def leave(self, namespace: str) -> None:
        """Give the places back."""
        for shares in self._shares:
            shares.leave(namespace)


class Lanes(Generic[T]):
    """Two lanes, of which the first goes before the second, and the second has some of the places at most."""

    def __init__(self, places: int, calm_places: int) -> None:
        self._places = places
        shares = Shares(places)
        self._lanes = (Lane[T](shares), Lane[T](shares, Shares(calm_places)))
        self._workers: deque[asyncio.Future[None]] = deque()
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, namespace: str, item: T, *, urgent: bool) -> None:
        """Queue something; never blocks."""
        self._lanes[not urgent].put(namespace, item)
        self._unfinished += 1
        self._idle.clear()
        self._wake()

    async def get(self) -> tuple[int, str, T]:
        """Wait for something that may be done now: its lane, its namespace, and what it is. `done` must follow."""
        while True:
            for number, lane in enumerate(self._lanes):
                found = lane.take()
                if found is not None:
                    return (number, *found)
            turn = asyncio.get_running_loop().create_future()
            self._workers.append(turn)
            await turn

    def done(self, lane: int, namespace: str) -> None:
        """Give back the place of something that `get` returned."""
        self._lanes[lane].leave(namespace)
        self._unfinished -= 1
        if not self._unfinished:
            self._idle.set()
        self._wake()

    async def work(self, do: Callable[[T], Awaitable[None]]) -> None:
        """Do what is queued, with a worker for each place, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._places):
                workers.create_task(self._work(do))

    async def _work(self, do: Callable[[T], Awaitable[None]]) -> None:
        while True:
            lane, namespace, item = await self.get()
            try:
                await do(item)
            finally:
                self.done(lane, namespace)

    async def drained(self, timeout_s: float) -> bool:
        """Wait until everything that was queued is done; False when that takes longer than `timeout_s`."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        while self._workers:
            turn = self._workers.popleft()
            if not turn.done():
                turn.set_result(None)
                return
