"""What tests of the reflector share: a scripted API server for one kind, and a sink that keeps a copy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from moorage.adapters.kube.reflector import Reflector, ReflectorPace
from moorage.adapters.kube.resources import PODS, Resource
from moorage.adapters.kube.watchstream import ObjectMeta

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Handler, ScriptedServer, ServerFactory

QUICK = ReflectorPace(silence_s=2.0, first_pause_s=0.01, longest_pause_s=0.02, look_again_s=0.02, page_size=2)

Script = Callable[["Watch"], Awaitable[None]]


def obj(name: str, version: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": str(version)}, **more}


def event(kind: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if end else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), **annotations}})


class Parsed(msgspec.Struct):
    """The name and a mark, as a caller might decode objects."""

    metadata: dict[str, Any]
    mark: int = 0

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.metadata["name"])


class Copy:
    """A sink that keeps a copy of the server's objects and a story of what it was told."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self.story: list[str] = []
        self._changed = asyncio.Event()

    def replaced(self, objects: list[Parsed]) -> None:
        self.objects = {each.name: each.mark for each in objects}
        self._tell(f"replaced {' '.join(each.name for each in objects)}".strip())

    def upserted(self, obj: Parsed) -> None:
        self.objects[obj.name] = obj.mark
        self._tell(f"upserted {obj.name}")

    def deleted(self, meta: ObjectMeta) -> None:
        self.objects.pop(meta.name, None)
        self._tell(f"deleted {meta.name}")

    def _tell(self, line: str) -> None:
        self.story.append(line)
        self._changed.set()

    async def told(self, *want: str) -> None:
        """Wait until the story is this, and fail if it goes another way."""
        async with asyncio.timeout(10):
            while self.story[: len(want)] != list(want):
                assert self.story == list(want)[: len(self.story)]
                self._changed.clear()
                await self._changed.wait()


class Watch:
    """One watch on the server's side."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self.query = dict(request.query)
        self._request = request
        self._response = response

    async def send(self, *lines: bytes) -> None:
        await self._response.write(b"".join(lines))

    async def hang(self) -> None:
        await asyncio.Event().wait()

    def drop(self) -> None:
        assert self._request.transport is not None
        self._request.transport.abort()


class Api:
    """A server whose lists and watches follow scripts; a watch without a script hangs."""

    def __init__(self) -> None:
        self.lists: list[web.Response | Callable[[], web.Response]] = []
        self.watches: list[Script | web.Response] = []
        self.queries: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            answer = self.lists.pop(0)
            return answer if isinstance(answer, web.Response) else answer()
        script = self.watches.pop(0) if self.watches else Watch.hang
        if isinstance(script, web.Response):
            return script
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await script(Watch(request, response))
        return response


def refusal(code: int, reason: str, message: str = "no") -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


def page(version: int, *names: str, more: str = "") -> web.Response:
    return web.json_response(
        {"metadata": {"resourceVersion": str(version), "continue": more}, "items": [obj(name, 1) for name in names]}
    )


def sends(*lines: bytes, then_hang: bool = False) -> Script:
    async def script(watch: Watch) -> None:
        await watch.send(*lines)
        if then_hang:
            await watch.hang()

    return script


@asynccontextmanager
async def following(
    server_factory: ServerFactory,
    handler: Handler,
    sink: Copy,
    *,
    resource: Resource = PODS,
    pace: ReflectorPace = QUICK,
    lacking: bool = False,
    **options: Any,
) -> AsyncIterator[tuple[ScriptedServer, Reflector[Parsed]]]:
    options.setdefault("parse", msgspec.json.Decoder(Parsed).decode)
    async with server_factory(handler) as server, server.client() as client:
        reflector = Reflector(client, resource, sink, jitter=lambda: 0.5, pace=pace, **options)
        task = asyncio.ensure_future(reflector.run(lacking=lacking))
        try:
            yield server, reflector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - conditions on the server's notes have no event
            await asyncio.sleep(0.005)
