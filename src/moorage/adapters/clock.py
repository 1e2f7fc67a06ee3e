"""What time it is: the wall clock at the start of the process, plus monotonic time since.

Backoffs, deadlines and ages must not jump when the clock of the machine is set: an hour back would mean no retry for an
hour, an hour forth would fire every deadline. So everything below asks `now_s`, which starts where the wall clock stood
and never jumps. Only what is about the calendar, such as whether a certificate is valid, asks `wall_s`.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable

import structlog

JUMP_S = 2.0
"""From so much on, a change of the wall clock is worth a line."""
LOOK_S = 10.0

log = structlog.get_logger()

wall_s: Callable[[], float] = time.time  # noqa: TID251 - the one place that reads it
"""What the machine says; may jump either way at any time."""

_elapsed_s: Callable[[], float] = (
    # Counts the time that a machine sleeps, too: what others have stamped meanwhile is no future.
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
_STARTED_S = wall_s() - _elapsed_s()


def now_s() -> float:
    """Seconds since the epoch that never jump and never go back."""
    return _STARTED_S + _elapsed_s()


def now_ns() -> int:
    """`now_s` in nanoseconds."""
    return int(now_s() * 1_000_000_000)


async def tell_of_jumps(
    wall: Callable[[], float] = wall_s,
    steady: Callable[[], float] = now_s,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Log a line whenever the wall clock was set; never ends."""
    ahead_s = wall() - steady()
    while True:
        await sleep(LOOK_S)
        before_s, ahead_s = ahead_s, wall() - steady()
        if abs(ahead_s - before_s) >= JUMP_S:
            log.warning(
                "the wall clock was set; backoffs and deadlines go on as before", by_s=round(ahead_s - before_s, 1)
            )
