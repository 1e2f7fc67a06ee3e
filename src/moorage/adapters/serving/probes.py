"""Plain HTTP for processes in a pod: metrics on one address, health on another.

Nobody's secrets are told, and the kubelet and Prometheus ask without credentials, so there is no TLS. It shares the
event loop with what it reports on, on purpose: a loop that hangs does not answer.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

STOP_S = 1.0
"""How long requests may take to finish when the server stops."""

Address = tuple[str, int]


class ProbeError(Exception):
    """An address cannot be listened on; the text is one line."""


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
    runners: list[web.AppRunner] = []
    urls: dict[str, str] = {}
    try:
        for name, address, app in (
            ("metrics", probes.metrics_at, _metrics(probes)),
            ("health", probes.health_at, _health(probes)),
        ):
            if address is not None:
                runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S)
                runners.append(runner)
                urls[name] = await _start(runner, name, address)
        yield urls
    finally:
        for runner in runners:
            await runner.cleanup()


async def _start(runner: web.AppRunner, name: str, address: Address) -> str:
    host, port = address
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        why = "the port is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise ProbeError(
            f"--{name}-listen {host}:{port}: cannot listen there ({why}); choose another address"
        ) from None
    found, number = runner.addresses[0][:2]
    return f"http://[{found}]:{number}" if ":" in found else f"http://{found}:{number}"


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
