"""Plain HTTP for processes in a pod: metrics on one address, health on another.

The pages hold no secrets, and the kubelet and Prometheus request them without credentials, so there is no TLS. It
shares the event loop with what it reports on, on purpose: a loop that hangs does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from moorage.adapters.listening import Bounds, listening

_BOUNDS = Bounds(connections=64, per_address=32)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Probes:
    """Where to listen (None: nowhere), and where the answers come from, which must not block."""

    metrics_at: Address | None
    health_at: Address | None
    unready: Callable[[], str]
    """Why the process is not ready, in one line; empty when it is."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Accept header -> text and content type."""


@asynccontextmanager
async def probed(probes: Probes) -> AsyncIterator[dict[str, str]]:
    """Serve until the end of the block, which gets the URLs of `metrics` and `health`, as far as they are served."""
    urls: dict[str, str] = {}
    async with AsyncExitStack() as servers:
        for name, address, app in (
            ("metrics", probes.metrics_at, _metrics(probes)),
            ("health", probes.health_at, _health(probes)),
        ):
            if address is not None:
                served = listening(app, *address, bounds=_BOUNDS, flag=f"--{name}-listen")
                urls[name] = await servers.enter_async_context(served)
        yield urls


def _metrics(probes: Probes) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        content, content_type = probes.metrics(request.headers.get("Accept", ""))
        return web.Response(body=content, headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def _health(probes: Probes) -> web.Application:
    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        reason = probes.unready()
        return web.Response(status=503, text=f"not ready: {reason}\n") if reason else web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/healthz", alive)
    app.router.add_get("/livez", alive)
    app.router.add_get("/readyz", ready)
    return app
