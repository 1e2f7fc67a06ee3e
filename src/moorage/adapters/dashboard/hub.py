"""Updates for all connected browsers: numbered messages, the latest of them kept for clients that reconnect.

A client that is too slow, or was away for too long, is told to reload, and loses nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

_KEPT = 128
_MOST_BEHIND = 32
_ALWAYS = 1 << 62
"""The number of messages that all clients get, whatever they have seen."""

RESET = b"event: reset\ndata: {}\n\n"


def frame(number: int, data: bytes) -> bytes:
    """One server-sent event."""
    return b"id: %d\nevent: news\ndata: %s\n\n" % (number, data)


class Hub:
    """Hands messages to visitors. Belongs to one event loop."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._visitors: set[asyncio.Queue[tuple[int, bytes]]] = set()
        self._closed = False

    @property
    def visitors(self) -> int:
        """How many listen."""
        return len(self._visitors)

    def publish(self, number: int, data: bytes) -> None:
        """Send to all clients; numbers rise by one."""
        message = frame(number, data)
        self._recent.append((number, message))
        for queue in self._visitors:
            if queue.qsize() >= _MOST_BEHIND:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait((number, RESET))
            else:
                queue.put_nowait((number, message))

    def reset(self) -> None:
        """All clients reload."""
        self._recent.clear()
        for queue in self._visitors:
            queue.put_nowait((_ALWAYS, RESET))

    def close(self) -> None:
        """Disconnect all clients."""
        self._closed = True
        for queue in self._visitors:
            queue.put_nowait((_ALWAYS, b""))

    async def listen(self, since: int, last: int) -> AsyncIterator[bytes]:
        """What comes after the message `since`, for ever; `last` is the newest number that was told.

        A client may know of one message that is about to be sent; one that knows of more comes from another server.
        """
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        missed = [message for message in self._recent if message[0] > since]
        if since > last + 1 or len(missed) < last - since:
            missed = [(_ALWAYS, RESET)]
        for message in missed:
            queue.put_nowait(message)
        self._visitors.add(queue)
        try:
            while not self._closed:
                number, text = await queue.get()
                if text and number > since:
                    yield text
        finally:
            self._visitors.discard(queue)
