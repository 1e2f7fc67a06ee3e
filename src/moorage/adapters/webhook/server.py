"""The webhook's HTTPS server: one question, `POST /mutate`.

Bad questions get 400 and one line that says what is wrong; a fault of ours gets 500, which the API server passes over
because of `failurePolicy: Ignore`. Connections are kept for longer than the API server keeps them idle, so that it is
never surprised by one that closes.
"""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from moorage.adapters.webhook.metrics import PATH, WebhookMetrics
from moorage.wire.admission import ReviewError

STOP_S = 2.0
"""How long requests may take to finish when the server stops."""
KEEP_ALIVE_S = 300.0
BODY_BYTES = 16 << 20
"""A pod is at most 1.5 MB on the server; a question repeats it once, with escapes."""

log = structlog.get_logger()


class ListenError(Exception):
    """The server cannot start; the text is one line."""


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, tls: ssl.SSLContext) -> AsyncIterator[str]:
    """Serve until the end of the block, which gets the URL. Port 0 picks a free one; `ListenError` if it fails."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S, keepalive_timeout=KEEP_ALIVE_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024).start()
        except OSError as error:
            raise ListenError(_refusal(host, port, error)) from None
        found, number = runner.addresses[0][:2]
        yield f"https://{f'[{found}]' if ':' in found else found}:{number}"
    finally:
        await runner.cleanup()


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

    app = web.Application(client_max_size=BODY_BYTES)
    app.router.add_post(PATH, handle)
    return app


async def _respond(request: web.Request, mutate: Callable[[bytes], Awaitable[bytes]]) -> web.Response:
    try:
        body = await request.read()
        return web.Response(body=await mutate(body), content_type="application/json")
    except web.HTTPRequestEntityTooLarge:
        return _refused(413, f"the body is larger than {BODY_BYTES} bytes")
    except ReviewError as error:
        return _refused(400, str(error))
    except Exception:
        # The last guard: a pod must never wait for a fault of ours.
        log.exception("no placement, by a fault of ours")
        return _refused(500, "internal error, see the log")


def _refused(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=f"POST {PATH}: {reason}\n")


def _refusal(host: str, port: int, error: OSError) -> str:
    where = f"--listen {host}:{port}: cannot listen there"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; choose another one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this machine does not have the address; choose another one, or 0.0.0.0 for all"
    return f"{where}: {error.strerror or error}; choose another address or port"
