"""The extender's HTTP server: four questions, health, readiness, metrics.

Whoever is not ready (caches not filled, or another replica is active) refuses questions with 503 and closes the
connection, so that a caller that kept it open finds its way to the active one. Bad questions get 400 and one line that
says what is wrong.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from aiohttp import web

from moorage.adapters.extender.desk import Desk
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.engine.extending import PluginFault
from moorage.wire.extender_questions import QuestionError

STOP_S = 3.0
"""How long requests may take to finish when the server stops."""
_READ_BUFFER_BYTES = 4 << 20
"""Large bodies come in large pieces."""

Answer = Callable[[bytes], Awaitable[bytes]]

log = structlog.get_logger()


class ListenError(Exception):
    """The server cannot start; the text is one line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost."""

    body_bytes: int = 128 << 20
    read_s: float = 5.0
    """How long a body may take to arrive."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where answers come from that are not the desk's. Called in the event loop; must not block."""

    unready: Callable[[], str]
    """Why questions are not answered, in one line; empty when they are."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Accept header -> text and content type."""


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve until the end of the block, which gets the URL. Port 0 picks a free one; `ListenError` if it fails."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S, read_bufsize=_READ_BUFFER_BYTES)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as error:
            raise ListenError(_refusal(host, port, error)) from None
        found, number = runner.addresses[0][:2]
        shown = f"[{found}]" if ":" in found else found
        yield f"{'http' if tls is None else 'https'}://{shown}:{number}"
    finally:
        await runner.cleanup()


def application(desk: Desk, sources: Sources, metrics: ExtenderMetrics, limits: Limits) -> web.Application:
    """All endpoints."""
    app = web.Application(client_max_size=limits.body_bytes)

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        reason = sources.unready()
        return web.Response(status=503, text=f"{reason}\n") if reason else web.Response(text="ok")

    async def page(request: web.Request) -> web.Response:
        content, content_type = sources.metrics(request.headers.get("Accept", ""))
        return web.Response(body=content, headers={"Content-Type": content_type})

    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", page)
    verbs: dict[str, Answer] = {
        "filter": desk.filter,
        "prioritize": desk.prioritize,
        "preempt": desk.preempt,
        "bind": desk.bind,
    }
    for verb, answer in verbs.items():
        question = _Question(verb, answer, sources, metrics, limits)
        app.router.add_post(f"/{verb}", question.handle)
    return app


@dataclass(frozen=True, slots=True)
class _Question:
    """One of the endpoints that kube-scheduler calls."""

    verb: str
    answer: Answer
    sources: Sources
    metrics: ExtenderMetrics
    limits: Limits

    async def handle(self, request: web.Request) -> web.Response:
        began_s = time.monotonic()
        response = await self._respond(request)
        self.metrics.answered(self.verb, response.status, time.monotonic() - began_s)
        return response

    async def _respond(self, request: web.Request) -> web.Response:
        reason = self.sources.unready()
        if reason:
            return self._refuse(503, reason)
        try:
            body = await asyncio.wait_for(request.read(), self.limits.read_s)
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"the body is larger than {self.limits.body_bytes} bytes (maxBodyBytes)")
        except TimeoutError:
            return self._refuse(408, f"the body did not arrive within {self.limits.read_s:g} s (requestTimeout)")
        except (web.RequestPayloadError, ConnectionResetError) as error:
            return self._refuse(400, f"the body cannot be read: {' '.join(str(error).split())}")
        try:
            return web.Response(body=await self.answer(body), content_type="application/json")
        except QuestionError as error:
            return self._refuse(400, str(error), keep=True)
        except PluginFault as error:
            log.warning("a plugin failed", verb=self.verb, error=str(error))
            return self._refuse(500, str(error), keep=True)

    def _refuse(self, status: int, reason: str, *, keep: bool = False) -> web.Response:
        response = web.Response(status=status, text=f"POST /{self.verb}: {reason}\n")
        if not keep:
            response.force_close()
        return response


def _refusal(host: str, port: int, error: OSError) -> str:
    where = f"--listen {host}:{port}: cannot listen there"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; choose another one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this machine does not have the address; choose another one, or 0.0.0.0 for all"
    return f"{where}: {error.strerror or error}; choose another address or port"
