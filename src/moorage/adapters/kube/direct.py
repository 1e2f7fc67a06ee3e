"""The transport of the client: short requests over connections of our own, watches over aiohttp.

A scheduler sends two requests per pod, which is where its CPU time goes; it has a dozen watches, which bring many
objects in every piece and need a library that copes with whatever stands between us and the server.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

from moorage.adapters.kube.connections import ConnectionPool, LostError, Message
from moorage.adapters.kube.errors import Timeout, Unreachable
from moorage.adapters.kube.httpanswer import HttpAnswer
from moorage.adapters.kube.transport import AiohttpTransport, Request, Response


class _WholeResponse:
    """An answer that has been read already."""

    __slots__ = ("_answer", "status")

    def __init__(self, answer: HttpAnswer) -> None:
        self._answer = answer
        self.status: int = answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def read(self) -> bytes:
        return self._answer.body

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self._answer.body

    def close(self) -> None:
        """Nothing is open."""


class DirectTransport:
    """Create it inside the event loop that uses it; close it there too."""

    def __init__(self, *, connections: int = 256) -> None:
        self._pool = ConnectionPool(connections)
        self._connections = connections
        self._streams: AiohttpTransport | None = None
        self._places: dict[str, tuple[str, str, int]] = {}
        """Beginning of a URL -> its scheme, host and port."""
        self._fields: tuple[Mapping[str, str], str] = ({}, "")
        """The latest headers, and how they are written; most requests have the same ones."""

    async def send(self, request: Request) -> Response:
        """Send the request and wait for the answer; of a watch, for status and headers."""
        if request.timeout_s is None or request.silence_s is not None:
            if self._streams is None:
                self._streams = AiohttpTransport(connections=self._connections)
            return await self._streams.send(request)
        server, target = _split(request.url)
        scheme, host, port = self._places.get(server) or self._placed(server)
        tls = None if scheme == "http" else request.tls or _system_trust()  # never in the clear unless asked for
        origin = (host, port, tls, request.tls_server_name)
        head = self._head(request, server[len(scheme) + 3 :], target)
        message = Message(request.method, head, request.body, request.check)
        try:
            answer = await self._pool.exchange(origin, message, request.timeout_s)
        except TimeoutError as failure:
            raise Timeout(f"{server}: no answer in time") from failure
        except LostError as failure:
            raise Unreachable(f"{server}: connection lost: {failure}") from failure
        return _WholeResponse(answer)

    async def aclose(self) -> None:
        """Close every connection."""
        self._pool.close()
        if self._streams is not None:
            await self._streams.aclose()

    def _head(self, request: Request, authority: str, target: str) -> bytes:
        known, fields = self._fields
        if known is not request.headers:
            fields = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
            self._fields = request.headers, fields
        length = "" if request.body is None else f"Content-Length: {len(request.body)}\r\n"
        return f"{request.method} {target} HTTP/1.1\r\nHost: {authority}\r\n{fields}{length}\r\n".encode()

    def _placed(self, server: str) -> tuple[str, str, int]:
        parts = urlsplit(server)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        place = self._places[server] = (parts.scheme, parts.hostname or "", port)
        return place


@functools.cache
def _system_trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _split(url: str) -> tuple[str, str]:
    """`https://host:1/path` -> its beginning up to the path, and the rest."""
    slash = url.find("/", url.find("://") + 3)
    return (url, "/") if slash < 0 else (url[:slash], url[slash:])
