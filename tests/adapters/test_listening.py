"""What callers of a server may hold: real sockets that hang, and a probe that is answered all the same."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
import trustme
from aiohttp import web

from moorage.adapters.certificates import server_context
from moorage.adapters.listening import BodyError, Bounds, listening, read_body

Test = Callable[["Server"], Awaitable[None]]
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-More: "


class Server:
    """A server with `/healthz`, `POST /body` that says how long the body was, and `/held` that answers when told."""

    def __init__(self, tls: ssl.SSLContext | None, trust: ssl.SSLContext | None) -> None:
        self.url = ""
        self.tls = tls
        self.trust = trust
        self.held: list[asyncio.Event] = []
        self.news = asyncio.Condition()
        self.writers: dict[asyncio.StreamReader, asyncio.StreamWriter] = {}

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def application(self) -> web.Application:
        async def alive(_: web.Request) -> web.Response:
            return web.Response(text="ok")

        async def body(request: web.Request) -> web.Response:
            try:
                content = await read_body(request)
            except BodyError as error:
                return web.Response(status=error.status, text=str(error), headers=error.headers)
            if "hold" in request.query:
                await self._hold()
            return web.Response(text=str(len(content)))

        async def held(_: web.Request) -> web.Response:
            await self._hold()
            return web.Response(text="ok")

        app = web.Application()
        app.router.add_get("/healthz", alive)
        app.router.add_post("/body", body)
        app.router.add_get("/held", held)
        return app

    async def _hold(self) -> None:
        told = asyncio.Event()
        async with self.news:
            self.held.append(told)
            self.news.notify_all()
        await told.wait()

    async def holding(self, count: int) -> None:
        """Wait until so many questions are under way."""
        async with self.news:
            await self.news.wait_for(lambda: len(self.held) >= count)

    async def connect(self, first: bytes = b"", *, shake: bool = True) -> asyncio.StreamReader:
        """A connection on which this much has been said."""
        tls = self.trust if shake else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, server_hostname="localhost" if tls else None
        )
        writer.write(first)
        await writer.drain()
        self.writers[reader] = writer
        return reader

    async def probe(self) -> str:
        """What `/healthz` says on a connection of its own."""
        connector = aiohttp.TCPConnector(ssl=self.trust or False, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, session.get(f"{self.url}/healthz") as answer:
            return await answer.text()


@asynccontextmanager
async def serving(bounds: Bounds, *, secure: bool = False) -> AsyncIterator[Server]:
    tls = trust = None
    if secure:
        authority = trustme.CA()
        tls, trust = server_context(), ssl.create_default_context()
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(tls)
        authority.configure_trust(trust)
    server = Server(tls, trust)
    async with listening(server.application(), "127.0.0.1", 0, tls, bounds=bounds) as url:
        server.url = url
        try:
            yield server
        finally:
            for writer in server.writers.values():
                writer.close()
            await asyncio.gather(*(each.wait_closed() for each in server.writers.values()), return_exceptions=True)


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the server has closed."""
    try:
        async with asyncio.timeout(20):
            while await reader.read(1 << 16):
                pass
    except (ConnectionError, ssl.SSLError):
        pass


def play(test: Test, bounds: Bounds, *, secure: bool = False) -> None:
    async def body() -> None:
        async with serving(bounds, secure=secure) as server:
            await test(server)

    asyncio.run(body())


@pytest.mark.parametrize("what", ["no handshake", "half a head", "nothing after the handshake"])
def test_two_hundred_half_open_tls_requests_end(what: str) -> None:
    """They are closed when their time is over, and a probe is answered while they hang, by reserved places."""

    async def test(server: Server) -> None:
        hanging = [
            await server.connect(HALF_A_HEAD if what == "half a head" else b"", shake=what != "no handshake")
            for _ in range(200)
        ]
        assert await server.probe() == "ok"
        await asyncio.gather(*map(closed, hanging))
        assert await server.probe() == "ok"

    play(test, Bounds(connections=220, per_address=210, handshake_s=2.0, head_s=2.0), secure=True)


def test_where_all_places_are_taken_one_that_only_waits_goes() -> None:
    """A new caller gets in however many hang; the one that has hung longest leaves."""

    async def test(server: Server) -> None:
        hanging = [await server.connect(HALF_A_HEAD) for _ in range(8)]
        for oldest in hanging[:3]:
            assert await server.probe() == "ok"
            await closed(oldest)
            await server.connect(HALF_A_HEAD)

    play(test, Bounds(connections=8, per_address=8, head_s=60.0))


