"""What is served under which path. Every answer passes the gate first; paths that do not exist do so too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from moorage.adapters.probing import Render, page
from moorage.adapters.serving.access import Gate
from moorage.adapters.serving.health import Check, Health, ping
from moorage.adapters.serving.zpages import Component, flagz, statusz
from moorage.core.values import dataclass
from moorage.views.loglines import AS_IN_KUBERNETES

_STATUSZ_PATHS = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
_SHOWN = 100

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EndpointSources:
    """Where the answers come from. Each is called once per request, in the event loop, and must not block."""

    component: Component
    ready: Mapping[str, Check]
    """What has to be right before the component is ready, by name."""
    metrics: Render
    configuration: Callable[[], bytes]
    """The effective configuration as a JSON document."""
    resources: Callable[[], Render | None] = field(default=lambda: None)
    """Notes what `/metrics/resources` tells; the text is made in another thread. None: not ours to tell."""
    client_authority: Callable[[], Awaitable[str]] | None = None
    """The CAs (PEM) of accepted client certificates; raises LookupError if they cannot be found."""


def application(sources: EndpointSources, gate: Gate) -> web.Application:
    """The endpoints behind the gate."""
    app = web.Application(middlewares=[_guard(gate)])
    app.add_routes(_Endpoints(sources).routes())
    return app


def _guard(gate: Gate) -> Middleware:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        began_s = time.monotonic()
        response: web.StreamResponse | None = await gate.refusal(request)
        if response is None:
            try:
                response = await handler(request)
            except web.HTTPNotFound:
                response = web.Response(status=404, text="404 page not found\n")
        response.headers["Cache-Control"] = "no-cache, private"
        log.debug(
            "HTTP",
            verb=request.method,
            URI=request.path,
            latency=f"{(time.monotonic() - began_s) * 1000:.3f}ms",
            userAgent=request.headers.get("User-Agent", "")[:_SHOWN],
            srcIP=request.remote,
            resp=response.status,
            **AS_IN_KUBERNETES,
        )
        return response

    return guarded


class _Endpoints:
    """Everything but the gate."""

    def __init__(self, sources: EndpointSources) -> None:
        self._sources = sources
        self._health = Health({"healthz": {"ping": ping}, "livez": {"ping": ping}, "readyz": sources.ready})

    def routes(self) -> list[web.RouteDef]:
        return [
            *self._health.routes(),
            web.get("/metrics", page(self._sources.metrics)),
            web.get("/metrics/resources", self._resources),
            web.get("/metrics/slis", page(self._health.render)),
            web.get("/configz", self._configuration),
            web.get("/statusz", self._status),
            web.get("/flagz", self._flags),
        ]

    async def _resources(self, request: web.Request) -> web.Response:
        render = self._sources.resources()
        if render is None:
            return web.Response()
        content, content_type = await asyncio.to_thread(render, request.headers.get("Accept", ""))
        return web.Response(body=content, headers={"Content-Type": content_type})

    async def _configuration(self, _: web.Request) -> web.Response:
        return web.Response(body=self._sources.configuration(), content_type="application/json")

    async def _status(self, request: web.Request) -> web.Response:
        return statusz(request, self._sources.component, _STATUSZ_PATHS)

    async def _flags(self, request: web.Request) -> web.Response:
        return flagz(request, self._sources.component)
