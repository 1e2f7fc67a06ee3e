"""The webhook's HTTPS server: one question, `POST /mutate`.

Bad questions get 400 and one line that says what is wrong, callers without the client certificate that is asked for
403; a fault of ours gets 500, which the API server passes over because of `failurePolicy: Ignore`. Connections are kept
for longer than the API server keeps them idle, so that it is never surprised by one that closes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web

from moorage.adapters.certificates import Callers
from moorage.adapters.listening import BodyError, Bounds, read_body
from moorage.adapters.webhook.metrics import PATH, WebhookMetrics
from moorage.wire.admission import ReviewError

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

log = structlog.get_logger()


Mutate = Callable[[bytes, bool], Awaitable[bytes]]
"""The body of a question, and whether it is known who asks -> the body of its answer."""


def application(mutate: Mutate, metrics: WebhookMetrics, callers: Callers = ANYBODY) -> web.Application:
    """The endpoint."""

    async def handle(request: web.Request) -> web.Response:
        began_s = time.monotonic()
        metrics.began()
        status = 500
        try:
            response = await _respond(request, mutate, callers)
            status = response.status
        finally:
            metrics.answered(status, time.monotonic() - began_s)
        return response

    app = web.Application()
    app.router.add_post(PATH, handle)
    return app


async def _respond(request: web.Request, mutate: Mutate, callers: Callers) -> web.Response:
    peer = request.get_extra_info("peercert")
    stranger = callers.refusal(peer)
    if stranger:
        return _refused(403, stranger)
    try:
        body = await read_body(request)
        return web.Response(body=await mutate(body, callers.knows(peer)), content_type="application/json")
    except BodyError as error:
        return _refused(error.status, str(error), error.headers)
    except ReviewError as error:
        return _refused(400, str(error))
    except Exception:
        # The last guard: a pod must never wait for a fault of ours.
        log.exception("no placement, by a fault of ours")
        return _refused(500, "internal error, see the log")


def _refused(status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"POST {PATH}: {reason}\n", headers=headers)
