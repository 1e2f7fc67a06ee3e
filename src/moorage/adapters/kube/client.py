"""Requests to the API server: paths and JSON in, JSON or a typed error out.

Invariants: an answer of 429 or 503 that says when to come back is tried again, within a bound; a 401 is tried again
once, with renewed credentials; nothing else is ever sent twice, because only the caller knows whether that is safe.
Waiting for the rate limit does not count as waiting for the server. Watches and leases are exempt from the rate limit:
the former are not requests that pile up, the latter must not be late. After `finish` no write goes out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlencode

import msgspec

from moorage.adapters.kube.credentials import Access, Credentials
from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.errors import ApiError, error_from_answer
from moorage.adapters.kube.limiter import RateLimiter
from moorage.adapters.kube.resources import LEASE_GROUP, Resource
from moorage.adapters.kube.transport import READS, Request, Response, Transport
from moorage.core.values import dataclass

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# JSON is YAML, and servers before 1.33 accept server-side apply under this name only.
APPLY_PATCH = "application/apply-patch+yaml"

DEFAULT_TIMEOUT_S = 30.0
RETRIES = 8
RETRY_BUDGET_S = 60.0
_LOOK_S = 0.01

Query = Mapping[str, str | int]


@dataclass(slots=True)  # not frozen: that would cost more than the rest of its making, twice per pod
class _Exchange:
    """One request as the retry loop sees it."""

    method: str
    url: str
    body: bytes | None
    content_type: str
    accept: str
    timeout_s: float | None
    silence_s: float | None = None
    limiter: RateLimiter | None = None
    retries: int = RETRIES
    check: Callable[[], None] | None = None


class KubeClient:
    """One API server, spoken to with one set of credentials. Belongs to the event loop it was made in."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = "moorage",
        transport: Transport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.credentials = credentials
        self._own_transport = DirectTransport() if transport is None else None
        self._transport: Transport = transport or self._own_transport  # type: ignore[assignment]
        self._limiter = RateLimiter(qps, burst, sleep=sleep)
        self._calm_limiter = RateLimiter(qps, burst, sleep=sleep)
        """For what must not use up the rate limit of the rest."""
        self._user_agent = user_agent
        self._sleep = sleep
        self._writing = 0
        """Writes that were sent and are not answered yet."""
        self._finishing = False
        self._told: set[str] = set()
        self._older: dict[tuple[str, str], Resource] = {}
        """By group and plural name: resources that the server has in an older version."""
        self._access: Access | None = None
        self._headers: dict[tuple[str, str], Mapping[str, str]] = {}
        """By what is accepted and what is sent; for this access."""

    @property
    def server(self) -> str:
        """Address of the API server, for messages."""
        return self.credentials.server

    def tell_once(self, what: str) -> bool:
        """Whether this is to be told of the server: the first time only, however many find out at the same time."""
        news = what not in self._told
        self._told.add(what)
        return news

    def use(self, resource: Resource) -> None:
        """The server has the resource in this version."""
        self._older[resource.group, resource.plural] = resource

    def in_use(self, resource: Resource) -> Resource:
        """The resource in the version that the server has, as far as that is known."""
        return self._older.get((resource.group, resource.plural), resource)

    async def finish(self, timeout_s: float) -> None:
        """Let no more writes out, and wait for the answers to those that are, for `timeout_s` at most.

        Writes from now on wait until they are cancelled, as their result could not be known.
        """
        self._finishing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._writing:  # noqa: ASYNC110 - an event would cost something with every request
                    await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._own_transport is not None:
            await self._own_transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        limited: bool = True,
        calm: bool = False,
        retries: int = RETRIES,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        """Send one request and give the body of the answer. `timeout_s` is for each attempt, body included.

        Callers that cannot afford to wait when the server asks for it pass 0 `retries`. What is `calm` has a rate limit
        of its own.
        """
        url = self._url(path, query)
        limiter = None if not limited else self._calm_limiter if calm else self._limiter
        exchange = _Exchange(
            method, url, body, content_type, accept, timeout_s, limiter=limiter, retries=retries, check=check
        )
        return await (await self._answered(exchange)).read()

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query | None = None, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch: yields an iterator over the pieces of the body as they arrive, in any size.

        Raises Timeout when nothing arrives for `silence_s`. The connection is dropped at the end of the block.
        """
        exchange = _Exchange("GET", self._url(path, query), None, JSON, JSON, None, silence_s)
        response = await self._answered(exchange)
        pieces = response.pieces()
        try:
            yield pieces
        finally:
            await pieces.aclose()
            response.close()

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, query: Query | None = None
    ) -> bytes:
        """Read one object."""
        return await self._on(resource, "GET", resource.path(namespace, name), query=query)

    async def list(self, resource: Resource, namespace: str | None = None, *, query: Query | None = None) -> bytes:
        """Read a collection, or the page of it that `query` asks for."""
        return await self._on(resource, "GET", resource.path(namespace), query=query)

    async def create(
        self,
        resource: Resource,
        body: object,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        """Create an object, or post to a subresource such as `binding`. Bodies that are not bytes become JSON.

        `check` is called when the first byte is about to go out, and raises an ApiError to keep it back.
        """
        return await self._on(resource, "POST", resource.path(namespace, name, subresource), body=body, check=check)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Replace an object; a resourceVersion in it is a precondition."""
        return await self._on(resource, "PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        query: Query | None = None,
        calm: bool = False,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        """Patch an object: MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, or APPLY_PATCH (see `apply`).

        What is `calm` has a rate limit of its own, and is tried once. `check` as in `create`.
        """
        path = resource.path(namespace, name, subresource)
        return await self._on(
            resource, "PATCH", path, body=body, content_type=content_type, query=query, calm=calm, check=check
        )

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        field_manager: str,
        force: bool = False,
    ) -> bytes:
        """Server-side apply."""
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self.patch(resource, name, body, namespace, content_type=APPLY_PATCH, query=query)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_period_s: int | None = None,
    ) -> bytes:
        """Delete an object. With a `uid`, only if it is still that one (Conflict otherwise)."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        return await self._on(resource, "DELETE", resource.path(namespace, name), body=options)

    def _on(
        self,
        resource: Resource,
        method: str,
        path: str,
        *,
        body: object = None,
        content_type: str = JSON,
        query: Query | None = None,
        calm: bool = False,
        check: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, bytes]:
        encoded = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        return self.request(
            method,
            path,
            query=query,
            body=encoded,
            content_type=content_type,
            limited=resource.group != LEASE_GROUP,
            calm=calm,
            retries=0 if calm else RETRIES,
            check=check,
        )

    def _url(self, path: str, query: Query | None) -> str:
        url = self.credentials.server + path
        return f"{url}?{urlencode(query)}" if query else url

    async def _answered(self, exchange: _Exchange) -> Response:
        """Send until there is a good answer, or an error that waiting will not cure."""
        renewed = False
        waited_s, retries_left = 0.0, exchange.retries
        while True:
            if exchange.limiter is not None and exchange.limiter.limited:
                await exchange.limiter.acquire()
            access = await self.credentials.access()
            if exchange.method in READS:
                response = await self._transport.send(self._made(exchange, access))
            else:
                response = await self._written(self._made(exchange, access))
            if response.status < 300:
                return response
            error = error_from_answer(response.status, response.headers, await response.read())
            if response.status == 401 and not renewed and await self.credentials.renew(access):
                renewed = True
                continue
            pause_s = _pause_s(error)
            if pause_s is None or waited_s + pause_s > RETRY_BUDGET_S or not retries_left:
                raise error
            waited_s, retries_left = waited_s + pause_s, retries_left - 1
            await self._sleep(pause_s)

    async def _written(self, request: Request) -> Response:
        if self._finishing:
            await asyncio.get_running_loop().create_future()
        self._writing += 1
        try:
            return await self._transport.send(request)
        finally:
            self._writing -= 1

    def _made(self, exchange: _Exchange, access: Access) -> Request:
        return Request(
            exchange.method,
            exchange.url,
            self._headers_of(exchange, access),
            exchange.body,
            access.tls,
            self.credentials.tls_server_name,
            exchange.timeout_s,
            exchange.silence_s,
            exchange.check,
        )

    def _headers_of(self, exchange: _Exchange, access: Access) -> Mapping[str, str]:
        """The same value for like requests, so that a transport can keep what it makes of them."""
        if access is not self._access:
            self._access, self._headers = access, {}
        key = (exchange.accept, "" if exchange.body is None else exchange.content_type)
        headers = self._headers.get(key)
        if headers is None:
            sent = {} if exchange.body is None else {"Content-Type": exchange.content_type}
            headers = {"Accept": exchange.accept, "User-Agent": self._user_agent, **access.headers, **sent}
            self._headers[key] = headers
        return headers


def _pause_s(error: ApiError) -> float | None:
    """How long to wait before the next attempt; None if another attempt is not asked for."""
    return error.retry_after_s if error.status in {429, 503} else None
