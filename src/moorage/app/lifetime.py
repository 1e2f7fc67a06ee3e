"""The lifetime of a process and its parts: until one of them ends, or until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

log = structlog.get_logger()


class StartError(Exception):
    """A process cannot start; the text is one line."""


async def first(*waits: Coroutine[Any, Any, None]) -> None:
    """Wait until one of them ends, and end the others; raises what it raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel(tasks)


async def stop_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    log.info("stopping")


async def cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Parts:
    """Tasks that live as long as the process, some of which may be added or dropped on the way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def start(self, *chores: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Run these, which must not end by themselves; their tasks."""
        tasks = [asyncio.create_task(chore) for chore in chores]
        self._tasks.update(tasks)
        self._changed.set()
        return tasks

    async def drop(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """End these, and wait until they have ended."""
        self._tasks.difference_update(tasks)
        self._changed.set()
        await cancel(tasks)

    async def failure(self) -> None:
        """Wait until one ends by itself, and raise its error."""
        while True:
            self._changed.clear()
            change = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait([change, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            for task in [task for task in self._tasks if task.done()]:
                task.result()
                raise RuntimeError("a part ended by itself")

    async def aclose(self) -> None:
        """End all of them."""
        await self.drop(list(self._tasks))
