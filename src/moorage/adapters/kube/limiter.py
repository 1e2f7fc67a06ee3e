"""The client side rate limit: a token bucket with `qps` and `burst` as in clientConnection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

# Above this no server is the slower side, and the bookkeeping only costs.
UNLIMITED_QPS = 1e6


class RateLimiter:
    """Lets `burst` requests through at once and `qps` a second after that, in the order they came.

    A qps of 0 or less, or a very large one, means no limit.
    """

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limited = 0 < qps < UNLIMITED_QPS
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._filled_at_s = monotonic_s()

    async def acquire(self) -> None:
        """Wait for our turn. Each caller takes its token at once, if need be from the future, so callers are served in
        order.
        """
        if not self.limited:
            return
        now_s = self._monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_at_s) * self._qps)
        self._filled_at_s = now_s
        self._tokens -= 1.0
        if self._tokens >= 0.0:
            return
        try:
            await self._sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1.0
            raise
