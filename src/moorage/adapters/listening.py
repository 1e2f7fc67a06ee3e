"""How every server listens: aiohttp answers, and this layer limits the resources of clients.

Invariants, whatever clients send:
- No more than `Bounds.connections` are open, counted from the moment they are accepted, before TLS; no more than
  `per_address` of them from one address. At the limit, the connection of the same address that has been idle longest is
  closed, else that of the address with the most connections, else one whose body is still incomplete; a connection
  whose request is being answered is kept. So a probe is answered however many other clients hang. A connection that was
  opened or active within `grace_s` is kept, and the new client waits that long: after a stall of this process all
  clients arrive at once, and their requests may have arrived without having been read. At most half as many clients as
  there are connections wait, and nothing is read from them; the others replace connections as if there were no grace
  period.
- A handshake, the head of a request and its body arrive within their times, or the connection ends.
- Bodies that are being read or answered hold at most `bodies_bytes` together; what exceeds that gets 503 with
  Retry-After.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from functools import partial

import structlog
from aiohttp import web

from moorage.core.values import dataclass

_EXHAUSTED_PAUSE_S = 0.5
"""Where the machine has no more files or memory for a connection."""
_RETRY_AFTER_S = 1
_BACKLOG = 1024
_SMALL_BYTES = 64 << 10
"""Bodies of this size are free: the number of connections bounds them."""
_TELL_EVERY_S = 60.0
_LOOK_S = 0.1
"""Interval between two checks for a free place."""

log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ListenError(Exception):
    """The address cannot be listened on; the text is one line."""


class BodyError(Exception):
    """The body of a request is not taken; the text is one line, `status` what HTTP calls it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = {"Retry-After": str(_RETRY_AFTER_S)} if status == 503 else {}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Resource limits for the clients of one server."""

    connections: int = 256
    """A connection with TLS costs some 300 KB."""
    per_address: int = 192
    """Less than all, so that no single client can take every place. API servers and proxies are one address each."""
    grace_s: float = 1.0
    """How long a client that connected or sent something keeps its place when others need it."""
    handshake_s: float = 10.0
    head_s: float = 10.0
    """For the head of a request, from the connection or its first byte on."""
    idle_s: float = 90.0
    """For a connection that has been answered and says nothing; longer than Go's clients keep theirs is not needed."""
    body_s: float = 10.0
    body_bytes: int = 1 << 20
    bodies_bytes: int = 64 << 20
    """For all bodies together."""
    buffer_bytes: int = 1 << 16
    """Large bodies come in large pieces."""
    stop_s: float = 1.0
    """How long requests may take to finish when the server stops."""


@dataclass(eq=False, slots=True)
class _Connection:
    """One caller, from the accept on."""

    address: str
    since_s: float
    """When it was accepted, or last answered."""
    answered: bool = False
    busy: bool = False
    """Whether a request of it is being answered."""
    reading: bool = False
    """Whether the body of that request is still incomplete."""
    began_s: float | None = None
    """When the first byte of the next request arrived."""
    held_bytes: int = 0
    """Of the body of that question."""
    abort: Callable[[], object] = lambda: None

    @property
    def heard_s(self) -> float:
        """When it came, was answered, or began to ask."""
        return self.since_s if self.began_s is None else self.began_s

    def overdue(self, now_s: float, bounds: Bounds) -> bool:
        """Whether it has been waited for long enough."""
        if self.busy:
            return False
        if self.began_s is not None or not self.answered:
            return now_s - self.heard_s > bounds.head_s
        return now_s - self.since_s > bounds.idle_s


class _Watched(asyncio.Protocol):
    """aiohttp's protocol, and beside it the times of its connection."""

    def __init__(self, inner: asyncio.Protocol, connection: _Connection, door: _Door) -> None:
        self._inner = inner
        self._connection = connection
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.since_s = self._door.now_s()
        self._connection.abort = transport.abort  # type: ignore[attr-defined]
        self._door.by_protocol[self._inner] = self._connection
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        if connection.began_s is None and not connection.busy:
            connection.began_s = self._door.now_s()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.left(self._connection)
        self._door.by_protocol.pop(self._inner, None)
        self._inner.connection_lost(exc)


