"""The webhook's HTTPS server: one question, `POST /mutate`.

Bad questions get 400 and one line that says what is wrong; a fault of ours gets 500, which the API server passes over
because of `failurePolicy: Ignore`. Connections are kept for longer than the API server keeps them idle, so that it is
never surprised by one that closes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web

from moorage.adapters.listening import BodyError, Bounds, read_body
from moorage.adapters.webhook.metrics import PATH, WebhookMetrics
from moorage.wire.admission import ReviewError

BOUNDS = Bounds(
    connections=512,  # an API server opens one for every question that is under way
    per_address=384,
    idle_s=300.0,
    body_bytes=16 << 20,  # a pod is at most 1.5 MB on the server; a question repeats it once, with escapes
    bodies_bytes=64 << 20,
    stop_s=2.0,
)

log = structlog.get_logger()


def application(mutate: Callable[[bytes], Awaitable[bytes]], metrics: WebhookMetrics) -> web.Application:
    """The endpoint; `mutate` gets the body of a question and gives that of its answer."""

    async def handle(request: web.Request) -> web.Response:
        began_s = time.monotonic()
        metrics.began()
        status = 500
        try:
            response = await _respond(request, mutate)
            status = response.status
        finally:
            metrics.answered(status, time.monotonic() - began_s)
        return response

    app = web.Application()
    app.router.add_post(PATH, handle)
    return app


async def _respond(request: web.Request, mutate: Callable[[bytes], Awaitable[bytes]]) -> web.Response:
    try:
        body = await read_body(request)
        return web.Response(body=await mutate(body), content_type="application/json")
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
