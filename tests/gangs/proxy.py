"""A proxy between a scheduler and kube-apiserver that counts binds and can stop the world at one of them.

    async with BindProxy(plane, Moment(7, "before")) as proxy:
        start_scheduler(proxy.kubeconfig(SCHEDULER.name))
        await proxy.reached.wait()
        kill_scheduler()

Invariants:
- Binds are forwarded one at a time, in the order of their arrival: at bind k exactly k - 1 others were answered.
- At its moment the proxy lets `reached` happen, and from then on forwards no write of anybody: the scheduler is dead as
  far as the API server can tell, however long the signal takes. The bind of the moment is never answered.
- Everything else passes unchanged, credentials included; watches are streamed as they come.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import yaml
from aiohttp import ClientConnectionError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from moorage.bench.controlplane import ControlPlane

_BINDING = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding$")
_POD = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)(/[^/]+)?$")
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# They speak of one connection, not of the message.
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "upgrade", "te", "trailer"})
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_BODY_LIMIT_BYTES = 16 << 20

When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Before bind number k is forwarded, or after the API server answered it; the first bind is number 1."""

    k: int
    when: When


class BindProxy:
    """One listening proxy; an async context manager. Without a moment it only counts."""

    def __init__(self, plane: ControlPlane, moment: Moment | None = None) -> None:
        self.contacted = asyncio.Event()
        """Somebody asked for something."""
        self.reached = asyncio.Event()
        """The moment has come."""
        self.binds = 0
        """POSTs to a pod's binding, refused ones and that of the moment included."""
        self.bound: Counter[str] = Counter()
        """namespace/name of a pod -> how often the API server said yes to a bind of it."""
        self.deleted: Counter[str] = Counter()
        """The same for deletions of pods."""
        self.refusals: Counter[tuple[int, str, str]] = Counter()
        """Writes that the API server refused: status, method and path without names -> how often."""
        self.journal: list[str] = []
        """Every write, with the time of its answer and its status, for whoever wants to know what happened."""
        self._written: set[str] = set()
        self._plane = plane
        self._moment = moment
        self._turn = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        folder = self._plane.token_folder
        upstream = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._session = ClientSession(
            connector=TCPConnector(ssl=upstream, limit=0), timeout=ClientTimeout(total=None), auto_decompress=False
        )
        app = web.Application(client_max_size=_BODY_LIMIT_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation the watches of a dead scheduler would stay open until something happens on them.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(folder / "serving.crt", folder / "serving.key")
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=serving).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._runner is None:
            raise RuntimeError("the proxy is not open; use it as an async context manager")
        return f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    def kubeconfig(self, user: str, path: Path) -> Path:
        """Write the user's kubeconfig with the proxy in the place of the API server."""
        content = yaml.safe_load(self._plane.kubeconfig_for(user).read_text())
        for entry in content["clusters"]:
            entry["cluster"]["server"] = self.url
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    def touched(self, namespace: str) -> set[str]:
        """namespace/name of the pods outside a namespace that were written to, refused writes included."""
        return {pod for pod in self._written if not pod.startswith(f"{namespace}/")}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.contacted.set()
        if request.method == "POST" and (match := _BINDING.match(request.path)):
            return await self._bind(request, f"{match[1]}/{match[2]}")
        if self.reached.is_set() and request.method in _WRITES:
            return await _silence()
        return await self._forward(request)

    async def _bind(self, request: web.Request, pod: str) -> web.StreamResponse:
        async with self._turn:
            if self.reached.is_set():
                return await _silence()
            self.binds += 1
            now = self._moment is not None and self.binds == self._moment.k
            if now and self._moment is not None and self._moment.when == "before":
                return await self._stop_the_world()
            response = await self._forward(request, withheld=now)
            if response.status in {200, 201}:
                self.bound[pod] += 1
            return await self._stop_the_world() if now else response

    async def _stop_the_world(self) -> web.StreamResponse:
        self.reached.set()
        return await _silence()

    async def _forward(self, request: web.Request, *, withheld: bool = False) -> web.StreamResponse:
        """Pass a request on; what comes back is streamed to the scheduler unless it is withheld."""
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        url = URL(self._plane.url + request.raw_path, encoded=True)
        body = await request.read()
        async with self._session.request(
            request.method,
            url,
            headers=_passing(request.headers),
            data=body or None,
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
        ) as answer:
            self._note(request, answer.status)
            if withheld:
                return web.Response(status=answer.status)
            return await _stream(request, answer)

    def _note(self, request: web.Request, status: int) -> None:
        if request.method not in _WRITES:
            return
        self.journal.append(f"{datetime.now(UTC):%H:%M:%S.%f} {status} {request.method} {request.path}")
        match = _POD.match(request.path)
        if match is not None:
            self._written.add(f"{match[1]}/{match[2]}")
        if status >= 400:
            self.refusals[status, request.method, _without_names(request.path)] += 1
        elif match is not None and match[3] is None and request.method == "DELETE":
            self.deleted[f"{match[1]}/{match[2]}"] += 1


async def _stream(request: web.Request, answer: ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_passing(answer.headers))
    try:
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
    except ClientConnectionError:
        # Either side went away: the other one sees its connection end as well.
        if request.transport is not None:
            request.transport.abort()
    return response


async def _silence() -> web.StreamResponse:
    """Never answer; the handler ends when the other side, or the proxy, is gone."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def _passing(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION)


def _without_names(path: str) -> str:
    """Return a path with what differs from run to run left out, such as /api/v1/namespaces/*/pods/*/status."""
    parts = path.split("/")
    start = parts.index("namespaces") + 1 if "namespaces" in parts else len(parts)
    return "/".join("*" if index >= start and (index - start) % 2 == 0 else part for index, part in enumerate(parts))