def test_where_all_send_bodies_that_never_end_one_of_them_goes() -> None:
    """A question whose body is still on its way makes room, before its time is over."""

    async def test(server: Server) -> None:
        begun = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
        hanging = [asyncio.create_task(closed(await server.connect(begun))) for _ in range(8)]
        assert await server.probe() == "ok"
        await asyncio.wait(hanging, return_when=asyncio.FIRST_COMPLETED)
        for each in hanging:
            each.cancel()
        ended = await asyncio.gather(*hanging, return_exceptions=True)
        assert ended.count(None) == 1

    play(test, Bounds(connections=8, per_address=8, head_s=60.0, body_s=60.0))


def test_who_is_being_answered_keeps_his_place() -> None:
    """Questions under way are never cut off; when there are only such, a new caller is turned away."""

    async def test(server: Server) -> None:
        asked = [await server.connect(b"GET /held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for _ in range(4)]
        await server.holding(4)
        with pytest.raises(aiohttp.ClientError):
            await server.probe()
        for told in server.held:
            told.set()
        for reader in asked:
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        assert await server.probe() == "ok"

    play(test, Bounds(connections=8, per_address=4, head_s=60.0))


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_more_callers_at_once_than_places_are_all_answered(secure: bool) -> None:
    """As after a stall: a connection that has just come keeps its place, and the others get theirs when it is left."""

    async def test(server: Server) -> None:
        async with asyncio.timeout(60):
            assert await asyncio.gather(*(server.probe() for _ in range(16))) == ["ok"] * 16

    play(test, Bounds(connections=16, per_address=8, grace_s=60.0), secure=secure)


def test_a_question_that_has_come_is_not_dropped_for_a_new_caller() -> None:
    """A kept connection that has begun to speak again keeps its place; one that stays silent gives way."""

    async def test(server: Server) -> None:
        kept = [await server.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
        for reader in kept:
            await reader.readuntil(b"ok")
        asking, silent = kept
        server.writers[asking].write(HALF_A_HEAD)
        assert await server.probe() == "ok"
        await closed(silent)
        server.writers[asking].write(b"x\r\n\r\n")
        assert (await asking.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    play(test, Bounds(connections=2, per_address=2, grace_s=0.0))


def test_callers_pushed_out_while_they_come_in_leave_nobody_unheard() -> None:
    """Everybody gets an answer or an end: no socket is closed whose number a transport in the making still holds."""

    async def test(server: Server) -> None:
        async with asyncio.timeout(30):
            for _ in range(3):
                await asyncio.gather(*(server.probe() for _ in range(100)), return_exceptions=True)
            assert await server.probe() == "ok"

    play(test, Bounds(connections=8, per_address=8, grace_s=0.0), secure=True)


def test_a_connection_that_says_nothing_after_its_answer_ends() -> None:
    """Idle ones are closed, and so are those that begin another question and never end it."""

    async def test(server: Server) -> None:
        for more in (b"", b"GET /he"):
            reader = await server.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            server.writers[reader].write(more)
            await closed(reader)

    play(test, Bounds(idle_s=0.5, head_s=0.5))


@pytest.mark.parametrize(
    ("bounds", "head", "sent", "want"),
    [
        (Bounds(body_bytes=1000), b"Content-Length: 1001", b"x" * 1001, b"413"),
        (Bounds(body_s=0.2), b"Content-Length: 10", b"x", b"408"),
        (Bounds(), b"Transfer-Encoding: chunked", b"zz\r\n", b"400"),
        (Bounds(), b"Content-Length: 3\r\nContent-Encoding: gzip", b"xyz", b"415"),
    ],
    ids=["too large", "too slow", "broken", "compressed"],
)
def test_bodies_are_bounded(bounds: Bounds, head: bytes, sent: bytes, want: bytes) -> None:
    """Size, time and form, each with its own status."""

    async def test(server: Server) -> None:
        reader = await server.connect(b"POST /body HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n" + sent)
        assert (await reader.readline()).split()[1] == want

    play(test, bounds)


def test_bodies_share_a_budget() -> None:
    """What others hold counts until they are answered; a body without room is told to come back; small ones pass."""

    async def test(server: Server) -> None:
        async with aiohttp.ClientSession() as session:
            large = b"x" * 600_000
            first = asyncio.create_task(session.post(f"{server.url}/body?hold", data=large))
            await server.holding(1)
            async with session.post(f"{server.url}/body", data=large) as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            async with session.post(f"{server.url}/body", data=b"x" * 1000) as small:
                assert await small.text() == "1000"
            server.held[0].set()
            assert await (await first).text() == "600000"
            async with session.post(f"{server.url}/body", data=large) as answer:
                assert await answer.text() == "600000"

    play(test, Bounds(bodies_bytes=1_000_000))
