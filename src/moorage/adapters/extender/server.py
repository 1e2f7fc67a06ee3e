"""The extender's HTTP server: four questions, health, readiness, metrics.

Whoever is not ready (caches not filled, or another replica is active) refuses questions with 503 and closes the
connection, so that a caller that kept it open finds its way to the active one. Bad questions get 400 and one line that
says what is wrong. Where client certificates are verified, callers without one get 403 before their body is read; binds
are carried out for certified callers only, and only where the configuration allows them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web

from moorage.adapters.certificates import Callers
from moorage.adapters.extender.desk import Desk
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.listening import BodyError, Bounds, read_body
from moorage.engine.extending import PluginFault
from moorage.wire.extender_questions import QuestionError

_STOP_S = 3.0
_CONNECTIONS = 128
"""kube-scheduler has a few, probes and Prometheus one each."""
_READ_BUFFER_BYTES = 4 << 20
_BIND = "bind"
_FIELDS = {408: " (requestTimeout)", 413: " (maxBodyBytes)", 503: " (maxBodyBytes)"}
"""What the configuration calls the limits."""

Answer = Callable[[bytes], Awaitable[bytes]]

log = structlog.get_logger()


def bounds_of(body_bytes: int, read_s: float) -> Bounds:
    """What callers may hold: a body of so many bytes at a time, or several smaller ones, read within `read_s`."""
    return Bounds(
        connections=_CONNECTIONS,
        per_address=_CONNECTIONS * 3 // 4,
        body_s=read_s,
        body_bytes=body_bytes,
        bodies_bytes=body_bytes,
        buffer_bytes=_READ_BUFFER_BYTES,
        stop_s=_STOP_S,
    )


@dataclass(frozen=True, slots=True)
class Sources:
    """Where answers come from that are not the desk's. Called in the event loop; must not block."""

    unready: Callable[[], str]
    """Why questions are not answered, in one line; empty when they are."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Accept header -> text and content type."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Who is heard, and whether binds are carried out."""

    callers: Callers = field(default_factory=Callers)
    binds: bool = False

    def refusal(self, verb: str, peer: Any) -> str:
        """Why a caller with this certificate is not heard; empty if he is."""
        if verb == _BIND and not self.callers.certified:
            return "binds are carried out for callers with a client certificate only; start with --client-ca-file"
        return self.callers.refusal(peer)


def application(
    desk: Desk, sources: Sources, metrics: ExtenderMetrics, rights: Rights | None = None
) -> web.Application:
    """All endpoints."""
    app = web.Application()

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
    }
    rights = rights or Rights()
    if rights.binds:
        verbs[_BIND] = desk.bind
    for verb, answer in verbs.items():
        question = _Question(verb, answer, sources, metrics, rights)
        app.router.add_post(f"/{verb}", question.handle)
    return app


@dataclass(frozen=True, slots=True)
class _Question:
    """One of the endpoints that kube-scheduler calls."""

    verb: str
    answer: Answer
    sources: Sources
    metrics: ExtenderMetrics
    rights: Rights

    async def handle(self, request: web.Request) -> web.Response:
        began_s = time.monotonic()
        response = await self._respond(request)
        self.metrics.answered(self.verb, response.status, time.monotonic() - began_s)
        return response

    async def _respond(self, request: web.Request) -> web.Response:
        stranger = self.rights.refusal(self.verb, request.get_extra_info("peercert"))
        if stranger:
            return self._refuse(403, stranger)
        reason = self.sources.unready()
        if reason:
            return self._refuse(503, reason)
        try:
            body = await read_body(request)
        except BodyError as error:
            return self._refuse(error.status, f"{error}{_FIELDS.get(error.status, '')}", headers=error.headers)
        try:
            return web.Response(body=await self.answer(body), content_type="application/json")
        except QuestionError as error:
            return self._refuse(400, str(error), keep=True)
        except PluginFault as error:
            log.warning("a plugin failed", verb=self.verb, error=str(error))
            return self._refuse(500, str(error), keep=True)

    def _refuse(
        self, status: int, reason: str, *, keep: bool = False, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        response = web.Response(status=status, text=f"POST /{self.verb}: {reason}\n", headers=headers)
        if not keep:
            response.force_close()
        return response
