"""Connections for short requests: HTTP/1.1 with keep-alive, spoken over sockets that the event loop watches directly.

Why not the HTTP library that watches use: a profile on the real API server showed that two thirds of the scheduler's
CPU went through its layers, twice per pod (docs/performance.md). What is left here is one write and one read per
request.

Invariants:
- A connection carries one exchange at a time. After an error, a timeout or a cancelled exchange it is closed, never
  used again.
- What was sent is never sent twice, except a read on a kept connection that the server had closed meanwhile.
- A TLS session is resumed with the server, the trust and the certificate that it was made with only.
- Sockets belong to the event loop; closing the pool closes them all, and ends every exchange that waits for a response.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moorage.adapters.kube.errors import Timeout, Unreachable, Untrusted
from moorage.adapters.kube.httpanswer import AnswerReader, BadAnswerError, HttpAnswer
from moorage.adapters.kube.transport import CONNECT_TIMEOUT_S, KEEP_ALIVE_S, READS

# A server that is down may swallow what is sent to it; the name's other addresses must get their turn in time to renew
# a lease.
NEXT_ADDRESS_S = 2.0
_PIECE_BYTES = 1 << 18
"""More than a TLS record holds: of one that is read in part, the rest would not make the socket readable again."""
_CLOSED = "closed by this process"

Origin = tuple[str, int, ssl.SSLContext | None, str | None]
"""Host, port, how to speak TLS (None: in the clear), and the name that the server's certificate must bear."""


class Message(NamedTuple):
    """A request as bytes. `check`, if any, is called when it is about to be written, and raises to keep it back."""

    method: str
    head: bytes
    body: bytes | None
    check: Callable[[], None] | None = None


class LostError(Exception):
    """The connection ended before the answer did. `unheard`: not a byte of an answer came."""

    def __init__(self, why: str, *, unheard: bool) -> None:
        super().__init__(why)
        self.unheard = unheard


class Connection:
    """One connection; made by `connect`."""

    __slots__ = (
        "_answer",
        "_loop",
        "_reader",
        "_rest",
        "_socket",
        "_writing",
        "closed",
        "deadline_s",
        "idle_since_s",
        "used",
    )

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.closed = False
        self.used = False
        """Whether an exchange was completed on it, so that the server may have closed it since."""
        self.idle_since_s = 0.0
        self.deadline_s = math.inf
        """When the answer must be there, by the loop's clock; the pool sees to it."""
        self._socket = sock
        self._loop = loop
        self._reader = AnswerReader()
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._rest: memoryview | None = None
        self._writing = False
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def resumed(self) -> bool:
        """Whether it goes on with the TLS session that it was opened with."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.session_reused)

    @property
    def session(self) -> ssl.SSLSession | None:
        """Its TLS session, which can be resumed once the server has said something."""
        return self._socket.session if isinstance(self._socket, ssl.SSLSocket) else None

    async def exchange(self, message: Message) -> HttpAnswer:
        """Send a request and wait for its answer. Raises LostError. Cancelled, it closes the connection."""
        if message.check is not None:
            message.check()
        answer: asyncio.Future[HttpAnswer]
        answer = self._answer = self._loop.create_future()
        self._reader.without_body = message.method == "HEAD"
        self._rest = memoryview(message.head + message.body if message.body else message.head)
        self._write()
        try:
            return await answer
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Drop the connection at once. Closing twice is fine."""
        if self.closed:
            return
        self.closed = True
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        if self._writing:
            self._loop.remove_writer(descriptor)
        self._socket.close()

    def lose(self, why: str) -> None:
        """Drop the connection, and fail the exchange that waits for a response."""
        unheard = not self._reader.begun
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LostError(why, unheard=unheard))

    def expire(self) -> None:
        """Drop the connection, and end the waiting exchange with TimeoutError."""
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TimeoutError())

    def _write(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._write)
            return
        except OSError as failure:
            self.lose(_reason(failure))
            return
        self._rest = None
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            piece = self._socket.recv(_PIECE_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError):
            return
        except OSError as failure:
            self.lose(_reason(failure))
            return
        if not piece:
            self._ended()
            return
        self._take(piece)

    def _take(self, piece: bytes) -> None:
        waiting = self._answer
        if waiting is None or waiting.done():
            self.close()  # no request is open
            return
        try:
            found = self._reader.feed(piece)
        except BadAnswerError as failure:
            self.lose(str(failure))
            return
        if found is None:
            return
        answer, stays = found
        self.used = True
        if not stays or not self._reader.reusable or self._rest is not None:
            self.close()
        waiting.set_result(answer)

    def _ended(self) -> None:
        answer = self._reader.end()
        if answer is not None and self._answer is not None and not self._answer.done():
            self.close()
            self._answer.set_result(answer)
            return
        self.lose("Server disconnected")


