"""The dashboard over HTTP: files, JSON and server-sent events."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec
import structlog
from aiohttp import web

from moorage.adapters.dashboard.backend import DashboardBackend, Refused, SeriesRequest, StrategyChange
from moorage.adapters.dashboard.security import HEADERS, Guard, Handler, guarding
from moorage.adapters.listening import BodyError, Bounds, read_body
from moorage.adapters.probing import alive
from moorage.views.chartpage import MOST_POINTS
from moorage.wire.errors import REFUSALS

_HEARTBEAT_S = 15.0
BOUNDS = Bounds(connections=128, per_address=96, stop_s=0.5)
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_SECONDS = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,9})?", re.ASCII)
_NO_STORE = {"Cache-Control": "no-store"}

log = structlog.get_logger()


def application(backend: DashboardBackend, guard: Guard) -> web.Application:
    """The dashboard as an application."""
    app = web.Application(middlewares=[guarding(guard), _in_words])
    pages = _Pages(backend)
    app.router.add_get("/", _file("index.html"))
    for name in _static_names():
        app.router.add_get(f"/static/{name}", _file(name))
    app.router.add_get("/healthz", alive)
    for path, handler in (
        ("snapshot", pages.snapshot),
        ("events", pages.events),
        ("queue", pages.queue),
        ("queues", pages.queues),
        ("trial", pages.trial),
        ("node", pages.node),
        ("search", pages.search),
        ("pod", pages.pod),
        ("suggestions", pages.suggestions),
        ("strategies", pages.strategies),
        ("spot", pages.spot),
        ("timeline", pages.timeline),
        ("series", pages.series),
        ("shadow", pages.shadow),
    ):
        app.router.add_get(f"/api/{path}", handler)
    for path, handler in (
        ("strategy/check", pages.check),
        ("strategy/preview", pages.preview),
        ("whatif", pages.what_if),
        ("repack", pages.repack),
        ("seek", pages.seek),
        ("apply/strategy", pages.apply),
    ):
        app.router.add_post(f"/api/{path}", handler)
    return app


@web.middleware
async def _in_words(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever stands in the way of an answer is one line for people; a fault of ours is one in the log, too."""
    try:
        return await handler(request)
    except Refused as refusal:
        return _json({"error": str(refusal)}, 409)
    except BodyError as error:
        return _json({"error": str(error)}, error.status)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - a page that fails must not fail the others
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.error("a page failed", path=request.path, error=reason)  # noqa: TRY400 - one line, as everywhere
        return _json({"error": f"internal error: {reason}"}, 500)


def _static_names() -> list[str]:
    folder = resources.files("moorage.adapters.dashboard") / "static"
    files = [(each, each.name) for each in folder.iterdir()]
    files += ((each, f"vendor/{each.name}") for each in (folder / "vendor").iterdir())
    return sorted(name for each, name in files if each.name.rpartition(".")[2] in _TYPES)


def _file(name: str) -> Any:
    """A handler for a file that comes with the package; it is read once."""
    body = (resources.files("moorage.adapters.dashboard") / "static" / name).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]

    async def answer(_: web.Request) -> web.Response:
        response = web.Response(body=body, content_type=kind, charset="utf-8", headers={"Cache-Control": "no-cache"})
        response.enable_compression()
        return response

    return answer


