"""Plain HTTP for processes in a pod: metrics on one address, health on another.

The pages hold no secrets, and the kubelet and Prometheus request them without credentials, so there is no TLS. It
shares the event loop with what it reports on, on purpose: a loop that hangs does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from moorage.adapters.listening import Bounds, listening
from moorage.adapters.probing import Render, health_routes, page
from moorage.core.values import dataclass

_BOUNDS = Bounds(connections=64, per_address=32)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Probes:
    """Where to listen (None: nowhere), and where the answers come from, which must not block."""

    metrics_at: Address | None
    health_at: Address | None
    unready: Callable[[], str]
    """Why the process is not ready, in one line; empty when it is."""
    metrics: Render


@asynccontextmanager
async def probed(probes: Probes) -> AsyncIterator[dict[str, str]]:
    """Serve until the end of the block, which gets the URLs of `metrics` and `health`, as far as they are served."""
    urls: dict[str, str] = {}
    async with AsyncExitStack() as servers:
        for name, address, app in (
            ("metrics", probes.metrics_at, _served(web.get("/metrics", page(probes.metrics)))),
            ("health", probes.health_at, _served(*health_routes(probes.unready))),
        ):
            if address is not None:
                served = listening(app, *address, bounds=_BOUNDS, flag=f"--{name}-listen")
                urls[name] = await servers.enter_async_context(served)
        yield urls


def _served(*routes: web.RouteDef) -> web.Application:
    app = web.Application()
    app.add_routes(routes)
    return app