async def connect(origin: Origin, session: ssl.SSLSession | None = None) -> Connection:
    """Open a connection, if possible with a TLS session of an earlier one to the same origin. Raises Unreachable."""
    host, port, tls, name = origin
    loop = asyncio.get_running_loop()
    address = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        found = await _addresses(host, port)
    except (OSError, UnicodeError) as failure:
        text = f"{address}: the server's name is not known; check the field server of the kubeconfig"
        raise Unreachable(text) from failure
    failure_seen: OSError | None = None
    for others, (family, kind, protocol, _, where) in zip(range(len(found) - 1, -1, -1), found, strict=True):
        try:
            async with asyncio.timeout(NEXT_ADDRESS_S if others else None):
                sock = await _reached(socket.socket(family, kind, protocol), where)
            return Connection(sock if tls is None else await _secured(sock, tls, name or host, session), loop)
        except ssl.SSLCertVerificationError as failure:
            text = f"the server's certificate is not trusted: {failure.verify_message}; check certificate-authority"
            raise Untrusted(f"{address}: {text}") from failure
        except OSError as failure:
            failure_seen = failure
    reason = "no address" if failure_seen is None else _reason(failure_seen)
    text = f"{address}: cannot connect: {reason}; check the address, and that the server runs"
    raise Unreachable(text) from failure_seen


