"""The webhook's HTTPS server: one question, `POST /mutate`; and `POST /decide`, the same asked by another replica.

A fault of ours gets 500, which the API server passes over because of `failurePolicy: Ignore`: a pod never waits for it.
Connections are kept for longer than the API server keeps them idle, so that it is never surprised by one that closes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from moorage.adapters.certificates import Callers
from moorage.adapters.listening import Bounds
from moorage.adapters.questions import Endpoint
from moorage.adapters.webhook.elder import DECIDE_PATH
from moorage.adapters.webhook.metrics import PATH, WebhookMetrics

BOUNDS = Bounds(
    connections=512,  # an API server opens one for every question that is under way
    per_address=384,
    grace_s=3.0,  # probes come to another port, so there is time for API servers that come all at once
    idle_s=300.0,
    body_bytes=16 << 20,  # a pod is at most 1.5 MB on the server; a question repeats it once, with escapes
    bodies_bytes=64 << 20,
    stop_s=2.0,
)

ANYBODY = Callers()

Mutate = Callable[[bytes, bool], Awaitable[bytes]]
"""The body of a review, and whether the caller is authenticated -> the body of the response."""


def application(
    mutate: Mutate,
    metrics: WebhookMetrics,
    callers: Callers = ANYBODY,
    unready: Callable[[], str] = lambda: "",
) -> web.Application:
    """The endpoints. `unready` says why other replicas cannot be answered now; empty if they can."""
    app = web.Application()
    for endpoint in (
        Endpoint(
            PATH,
            lambda body, peer: mutate(body, callers.knows(peer)),
            callers.refusal,
            metrics.answered,
            metrics.began,
        ),
        Endpoint(
            DECIDE_PATH,
            lambda body, peer: mutate(body, callers.knows(peer)),
            callers.refusal,
            lambda *_: None,  # the replica that the API server has called counts it
            unready=unready,
        ),
    ):
        app.router.add_post(endpoint.path, endpoint.handle)
    return app
