"""What kubelets and Prometheus ask every server: whether it is alive, whether it is ready, and its metrics."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

Render = Callable[[str], tuple[bytes, str]]
"""Accept header -> text and content type. Must not block."""


async def alive(_: web.Request) -> web.Response:
    """The process answers."""
    return web.Response(text="ok")


def health_routes(unready: Callable[[], str]) -> list[web.RouteDef]:
    """`unready` says in one line why the process is not ready; empty when it is."""

    async def ready(_: web.Request) -> web.Response:
        reason = unready()
        return web.Response(status=503, text=f"{reason}\n") if reason else web.Response(text="ok")

    return [web.get("/healthz", alive), web.get("/livez", alive), web.get("/readyz", ready)]


def page(render: Render) -> Handler:
    """Answers with metrics in the form that the reader asks for."""

    async def answer(request: web.Request) -> web.Response:
        content, content_type = render(request.headers.get("Accept", ""))
        return web.Response(body=content, headers={"Content-Type": content_type})

    return answer
