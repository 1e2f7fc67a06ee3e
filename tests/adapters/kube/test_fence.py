"""The fence in front of a server of the test's own, which sees every byte that gets through."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import aclosing

import pytest
import trustme

from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.errors import Unreachable
from moorage.adapters.kube.fence import FencedTransport
from moorage.adapters.kube.transport import AiohttpTransport, Request

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
JSON = {"Content-Type": "application/json"}


class Listener:
    """Answers every request once it is `open`, and remembers what it was sent. Clients can connect before that."""

    def __init__(self) -> None:
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    async def open(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        """Listen; with `tls`, handshakes that clients have begun go on now."""
        return await asyncio.start_server(self._serve, sock=self._socket, ssl=tls)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            self.heard += piece
            writer.write(ANSWER)
        writer.close()


@pytest.mark.parametrize(
    ("method", "body", "yes", "want_sent"),
    [
        pytest.param("POST", b"{}", 0, False, id="who may not write sends nothing"),
        pytest.param("POST", b"{}", 1, False, id="nor who may no more once the connection is open"),
        pytest.param("POST", b"{}", 2, True, id="who may all the time sends"),
        pytest.param("PATCH", b"{}", 1, False, id="patches are writes"),
        pytest.param("DELETE", b"{}", 1, False, id="deletions are writes"),
        pytest.param("DELETE", None, 0, False, id="deletions without a body too"),
        pytest.param("GET", None, 0, True, id="reads always go out"),
    ],
)
def test_writes_go_out_while_the_answer_is_yes(method: str, body: bytes | None, yes: int, want_sent: bool) -> None:
    """The answer turns to no after so many questions. Of a request that is kept back, no byte reaches the server."""

    async def scenario() -> None:
        listener, answers = Listener(), iter([True] * yes)
        async with await listener.open(), aclosing(DirectTransport()) as behind:
            transport = FencedTransport(behind, lambda: next(answers, False))
            request = Request(method, f"http://{listener.address}/", JSON, body)
            if want_sent:
                assert await (await transport.send(request)).read() == b"{}"
            else:
                with pytest.raises(Unreachable, match="not the leader"):
                    await transport.send(request)
        assert bool(listener.heard) is want_sent

    asyncio.run(scenario())


def test_a_leader_who_loses_while_a_connection_is_opened_sends_nothing() -> None:
    """Handshakes take time: in a process that is suspended meanwhile, more than a lease lives."""

    async def scenario() -> None:
        leading, asked, listener = True, asyncio.Event(), Listener()

        def may_write() -> bool:
            asked.set()
            return leading

        ours, theirs = contexts()
        async with aclosing(DirectTransport()) as behind:
            transport = FencedTransport(behind, may_write)
            request = Request("POST", f"https://{listener.address}/", JSON, b"{}", tls=theirs)
            sending = asyncio.create_task(transport.send(request))
            await asked.wait()
            leading = False
            async with await listener.open(ours):
                with pytest.raises(Unreachable, match="not the leader"):
                    await sending
                assert listener.heard == b""
                leading = True
                assert await (await transport.send(request)).read() == b"{}"
        assert b"content-type: application/json" in listener.heard.lower()
        assert listener.heard.endswith(b"\r\n\r\n{}")

    asyncio.run(scenario())


@pytest.mark.parametrize("make", [AiohttpTransport, DirectTransport])
def test_every_transport_asks_before_it_writes(make: type[AiohttpTransport | DirectTransport]) -> None:
    """What the check of a request raises is what its sender gets, and nothing was sent."""

    async def scenario() -> None:
        listener, refused = Listener(), True

        def check() -> None:
            if refused:
                raise Unreachable("not now")

        async with await listener.open():
            transport = make()
            request = Request("POST", f"http://{listener.address}/", JSON, b"{}", check=check)
            with pytest.raises(Unreachable, match="not now"):
                await transport.send(request)
            assert listener.heard == b""
            refused = False
            assert await (await transport.send(request)).read() == b"{}"
            assert listener.heard.endswith(b"\r\n\r\n{}")
            await transport.aclose()

    asyncio.run(scenario())


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of a client that trusts it."""
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client
