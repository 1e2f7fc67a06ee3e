"""How long the parts of a process live: until one of them ends, or a signal says so."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

log = structlog.get_logger()


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
