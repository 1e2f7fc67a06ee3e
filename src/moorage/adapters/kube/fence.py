"""The last check before something is written: that we still lead.

Between a decision and its request lie queues, the rate limit and retries, and a process that was suspended does not
know how long. So the question is asked where it cannot be too early: when the request is about to go out.
"""

from __future__ import annotations

from collections.abc import Callable

from moorage.adapters.kube.errors import Unreachable
from moorage.adapters.kube.transport import AiohttpTransport, Request, Response

_READS = frozenset({"GET", "HEAD"})


class FencedTransport:
    """Sends reads always, and writes only while `may_write` says so. Make and close it in the loop that uses it."""

    def __init__(self, may_write: Callable[[], bool]) -> None:
        self._may_write = may_write
        self._transport = AiohttpTransport()

    async def send(self, request: Request) -> Response:
        """Send the request, or refuse it with Unreachable."""
        if request.method not in _READS and not self._may_write():
            raise Unreachable("nothing is written any more: this process is not the leader")
        return await self._transport.send(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.close()