class _Pages:
    """The handlers."""

    def __init__(self, backend: DashboardBackend) -> None:
        self._backend = backend

    async def snapshot(self, request: web.Request) -> web.Response:
        body = await self._backend.snapshot()
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            raise web.HTTPNotAcceptable(reason="the answer is compressed; accept gzip")
        headers = {**_NO_STORE, "Content-Encoding": "gzip"}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def events(self, request: web.Request) -> web.StreamResponse:
        since = _number(request, "since")
        response = web.StreamResponse(headers={**_NO_STORE, "Content-Type": "text/event-stream"})
        response.headers.update(HEADERS)
        await response.prepare(request)
        messages = self._backend.hub.listen(since, self._backend.last)
        following = asyncio.ensure_future(anext(messages, b""))
        try:
            await response.write(b": hello\n\n")
            while True:
                done, _ = await asyncio.wait({following}, timeout=_HEARTBEAT_S)
                message = following.result() if done else b": still here\n\n"
                if not message:
                    break
                await response.write(message)
                if done:
                    following = asyncio.ensure_future(anext(messages, b""))
        except ConnectionError:
            pass
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await messages.aclose()  # type: ignore[attr-defined]
        return response

    async def queue(self, request: web.Request) -> web.Response:
        return _json(await self._backend.queue(request.query.get("place", "")))

    async def queues(self, _: web.Request) -> web.Response:
        return _json(await self._backend.queues())

    async def trial(self, _: web.Request) -> web.Response:
        return _json(await self._backend.trial())

    async def node(self, request: web.Request) -> web.Response:
        return _json(await self._backend.node(_text(request.query, "name")))

    async def search(self, request: web.Request) -> web.Response:
        return _json(await self._backend.search(_text(request.query, "q")))

    async def pod(self, request: web.Request) -> web.Response:
        return _json(await self._backend.pod(_text(request.query, "key")))

    async def suggestions(self, request: web.Request) -> web.Response:
        return _json(await self._backend.suggestions(_text(request.query, "key")))

    async def strategies(self, _: web.Request) -> web.Response:
        return _json(await self._backend.strategies())

    async def spot(self, _: web.Request) -> web.Response:
        return _json(await self._backend.spot())

    async def timeline(self, request: web.Request) -> web.Response:
        return _json(await self._backend.timeline(_number(request, "since")))

    async def series(self, request: web.Request) -> web.Response:
        asked = SeriesRequest(
            since_s=_seconds(request, "from", -math.inf),
            until_s=_seconds(request, "to", math.inf),
            points=_number(request, "points") or MOST_POINTS,
            step_s=_seconds(request, "step", 0.0),
        )
        return _json(await self._backend.series(asked))

    async def check(self, request: web.Request) -> web.Response:
        body = await _body(request)
        return _json(await self._backend.check(_text(body, "text")))

    async def preview(self, request: web.Request) -> web.Response:
        body = await _body(request)
        names = [_text(body, name) for name in ("namespace", "kind", "name", "text")]
        return _json(await self._backend.preview(*names))

    async def what_if(self, request: web.Request) -> web.Response:
        what_if = self._backend.surroundings.what_if
        if what_if is None:
            raise web.HTTPNotFound(reason="what-ifs need whole objects, which a journal does not have")
        return _json(await what_if(await _body(request)))

    async def repack(self, _: web.Request) -> web.Response:
        return _json(await self._backend.repack())

    async def shadow(self, _: web.Request) -> web.Response:
        return _json(await self._backend.shadow())

    async def seek(self, request: web.Request) -> web.Response:
        body, seek = await _body(request), self._backend.surroundings.seek
        moment = body.get("time")
        if seek is None or not isinstance(moment, int | float):
            raise web.HTTPBadRequest(reason="only a journal has other moments; give the field time in seconds")
        await seek(float(moment))
        return _json({"ok": True})

    async def apply(self, request: web.Request) -> web.Response:
        body = await _body(request)
        change = StrategyChange(*(_text(body, name) for name in ("kind", "namespace", "name", "key", "text")))
        if not (await self._backend.check(change.text))["ok"]:
            raise web.HTTPUnprocessableEntity(reason="the strategy has mistakes; correct them first")
        await self._backend.apply(change)
        return _json({"ok": True})


def _json(document: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(document)
    response = web.Response(body=body, status=status, content_type="application/json", headers=_NO_STORE)
    response.enable_compression()
    return response


async def _body(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request; anything else, a form of another page above all, is refused."""
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(reason="send application/json")
    try:
        body = msgspec.json.decode(await read_body(request))
    except REFUSALS:
        raise web.HTTPBadRequest(reason="the body is no JSON") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(reason="the body must be a JSON object")
    return body


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        raise web.HTTPBadRequest(reason=f"the field {name} is missing")
    return value


def _seconds(request: web.Request, name: str, missing: float) -> float:
    """A moment or a length of time, in seconds."""
    text = request.query.get(name)
    if text is None:
        return missing
    if _SECONDS.fullmatch(text) is None:
        raise web.HTTPBadRequest(reason=f"{name} must be a number of seconds, such as 1700000000.5")
    return float(text)


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise web.HTTPBadRequest(reason=f"{name} must be a whole number")
    return int(text)
