"""The extender's HTTP server: four questions, health, readiness, metrics.

An extender whose caches are not filled, or that is a standby while another replica is active, is not ready and refuses
requests. Where client certificates are verified, callers without one are refused; binds are carried out for certified
callers only, and only where the configuration allows them.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any

from aiohttp import web

from moorage.adapters.certificates import Callers
from moorage.adapters.extender.handler import ExtenderHandler
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.listening import Bounds
from moorage.adapters.probing import Render, health_routes, page
from moorage.adapters.questions import Endpoint
from moorage.core.values import dataclass
from moorage.engine.extending import PluginFault

_STOP_S = 3.0
_CONNECTIONS = 128
"""kube-scheduler has a few, probes and Prometheus one each."""
_READ_BUFFER_BYTES = 4 << 20
_BIND = "bind"
_LIMITS = {408: " (requestTimeout)", 413: " (maxBodyBytes)", 503: " (maxBodyBytes)"}
"""What the configuration calls the limits."""

Answer = Callable[[bytes], Awaitable[bytes]]


def bounds_of(body_bytes: int, read_s: float) -> Bounds:
    """Limits for callers: one body of this size at a time, or several smaller ones, read within `read_s`."""
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
class ExtenderSources:
    """Where answers come from that are not the handler's. Called in the event loop; must not block."""

    unready: Callable[[], str]
    """Why questions are not answered, in one line; empty when they are."""
    metrics: Render


@dataclass(frozen=True, slots=True)
class Rights:
    """Which callers are answered, and whether binds are carried out."""

    callers: Callers = field(default_factory=Callers)
    binds: bool = False

    def refusal(self, verb: str, peer: Any) -> str:
        """Why a caller with this certificate is refused; empty if it is not."""
        if verb == _BIND and not self.callers.certified:
            return "binds are carried out for callers with a client certificate only; start with --client-ca-file"
        return self.callers.refusal(peer)


def application(
    handler: ExtenderHandler, sources: ExtenderSources, metrics: ExtenderMetrics, rights: Rights | None = None
) -> web.Application:
    """All endpoints."""
    app = web.Application()
    app.add_routes([*health_routes(sources.unready), web.get("/metrics", page(sources.metrics))])
    verbs: dict[str, Answer] = {
        "filter": handler.filter,
        "prioritize": handler.prioritize,
        "preempt": handler.preempt,
    }
    rights = rights or Rights()
    if rights.binds:
        verbs[_BIND] = handler.bind
    for verb, answer in verbs.items():
        endpoint = _endpoint(verb, answer, sources, metrics, rights)
        app.router.add_post(endpoint.path, endpoint.handle)
    return app


def _endpoint(
    verb: str, answer: Answer, sources: ExtenderSources, metrics: ExtenderMetrics, rights: Rights
) -> Endpoint:
    """One of the paths that kube-scheduler asks."""
    return Endpoint(
        f"/{verb}",
        lambda body, _: answer(body),
        functools.partial(rights.refusal, verb),
        functools.partial(metrics.answered, verb),
        unready=sources.unready,
        limits=_LIMITS,
        faults=(PluginFault,),
    )