class _Door:
    """The open connections, and which new ones are admitted."""

    def __init__(self, bounds: Bounds, now_s: Callable[[], float]) -> None:
        self.bounds = bounds
        self.now_s = now_s
        self.by_protocol: dict[asyncio.BaseProtocol, _Connection] = {}
        self._inside: dict[_Connection, None] = {}
        """The oldest first."""
        self._addresses: Counter[str] = Counter()
        self._held_bytes = 0
        self._told_s = -_TELL_EVERY_S

    def _crowded(self, address: str) -> bool:
        return self._addresses.get(address, 0) >= self.bounds.per_address

    def room(self, address: str) -> bool:
        """Whether a client can be admitted without closing another connection."""
        return len(self._inside) < self.bounds.connections and not self._crowded(address)

    def enter(self, address: str, grace_s: float) -> _Connection | None:
        """A place for a client, perhaps that of one that has been idle long enough; None if there is none."""
        if not self.room(address):
            leaving = self._dispensable(address if self._crowded(address) else None, grace_s)
            if not grace_s or leaving is not None:
                self._tell()
            if leaving is None:
                return None
            self.left(leaving)
            leaving.abort()
        entered = _Connection(address, self.now_s())
        self._inside[entered] = None
        self._addresses[address] += 1
        return entered

    def _dispensable(self, address: str | None, grace_s: float) -> _Connection | None:
        """The one that is waited for longest, of this address or of the one that holds most; bodies come last."""
        before_s = self.now_s() - grace_s
        awaited = [
            each
            for each in self._inside
            if (each.reading or not each.busy) and address in (None, each.address) and each.heard_s <= before_s
        ]
        return min(awaited, key=lambda each: (each.busy, -self._addresses[each.address], each.heard_s), default=None)

    def left(self, connection: _Connection) -> None:
        """The place is free; may be said twice."""
        if connection not in self._inside:
            return
        del self._inside[connection]
        self._addresses[connection.address] -= 1
        if not self._addresses[connection.address]:
            del self._addresses[connection.address]

    def sweep(self) -> None:
        """End what has been waited for long enough."""
        now_s = self.now_s()
        for connection in [each for each in self._inside if each.overdue(now_s, self.bounds)]:
            self.left(connection)
            connection.abort()

    @contextmanager
    def reading(self, request: web.Request) -> Iterator[None]:
        """While the body of a request is on its way, the caller may have to make room for another."""
        connection = self.by_protocol.get(request.protocol)
        if connection is None:
            raise ConnectionResetError("the caller has gone")
        connection.reading = True
        try:
            yield
        finally:
            connection.reading = False

    def hold(self, request: web.Request, size: int) -> bool:
        """Whether there is room for a body of so many bytes; they count until the request is answered."""
        connection = self.by_protocol.get(request.protocol)
        if connection is None:
            raise ConnectionResetError("the caller has gone")
        more = size - connection.held_bytes
        if self._held_bytes + more > self.bounds.bodies_bytes:
            self._tell()
            return False
        self._held_bytes += more
        connection.held_bytes = size
        return True

    def _tell(self) -> None:
        if self.now_s() - self._told_s >= _TELL_EVERY_S:
            self._told_s = self.now_s()
            held = {"connections": len(self._inside), "addresses": len(self._addresses), "bytes": self._held_bytes}
            log.warning("too many callers at once, some are turned away", **held)

    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, and mark its connection as busy meanwhile."""
        connection = self.by_protocol.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.busy, connection.began_s = True, None
        try:
            return await handler(request)
        finally:
            self._held_bytes -= connection.held_bytes
            connection.held_bytes = 0
            connection.busy = connection.reading = False
            connection.answered, connection.since_s = True, self.now_s()


_DOOR = web.AppKey("door", _Door)


async def read_body(request: web.Request) -> bytes:
    """The body of a request, within the bounds of its server; `BodyError` if it is not taken.

    The bytes count until the request is answered.
    """
    door = request.config_dict[_DOOR]
    bounds = door.bounds
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BodyError(415, "compressed bodies are not taken; send it as it is")
    parts: list[bytes] = []
    size = 0
    try:
        with door.reading(request):
            async with asyncio.timeout(bounds.body_s):
                async for part in request.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > bounds.body_bytes:
                        raise BodyError(413, f"the body is larger than {bounds.body_bytes} bytes")
                    if size > _SMALL_BYTES and not door.hold(request, size):
                        raise BodyError(503, f"no room: all bodies may have {bounds.bodies_bytes} bytes; try again")
    except TimeoutError:
        raise BodyError(408, f"the body did not arrive within {bounds.body_s:g} s") from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BodyError(400, f"the body cannot be read: {' '.join(str(error).split())}") from None
    return b"".join(parts)


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    *,
    bounds: Bounds | None = None,
    flag: str = "--listen",
) -> AsyncIterator[str]:
    """Serve until the end of the block, which gets the URL. Port 0 picks a free one; `ListenError` if it fails."""
    try:
        listeners = await _listeners(host, port)
    except OSError as error:
        raise ListenError(_refusal(f"{flag} {host}:{port}", error)) from None
    try:
        async with _answering(app, bounds or Bounds()) as (runner, door), _accepting(listeners, runner, door, tls):
            found, number = listeners[0].getsockname()[:2]
            shown = f"[{found}]" if ":" in found else found
            yield f"{'http' if tls is None else 'https'}://{shown}:{number}"
    finally:
        for listener in listeners:
            listener.close()


@asynccontextmanager
async def _answering(app: web.Application, bounds: Bounds) -> AsyncIterator[tuple[web.AppRunner, _Door]]:
    door = app[_DOOR] = _Door(bounds, asyncio.get_running_loop().time)
    app.middlewares.insert(0, _at_the_door)
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=bounds.stop_s,
        keepalive_timeout=bounds.idle_s,
        read_bufsize=bounds.buffer_bytes,
        auto_decompress=False,  # a few bytes could become very many
        lingering_time=1.0,
    )
    await runner.setup()
    try:
        yield runner, door
    finally:
        await runner.cleanup()


@web.middleware
async def _at_the_door(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await request.config_dict[_DOOR].handle(request, handler)


async def _listeners(host: str, port: int) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            listener = socket.create_server(address, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            listeners.append(listener)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


@dataclass(slots=True)
class _Acceptance:
    """Takes connections in, each in a task of its own until its handshake is over."""

    runner: web.AppRunner
    door: _Door
    tls: ssl.SSLContext | None
    greeting: set[asyncio.Task[None]] = field(default_factory=set)
    waiting: int = 0
    """Callers without a place yet."""

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, peer = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno != errno.ECONNABORTED:
                    self.door.sweep()
                    await asyncio.sleep(_EXHAUSTED_PAUSE_S)
                continue
            connected.setblocking(False)
            task = loop.create_task(self._welcome(connected, str(peer[0])))
            self.greeting.add(task)
            task.add_done_callback(self.greeting.discard)

    async def _welcome(self, connected: socket.socket, address: str) -> None:
        connection = None
        try:
            connection = await self._place(address)
        finally:
            if connection is None:
                connected.close()
        if connection is not None:
            connection.abort = partial(_hang_up, connected)
            await self._greet(connected, connection)

    async def _place(self, address: str) -> _Connection | None:
        """A place, at once or when one is left; at the end of the grace that of another; None if all are answered."""
        door, bounds = self.door, self.door.bounds
        if self.waiting >= bounds.connections // 2:
            return door.enter(address, 0.0)
        if (found := door.enter(address, bounds.grace_s)) is not None:
            return found
        until_s = door.now_s() + bounds.grace_s
        self.waiting += 1
        try:
            while not door.room(address) and door.now_s() < until_s:  # noqa: ASYNC110 (an event would wake all of them)
                await asyncio.sleep(_LOOK_S)
        finally:
            self.waiting -= 1
        return door.enter(address, 0.0)

    async def _greet(self, connected: socket.socket, connection: _Connection) -> None:
        server = self.runner.server
        if server is None:
            connected.close()
            return
        timeout_s = self.door.bounds.handshake_s if self.tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Watched(server(), connection, self.door),
                connected,
                ssl=self.tls,
                ssl_handshake_timeout=timeout_s,
                ssl_shutdown_timeout=timeout_s,
            )
        except BaseException as error:
            self.door.left(connection)
            _hang_up(connected)
            if not isinstance(error, OSError):
                raise

    async def sweep(self) -> None:
        """End what has been waited for long enough, from time to time."""
        bounds = self.door.bounds
        while True:
            await asyncio.sleep(min(1.0, bounds.head_s / 4, bounds.idle_s / 4))
            self.door.sweep()


@asynccontextmanager
async def _accepting(
    listeners: list[socket.socket], runner: web.AppRunner, door: _Door, tls: ssl.SSLContext | None
) -> AsyncIterator[None]:
    acceptance = _Acceptance(runner, door, tls)
    tasks = [asyncio.create_task(acceptance.accept(listener)) for listener in listeners]
    tasks.append(asyncio.create_task(acceptance.sweep()))
    try:
        yield
    finally:
        ending = [*tasks, *acceptance.greeting]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for listener in listeners:
            listener.close()


def _hang_up(connected: socket.socket) -> None:
    """End a connection whose transport may be in the making.

    That closes the socket when it reads the end. Closed here, its number could be another caller's by the time that the
    transport begins to read, and that client would never be answered.
    """
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _refusal(where: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where}: cannot listen there: the port is taken; choose another one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: cannot listen there: this machine does not have the address; choose another one, or 0.0.0.0"
    return f"{where}: cannot listen there: {error.strerror or error}; choose another address or port"
