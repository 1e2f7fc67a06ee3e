"""Connections for short requests: answers in every shape and cut, kept connections, and servers that go away."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme

from moorage.adapters.kube import connections
from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.errors import Timeout, Unreachable
from moorage.adapters.kube.httpanswer import AnswerReader, BadAnswerError
from moorage.adapters.kube.transport import Request

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
WAIT_S = 60.0

ANSWERS = [
    pytest.param(GOOD, 200, b"hi", True, id="with a length"),
    pytest.param(b"HTTP/1.1 201 Created\r\ncontent-length:0\r\n\r\n", 201, b"", True, id="empty"),
    pytest.param(b"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", 204, b"", True, id="no content"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
        200,
        b"abc0123456789",
        True,
        id="in chunks",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
        200,
        b"a",
        True,
        id="in chunks with a trailer",
    ),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
        409,
        b"x",
        False,
        id="after an interim answer, and the last",
    ),
]


@pytest.mark.parametrize(("raw", "want_status", "want_body", "want_stays"), ANSWERS)
def test_answers_are_read_however_they_are_cut(
    raw: bytes, want_status: int, want_body: bytes, want_stays: bool
) -> None:
    """Whole, byte by byte, and in two pieces cut anywhere, an answer is the same, and nothing of it is left."""
    cuts = [[raw], [raw[at : at + 1] for at in range(len(raw))], *([raw[:at], raw[at:]] for at in range(1, len(raw)))]
    for pieces in cuts:
        reader = AnswerReader()
        found = [reader.feed(piece) for piece in pieces]
        assert found[:-1] == [None] * (len(pieces) - 1)
        assert found[-1] is not None
        answer, stays = found[-1]
        assert (answer.status, answer.body, stays) == (want_status, want_body, want_stays)
        assert reader.reusable


def test_an_answer_without_length_ends_with_the_connection() -> None:
    """Proxies that speak HTTP/1.0 do so."""
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.0 503 Busy\r\nRetry-After: 3\r\n\r\nwait") is None
    answer = reader.end()
    assert answer is not None
    assert (answer.status, answer.body, answer.headers.get("retry-after")) == (503, b"wait", "3")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 2xx OK\r\n\r\n", id="a status that is no number"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="a length below zero"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="a chunk of no size"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a" * (1 << 19), id="headers without end"),
    ],
)
def test_what_is_not_an_answer_is_refused(raw: bytes) -> None:
    """Never a guess."""
    with pytest.raises(BadAnswerError):
        AnswerReader().feed(raw)


AMBIGUOUS = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
    "the same length twice": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
    "two lengths in one": b"Content-Length: 2, 3\r\n\r\nhi",
    "a length with a sign": b"Content-Length: +2\r\n\r\nhi",
    "a length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding that looks like chunks": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Content-Length : 2\r\n\r\nhi",
    "a space before the colon of the second": b"Content-Length: 2\r\nContent-Length : 3\r\n\r\nhi",
    "a folded line": b"X: a\r\n Content-Length: 3\r\nContent-Length: 2\r\n\r\nhi",
    "a line that ends with LF": b"X: a\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nhi",
    "a line that ends with CR": b"X: a\rContent-Length: 3\r\nContent-Length: 2\r\n\r\nhi",
    "a NUL": b"X: a\0b\r\nContent-Length: 2\r\n\r\nhi",
    "no colon": b"Content-Length\r\nContent-Length: 2\r\n\r\nhi",
    "a chunk that is longer": b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in two"])
def test_an_answer_that_could_end_elsewhere_is_refused(fields: bytes, cut: bool) -> None:
    """Another reader on the way could take the rest of it for the next answer."""
    raw = b"HTTP/1.1 200 OK\r\n" + fields
    reader = AnswerReader()
    if cut:
        assert reader.feed(raw[:20]) is None
    with pytest.raises(BadAnswerError):
        reader.feed(raw[20 * cut :])


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[str]:
    """A server in the clear that treats each connection as the script says; gives its address."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def asked(reader: asyncio.StreamReader) -> bytes:
    """One request without its body."""
    return await reader.readuntil(b"\r\n\r\n")


def request(url: str, method: str = "GET", timeout_s: float = WAIT_S) -> Request:
    return Request(method, f"{url}/x", {}, timeout_s=timeout_s)


