"""HTTP sessions whose connections end with them, also those that aiohttp has taken out of its pool."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import aiohttp
import pytest
import trustme

from moorage.adapters.sessions import HttpSession

WAIT_S = 60.0
BROKEN_OFF = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"


class SilentServer:
    """Speaks TLS in threads of its own, says the same to every request, and never ends a connection before its end."""

    def __init__(self, context: ssl.SSLContext, answer: bytes) -> None:
        self._context = context
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self.heard = threading.Event()
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}/"

    @contextmanager
    def open(self) -> Iterator[SilentServer]:
        thread = threading.Thread(target=self._serve)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join(WAIT_S)

    def _serve(self) -> None:
        with ExitStack() as opened:
            opened.enter_context(self._listener)
            connected, _ = self._listener.accept()
            secured = opened.enter_context(self._context.wrap_socket(connected, server_side=True))
            secured.recv(1 << 16)
            secured.sendall(self._answer)
            self.heard.set()
            self._ended.wait(WAIT_S)


@pytest.mark.parametrize(
    "answer", [pytest.param(b"", id="cancelled before its answer"), pytest.param(BROKEN_OFF, id="not an answer")]
)
def test_no_connection_outlives_its_session(answer: bytes) -> None:
    """The server does not answer the end of TLS, and still nothing is left that warns when it is collected."""
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(ours)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)

    async def scenario(server: SilentServer) -> None:
        session = HttpSession({"limit": 1})
        asking = asyncio.create_task(_ask(session, server.url, ours))
        assert await asyncio.to_thread(server.heard.wait, WAIT_S)
        if not answer:
            asking.cancel()
        await asyncio.wait([asking])
        await session.aclose()
        assert asking.cancelled() or isinstance(asking.exception(), aiohttp.ClientError)

    with warnings.catch_warnings(record=True) as seen, SilentServer(theirs, answer).open() as server:
        warnings.simplefilter("always")
        asyncio.run(scenario(server))
        gc.collect()
    assert [str(each.message) for each in seen] == []


async def _ask(session: HttpSession, url: str, context: ssl.SSLContext) -> None:
    async with session.client.get(url, ssl=context) as response:
        await response.read()
