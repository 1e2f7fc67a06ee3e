"""The last check before something is written: that we still lead.

Between a decision and its request lie queues, the rate limit, retries and the opening of a connection, and a process
that was suspended does not know how long. So the question is asked where it cannot be too early: when the first byte of
the request is about to go out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from moorage.adapters.kube.errors import Unreachable
from moorage.adapters.kube.transport import READS, Request, Response, Transport


class FencedTransport:
    """Sends reads always, and writes only while `may_write` says so. The transport behind it stays the caller's."""

    def __init__(self, transport: Transport, may_write: Callable[[], bool]) -> None:
        self._transport = transport
        self._may_write = may_write

    async def send(self, request: Request) -> Response:
        """Send the request, or refuse it with Unreachable."""
        if request.method not in READS:
            self._check()  # without leadership there is no need to open a connection
            request.check = functools.partial(self._check, request.check)
        return await self._transport.send(request)

    def _check(self, own: Callable[[], None] | None = None) -> None:
        """Keep a request back; `own` is what its sender has to check."""
        if not self._may_write():
            raise Unreachable("nothing is written any more: this process is not the leader")
        if own is not None:
            own()
