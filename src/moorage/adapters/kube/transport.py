"""The one-method edge to the network: a request goes out, a response comes back.

`Transport` is what the rest of the package knows; `AiohttpTransport` is the only module that knows aiohttp, so that
another HTTP library can take its place. HTTP/1.1 with a keep-alive pool: the API server's HTTP/2 gains nothing for
small requests, and Python's HTTP/2 stacks cost several times the CPU.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from moorage.adapters.kube.errors import ApiError, Timeout, Unreachable, Untrusted
from moorage.adapters.sessions import HttpSession
from moorage.core.values import dataclass

CONNECT_TIMEOUT_S = 10.0
# Shorter than the API server's own idle limit, so that a pooled connection is rarely found closed by the other side.
KEEP_ALIVE_S = 30.0
READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""
READ_BUFFER_BYTES = 1 << 20
HEADER_LIMIT_BYTES = 1 << 18


@dataclass(slots=True)  # not frozen: that would cost more than the rest of its making, twice per pod
class Request:
    """One HTTP request, made for one attempt. Code that passes it on may add a `check`; nothing else is ever
    changed.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    tls: ssl.SSLContext | None = None
    """None sends in the clear, for `http://` servers only."""
    tls_server_name: str | None = None
    timeout_s: float | None = None
    """Limit for the whole exchange, the body included."""
    silence_s: float | None = None
    """Limit between two pieces of the body."""
    check: Callable[[], None] | None = None
    """Called when the first byte of a request with a body is about to go out, on a connection that is there; raises an
    ApiError to keep it back."""


class Response(Protocol):
    """An answer whose body has not been read yet. Read it whole, or close it."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-ups ignore case."""

    async def read(self) -> bytes:
        """Read the whole body and give the connection back."""

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, in pieces of any size."""

    def close(self) -> None:
        """Drop the connection. Harmless after the body was read."""


class Transport(Protocol):
    """What the client needs of the network. Called once per attempt; raises Unreachable or Timeout, nothing else."""

    async def send(self, request: Request) -> Response:
        """Send the request and wait for status and headers."""


async def read_bounded(response: Response, limit_bytes: int) -> bytes:
    """Read the body of a stranger's answer, but no more than `limit_bytes`: an ApiError says that there is more."""
    parts: list[bytes] = []
    left = limit_bytes
    async with contextlib.aclosing(response.pieces()) as pieces:
        async for piece in pieces:
            left -= len(piece)
            if left < 0:
                response.close()
                raise ApiError(f"the answer is longer than {limit_bytes} bytes")
            parts.append(piece)
    return b"".join(parts)


class _AiohttpResponse:
    """Adapts aiohttp's response and its exceptions."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as failure:
            self._response.close()
            raise _translated(failure, str(self._response.url)) from failure

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (TimeoutError, aiohttp.ClientError, OSError) as failure:
            raise _translated(failure, str(self._response.url)) from failure

    def close(self) -> None:
        # A watch is dropped in the middle of its body. Ending TLS politely would wait for the server to answer, and
        # keep the socket for as long.
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


class AiohttpTransport:
    """The transport over one aiohttp session. Create it inside the event loop that uses it; close it there too."""

    def __init__(self, *, connections: int = 256) -> None:
        self._http = HttpSession(
            {"limit": connections, "keepalive_timeout": KEEP_ALIVE_S, "ttl_dns_cache": 30},
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept"),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=HEADER_LIMIT_BYTES,
            max_field_size=HEADER_LIMIT_BYTES,
        )

    async def send(self, request: Request) -> Response:
        """Send the request and wait for status and headers."""
        timeout = aiohttp.ClientTimeout(
            total=request.timeout_s, sock_connect=CONNECT_TIMEOUT_S, sock_read=request.silence_s
        )
        try:
            response = await self._http.client.request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=_content(request),
                ssl=request.tls if request.tls is not None else True,
                server_hostname=request.tls_server_name,
                allow_redirects=False,
                timeout=timeout,
            )
        except (TimeoutError, aiohttp.ClientError, OSError) as failure:
            raise _translated(failure, request.url) from failure
        return _AiohttpResponse(response)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()


class _CheckedBody(aiohttp.BytesPayload):
    """Asks before it lets itself be written. The headers go out together with it, so nothing has gone out by then."""

    def __init__(self, body: bytes, check: Callable[[], None], content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._check = check

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


def _content(request: Request) -> bytes | _CheckedBody | None:
    if request.check is None or not request.body:
        return request.body
    return _CheckedBody(request.body, request.check, request.headers.get("Content-Type", "application/json"))


def _translated(failure: Exception, url: str) -> ApiError:
    """Say in one line what happened to the connection."""
    if isinstance(failure.__cause__, ApiError):
        return failure.__cause__  # of the request's own check
    server = str(URL(url, encoded=True).origin())
    if isinstance(failure, aiohttp.ClientConnectorCertificateError):
        cause = failure.certificate_error
        text = getattr(cause, "verify_message", "") or str(cause)
        return Untrusted(f"{server}: the server's certificate is not trusted: {text}; check certificate-authority")
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return Unreachable(f"{server}: the server's name is not known; check the field server of the kubeconfig")
    if isinstance(failure, TimeoutError):
        return Timeout(f"{server}: no answer in time")
    if isinstance(failure, aiohttp.ClientConnectorError):
        cause = failure.os_error
        reason = os.strerror(cause.errno) if cause.errno else str(cause)
        return Unreachable(f"{server}: cannot connect: {reason}; check the address, and that the server runs")
    return Unreachable(f"{server}: connection lost: {str(failure) or type(failure).__name__}")
