"""HTTP sessions of aiohttp whose connections all end with them.

aiohttp ends the connections of its pool when a session is closed, but not those that it took out of the pool before: a
request that was cancelled before its answer, or an answer that broke off. These end TLS politely, and wait for the
server to do the same for longer than the event loop may live. Their sockets would then stay open until they are
collected.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import aiohttp

_MOST_TURNS = 16
"""How often the event loop is given a turn to close what has ended; three are enough."""


class HttpSession:
    """A session and all that it ever connects. Create it inside the event loop that uses it; close it there too."""

    def __init__(self, connecting: Mapping[str, Any], **options: Any) -> None:
        """`connecting` are options of the connector, `options` those of the session."""
        self._sockets: WeakSet[socket.socket] = WeakSet()
        connector = aiohttp.TCPConnector(socket_factory=self._make, **connecting)
        self.client = aiohttp.ClientSession(connector=connector, **options)

    async def aclose(self) -> None:
        """Close every connection."""
        await self.client.close()
        for each in self._open():
            with contextlib.suppress(OSError):  # the server was faster
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)  # the event loop sees that they have ended, and closes them
            if not self._open():
                return

    def _make(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    def _open(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() != -1]