async def _addresses(host: str, port: int) -> Sequence[tuple[int, int, int, str, Any]]:
    """Where a host is. One that is an address already need not be looked up, which a thread has to do."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _reached(sock: socket.socket, where: tuple[object, ...]) -> socket.socket:
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


async def _secured(
    sock: socket.socket, tls: ssl.SSLContext, name: str, session: ssl.SSLSession | None
) -> ssl.SSLSocket:
    """Shake hands without ever blocking the loop. The socket given is part of the one returned."""
    loop = asyncio.get_running_loop()
    try:
        secured = tls.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False, session=session)
    except BaseException:
        sock.close()
        raise
    try:
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                await _once(secured.fileno(), loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _once(secured.fileno(), loop.add_writer, loop.remove_writer)
            else:
                return secured
    except BaseException:
        secured.close()
        raise


async def _once(descriptor: int, add: Callable[..., None], remove: Callable[[int], object]) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _reason(failure: OSError) -> str:
    if isinstance(failure, ssl.SSLError) or not failure.errno:
        return str(failure) or type(failure).__name__
    return os.strerror(failure.errno)


class ConnectionPool:
    """At most `limit` connections at once; if none is free, requests wait in order. Belongs to the loop it is made
    in.
    """

    def __init__(self, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._open: set[Connection] = set()
        self._opening = 0
        self._idle: dict[Origin, list[Connection]] = {}
        self._line: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        """Rings at the earliest deadline of all exchanges, or before. One for all: a timer each costs more."""
        self._session: tuple[Origin, ssl.SSLSession] | None = None
        """The TLS session that the next connection may resume: a whole handshake costs as much as ten requests."""
        self._closed = False

    async def exchange(self, origin: Origin, message: Message, timeout_s: float) -> HttpAnswer:
        """Send a request on a free connection, or on a new one. Raises LostError, TimeoutError and Unreachable."""
        deadline_s = self._loop.time() + timeout_s
        while not self._closed:
            connection = self._kept(origin)
            if connection is None:
                async with asyncio.timeout_at(deadline_s):
                    connection = await self._opened(origin)
            kept = connection.used
            self._set_deadline(connection, deadline_s)
            try:
                answer = await connection.exchange(message)
            except LostError as failure:
                if not (kept and failure.unheard and message.method in READS):
                    raise
            else:
                if not kept:
                    self._keep_session(origin, connection)
                return answer
            finally:
                connection.deadline_s = math.inf
                self._give_back(origin, connection)
        raise LostError(_CLOSED, unheard=True)

    def close(self) -> None:
        """Drop every connection, for good."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        for connection in list(self._open):
            connection.lose(_CLOSED)
        self._open.clear()
        self._idle.clear()
        while self._line:
            self._call_next()

    def _set_deadline(self, connection: Connection, deadline_s: float) -> None:
        connection.deadline_s = deadline_s
        if self._alarm is not None:
            if self._alarm.when() <= deadline_s:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(deadline_s, self._ring)

    def _ring(self) -> None:
        """End the exchanges whose time is over; the alarm is set anew for the others."""
        self._alarm = None
        now_s, next_s = self._loop.time(), math.inf
        for connection in list(self._open):
            if connection.deadline_s <= now_s:
                connection.expire()
            else:
                next_s = min(next_s, connection.deadline_s)
        if next_s < math.inf:
            self._alarm = self._loop.call_at(next_s, self._ring)

    def _kept(self, origin: Origin) -> Connection | None:
        """The connection that was used last, so that those beyond what is needed grow old."""
        idle = self._idle.get(origin)
        oldest_s = time.monotonic() - KEEP_ALIVE_S
        while idle:
            connection = idle.pop()
            if not connection.closed and connection.idle_since_s >= oldest_s:
                return connection
            connection.close()
            self._open.discard(connection)
        return None

    async def _opened(self, origin: Origin) -> Connection:
        self._forget_old()
        while not self._closed and len(self._open) + self._opening >= self._limit and not self._made_room():
            turn = self._loop.create_future()
            self._line.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._call_next()
                raise
            kept = self._kept(origin)
            if kept is not None:
                return kept
        if self._closed:
            raise LostError(_CLOSED, unheard=True)
        self._opening += 1
        try:
            connection = await self._connected(origin)
        except BaseException:
            self._opening -= 1
            self._call_next()  # the place is free again
            raise
        self._opening -= 1
        self._open.add(connection)
        return connection

    def _keep_session(self, origin: Origin, connection: Connection) -> None:
        """The first answer on a connection has come."""
        if self._session is None or self._session[0] != origin:
            session = connection.session
            self._session = None if session is None else (origin, session)

    async def _connected(self, origin: Origin) -> Connection:
        known = self._session
        session = None if known is None or known[0] != origin else known[1]
        resumed = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connection = await connect(origin, session)
            resumed = connection.resumed
        except TimeoutError as failure:
            raise Timeout(f"{origin[0]}:{origin[1]}: no answer in time") from failure
        finally:
            if session is not None and not resumed and self._session is known:
                self._session = None  # the server does not know it any more, or it is in the way
        if self._closed:
            connection.close()
            raise LostError(_CLOSED, unheard=True)
        return connection

    def _forget_old(self) -> None:
        """Close connections that have been idle for long, also those to servers or with credentials no longer in
        use.
        """
        oldest_s = time.monotonic() - KEEP_ALIVE_S
        for origin, idle in list(self._idle.items()):
            old = [each for each in idle if each.closed or each.idle_since_s < oldest_s]
            for connection in old:
                connection.close()
                idle.remove(connection)
                self._open.discard(connection)
            if not idle:
                del self._idle[origin]

    def _made_room(self) -> bool:
        """Close an idle connection, whatever its server."""
        for idle in self._idle.values():
            if idle:
                connection = idle.pop(0)
                connection.close()
                self._open.discard(connection)
                return True
        return False

    def _give_back(self, origin: Origin, connection: Connection) -> None:
        if connection.closed:
            self._open.discard(connection)
        else:
            connection.idle_since_s = time.monotonic()
            self._idle.setdefault(origin, []).append(connection)
        if self._line:
            self._call_next()

    def _call_next(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