def run(script: Script, scenario: Callable[[str, DirectTransport], Awaitable[None]], connections: int = 8) -> None:
    async def play() -> None:
        transport = DirectTransport(connections=connections)
        async with serving(script) as url:
            try:
                await scenario(url, transport)
            finally:
                await transport.aclose()

    asyncio.run(play())


def test_connections_are_kept_and_limited() -> None:
    """Twenty requests at once share two connections, and later ones use those again."""
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await asked(reader)
            writer.write(GOOD)

    async def scenario(url: str, transport: DirectTransport) -> None:
        for _ in range(3):
            answers = await asyncio.gather(*(transport.send(request(url)) for _ in range(20)))
            assert [await answer.read() for answer in answers] == [b"hi"] * 20
        assert connections == 2

    run(script, scenario, connections=2)


@pytest.mark.parametrize(("method", "want_error"), [("GET", False), ("POST", True)])
def test_a_kept_connection_that_the_server_closed(method: str, want_error: bool) -> None:
    """Reads go out again on a new connection, writes never do: nobody knows whether they arrived."""
    heard: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await asked(reader))
        writer.write(GOOD)
        heard.append(await asked(reader))  # and say nothing

    async def scenario(url: str, transport: DirectTransport) -> None:
        assert (await transport.send(request(url, method))).status == 200
        if want_error:
            with pytest.raises(Unreachable, match="connection lost"):
                await transport.send(request(url, method))
            assert len(heard) == 2
        else:
            assert (await transport.send(request(url, method))).status == 200
            assert len(heard) == 3

    run(script, scenario)


def test_a_timeout_ends_the_exchange_and_its_connection() -> None:
    """The late answer must not be taken for that of the next request."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await asked(reader)
        if b"/slow" in first:
            await reader.read()  # until the client hangs up
            return
        writer.write(GOOD)
        await reader.read()

    async def scenario(url: str, transport: DirectTransport) -> None:
        with pytest.raises(Timeout, match="no answer in time"):
            await transport.send(Request("GET", f"{url}/slow", {}, timeout_s=0.05))
        assert await (await transport.send(request(url))).read() == b"hi"

    run(script, scenario)


def test_every_exchange_has_a_deadline_of_its_own() -> None:
    """Whichever is due first ends first, in whatever order they were begun; who has time left goes on waiting."""
    ended: list[float] = []

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()  # never an answer

    async def scenario(url: str, transport: DirectTransport) -> None:
        async def wait(timeout_s: float) -> None:
            with pytest.raises(Timeout):
                await transport.send(request(url, timeout_s=timeout_s))
            ended.append(timeout_s)

        patient = asyncio.create_task(wait(3600.0))
        await asyncio.gather(*(wait(timeout_s) for timeout_s in (0.3, 0.1, 0.2)))
        assert ended == [0.1, 0.2, 0.3]
        assert not patient.done()
        patient.cancel()

    run(script, scenario)


def test_who_is_cancelled_in_line_gives_the_turn_on() -> None:
    """One connection, three who want it: the second gives up, the third still gets its answer."""
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await asked(reader)
            await go.wait()
            writer.write(GOOD)

    async def scenario(url: str, transport: DirectTransport) -> None:
        first, second, third = (asyncio.create_task(transport.send(request(url))) for _ in range(3))
        await asyncio.sleep(0)
        second.cancel()
        go.set()
        assert [(await first).status, (await third).status] == [200, 200]

    run(script, scenario, connections=1)


def test_a_request_that_may_not_go_out_leaves_the_connection_alone() -> None:
    """The check is asked when the connection is there; a refusal sends nothing."""
    heard: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append(await asked(reader))
            writer.write(GOOD)

    def refuse() -> None:
        raise Unreachable("not now")

    async def scenario(url: str, transport: DirectTransport) -> None:
        with pytest.raises(Unreachable, match="not now"):
            await transport.send(Request("POST", f"{url}/x", {}, b"{}", timeout_s=WAIT_S, check=refuse))
        assert (await transport.send(request(url))).status == 200
        assert len(heard) == 1

    run(script, scenario)


def test_an_unasked_answer_closes_the_connection() -> None:
    """Whatever a server says between two requests is not the answer to the second."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(GOOD + b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async def scenario(url: str, transport: DirectTransport) -> None:
        for _ in range(3):
            assert (await transport.send(request(url))).status == 200

    run(script, scenario)


def test_a_large_request_goes_out_whole() -> None:
    """More than fits into the buffers of the system."""
    body = b"x" * (8 << 20)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        got = await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + (b"1" if got == body else b"0"))

    async def scenario(url: str, transport: DirectTransport) -> None:
        answer = await transport.send(Request("POST", f"{url}/x", {}, body, timeout_s=WAIT_S))
        assert await answer.read() == b"1"

    run(script, scenario)


def test_who_cannot_connect_gives_the_turn_on() -> None:
    """One place, taken by a request to a server that is not there: the one behind it is served all the same."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(GOOD)

    async def scenario(url: str, transport: DirectTransport) -> None:
        with socket.socket() as bound_only:
            bound_only.bind(("127.0.0.1", 0))
            nobody = f"http://127.0.0.1:{bound_only.getsockname()[1]}"
            first, second = (asyncio.create_task(transport.send(request(to, timeout_s=3600))) for to in (nobody, url))
            with pytest.raises(Unreachable, match="cannot connect"):
                await first
            async with asyncio.timeout(WAIT_S):
                assert (await second).status == 200

    run(script, scenario, connections=1)


def test_an_address_that_swallows_everything_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may stand for several servers, of which the first is down without saying so."""
    monkeypatch.setattr(connections, "NEXT_ADDRESS_S", 0.05)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(GOOD)

    async def scenario(url: str, transport: DirectTransport) -> None:
        with socket.socket() as full, contextlib.ExitStack() as callers:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(4):  # who comes after these gets no answer
                caller = callers.enter_context(socket.socket())
                caller.setblocking(False)
                caller.connect_ex(full.getsockname())
            kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
            places = [(*kind, full.getsockname()), (*kind, ("127.0.0.1", int(url.rpartition(":")[2])))]

            async def resolve(*_: object, **__: object) -> list[object]:
                return [*places]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            assert (await transport.send(request("http://several.example"))).status == 200

    run(script, scenario)


def test_tls_sessions_are_resumed_until_the_server_forgets_them(authority: trustme.CA) -> None:
    """With the same trust only; a server that does not know a session any more gets a whole handshake and a new one."""
    resumed: list[bool] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await asked(reader)
        writer.write(GOOD)
        await writer.drain()
        writer.close()

    def server_context() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return context

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    async def ask(transport: DirectTransport, port: int, tls: ssl.SSLContext) -> None:
        answer = await transport.send(Request("GET", f"https://127.0.0.1:{port}/x", {}, tls=tls, timeout_s=WAIT_S))
        assert answer.status == 200

    async def scenario() -> None:
        transport, first, other = DirectTransport(), trust(), trust()
        server = await asyncio.start_server(script, "127.0.0.1", 0, ssl=server_context())
        port = server.sockets[0].getsockname()[1]
        for tls in (first, first, first, other, other):
            await ask(transport, port, tls)
        assert resumed == [False, True, True, False, True]
        server.close()
        await server.wait_closed()
        server = await asyncio.start_server(script, "127.0.0.1", port, ssl=server_context())
        for _ in range(2):
            await ask(transport, port, other)
        assert resumed[5:] == [False, True]
        server.close()
        await transport.aclose()

    asyncio.run(scenario())


def test_https_is_never_in_the_clear() -> None:
    """Who says nothing of TLS gets what the system trusts."""
    heard: list[bytes] = []

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))

    async def scenario(url: str, transport: DirectTransport) -> None:
        with pytest.raises(Unreachable, match="cannot connect"):
            await transport.send(request(url.replace("http:", "https:")))
        assert heard
        assert b"GET" not in heard[0]

    run(script, scenario)


def test_a_closed_pool_has_no_connections() -> None:
    """Closing ends them all at once, those in use too; nothing is opened any more; closing twice is fine."""
    heard = asyncio.Event()

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await asked(reader)
        heard.set()
        await reader.read()

    async def scenario(url: str, transport: DirectTransport) -> None:
        sent = [asyncio.create_task(transport.send(request(url, timeout_s=3600)))]
        await heard.wait()
        sent += [asyncio.create_task(transport.send(request(url, timeout_s=3600))) for _ in range(2)]
        await asyncio.sleep(0)  # one of them connects now, the other one is in line
        await transport.aclose()
        await transport.aclose()
        async with asyncio.timeout(WAIT_S):
            for each in [*sent, transport.send(request(url))]:
                with pytest.raises(Unreachable, match="closed by this process"):
                    await each

    run(script, scenario, connections=2)
