"""A TLS proxy between one process of ours and kube-apiserver, which obeys rules and writes down what passed.

    async with Proxy(plane, [Rule(verb="bind", nth=7, act=Drop())]) as proxy:
        start_scheduler(proxy.kubeconfig(SCHEDULER.name, folder / "kubeconfig"))

Invariants:
- What no rule speaks of passes unchanged, credentials included; watches are streamed as they come.
- After a `Stop` no write is forwarded any more.
- A frozen watch loses nothing: what came meanwhile is passed on when it thaws.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import yaml
from aiohttp import ClientConnectionError, ClientResponse, ClientTimeout, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from moorage.adapters.sessions import HttpSession
from moorage.bench.controlplane import ControlPlane
from tests.faults.rules import (
    BIND,
    DELETE,
    WATCH,
    WRITES,
    Act,
    Answer,
    Book,
    Delay,
    Drop,
    Expire,
    Hold,
    Rule,
    Stop,
    Truncate,
    verb_of,
)

_POD = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)(/[^/]+)?$")
# They speak of one connection, not of the message.
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "upgrade", "te", "trailer"})
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_BODY_LIMIT_BYTES = 16 << 20
_LINGER_S = 0.1
# Watches of a process that was killed end in ways that aiohttp finds worth a traceback.
_QUIET = logging.getLogger("tests.faults.proxy")
_QUIET.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its status: the API server's, or that of a rule; 0 if it got no answer."""

    verb: str
    method: str
    path: str
    status: int
    came_s: float
    """When it came, by the monotonic clock."""
    moment: datetime
    """When its answer was there."""
    forwarded: bool
    body: bytes = b""
    """Of writes."""

    @property
    def pod(self) -> str | None:
        """namespace/name, if it is about a pod."""
        match = _POD.match(self.path)
        return None if match is None else f"{match[1]}/{match[2]}"

    @property
    def is_whole_pod(self) -> bool:
        """Whether it is about a pod and not about a part of it."""
        match = _POD.match(self.path)
        return match is not None and match[3] is None


class Proxy:
    """One listening proxy; an async context manager."""

    def __init__(self, plane: ControlPlane, rules: Iterable[Rule] = (), *, token: str | None = None) -> None:
        self.contacted = asyncio.Event()
        """Somebody asked for something."""
        self.reached = asyncio.Event()
        """The moment of a `Stop` has come."""
        self.held = asyncio.Event()
        """Some request is kept back by a `Hold`."""
        self.exchanges: list[Exchange] = []
        """What was asked, in the order of the answers; watches when they begin."""
        self.accepts: str | None = None
        """The bearer token that is taken; others get 401. None: the API server decides."""
        self._rules = Book(list(rules))
        self._plane = plane
        self._token = token
        self._turn = asyncio.Lock()
        self._released = asyncio.Event()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._frozen = re.compile(r"(?!)")
        self._silent: set[asyncio.Event] = set()
        self._watches: dict[asyncio.Event, str] = {}
        self._runner: web.AppRunner | None = None
        self._session: HttpSession | None = None

    async def __aenter__(self) -> Self:
        folder = self._plane.token_folder
        upstream = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._session = HttpSession(
            {"ssl": upstream, "limit": 0}, timeout=ClientTimeout(total=None), auto_decompress=False
        )
        app = web.Application(client_max_size=_BODY_LIMIT_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation the watches of a dead process would stay open until something happens on them.
        self._runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=_LINGER_S, access_log=None, logger=_QUIET
        )
        await self._runner.setup()
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(folder / "serving.crt", folder / "serving.key")
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=serving).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.aclose()

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._runner is None:
            raise RuntimeError("the proxy is not open; use it as an async context manager")
        return f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    def kubeconfig(self, user: str, path: Path, *, token_file: Path | None = None) -> Path:
        """Write the user's kubeconfig with the proxy in the place of the API server."""
        content = yaml.safe_load(self._plane.kubeconfig_for(user).read_text())
        for entry in content["clusters"]:
            entry["cluster"]["server"] = self.url
        if token_file is not None:
            content["users"][0]["user"] = {"tokenFile": str(token_file)}
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    # --- while it runs ---

    def add(self, *rules: Rule) -> None:
        """Take more rules."""
        self._rules.add(*rules)

    def remove(self, *rules: Rule) -> None:
        """Forget rules."""
        self._rules.remove(*rules)

    def release(self) -> None:
        """Forward what is kept back."""
        self._released.set()

    def freeze(self, path: str) -> None:
        """Pass on nothing more of the watches of these paths, open ones and new ones."""
        self._frozen = re.compile(path)
        self._thawed.clear()

    def silence(self, path: str) -> None:
        """Let the open watches of these paths say nothing more, ever; new ones are well."""
        self._silent |= {end for end, watched in self._watches.items() if re.search(path, watched)}

    def thaw(self) -> None:
        """Let frozen watches go on."""
        self._frozen = re.compile(r"(?!)")
        self._thawed.set()

    def cut(self, path: str) -> int:
        """Break the open watches of these paths off; how many there were."""
        found = [end for end, watched in self._watches.items() if re.search(path, watched)]
        for end in found:
            end.set()
        return len(found)

    # --- what has passed ---

    def count(self, verb: str, path: str = "") -> int:
        """How many such requests came, refused ones and those of a `Stop` included."""
        return sum(each.verb == verb and re.search(path, each.path) is not None for each in self.exchanges)

    def accepted(self, verb: str) -> Counter[str]:
        """namespace/name of a pod -> how often the API server said yes to this about it; DELETE of the pod itself."""
        good = (each for each in self.exchanges if each.verb == verb and each.forwarded and each.status in {200, 201})
        return Counter(each.pod for each in good if each.pod and (verb != DELETE or each.is_whole_pod))

    @property
    def binds(self) -> int:
        """POSTs to a pod's binding."""
        return self.count(BIND)

    @property
    def refusals(self) -> Counter[tuple[int, str, str]]:
        """Writes that the API server refused: status, method and path without names -> how often."""
        writes = (each for each in self.exchanges if each.verb in WRITES and each.forwarded and each.status >= 400)
        return Counter((each.status, each.method, _without_names(each.path)) for each in writes)

    @property
    def journal(self) -> list[str]:
        """Every write, with the time of its answer and its status, for checks of what happened."""
        writes = (each for each in self.exchanges if each.verb in WRITES)
        return [f"{each.moment:%H:%M:%S.%f} {each.status} {each.method} {each.path}" for each in writes]

    def touched(self, namespace: str) -> set[str]:
        """namespace/name of the pods outside a namespace that were written to, refused writes included."""
        pods = {each.pod for each in self.exchanges if each.verb in WRITES}
        return {pod for pod in pods if pod is not None and not pod.startswith(f"{namespace}/")}

    # --- one request ---

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.contacted.set()
        verb = verb_of(request.method, request.path, request.query)
        if self._rules.in_turn(verb, request.path):
            async with self._turn:
                return await self._judged(request, verb)
        return await self._judged(request, verb)

    async def _judged(self, request: web.Request, verb: str) -> web.StreamResponse:
        if self.reached.is_set() and verb in WRITES:
            return await _silence()
        if self.accepts is not None and request.headers.get("Authorization") != f"Bearer {self.accepts}":
            return self._said(request, verb, Answer(401))
        act = self._rules.act_on(verb, request.path)
        if isinstance(act, Answer) and not act.after:
            return self._said(request, verb, act)
        if isinstance(act, Stop) and act.before:
            self._note(request, verb, 0, forwarded=False)
            return await self._stop_the_world()
        if isinstance(act, Hold):
            self.held.set()
            await self._released.wait()
        if isinstance(act, Delay):
            await asyncio.sleep(act.before_s)
        return await self._forward(request, verb, act)

    async def _stop_the_world(self) -> web.StreamResponse:
        self.reached.set()
        return await _silence()

    async def _forward(self, request: web.Request, verb: str, act: Act | None) -> web.StreamResponse:
        """Pass a request on; what comes back is streamed to the process unless a rule says otherwise."""
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        headers = _passing(request.headers)
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        came_s, body = time.monotonic(), await request.read()
        try:
            async with self._session.client.request(
                request.method,
                URL(self._plane.url + request.raw_path, encoded=True),
                headers=headers,
                data=body or None,
                skip_auto_headers=_AUTOMATIC,
                allow_redirects=False,
            ) as answer:
                self._note(request, verb, answer.status, forwarded=True, came_s=came_s, body=body)
                return await self._answered(request, verb, act, answer)
        except ClientConnectionError:
            # The API server is away, or the process is: the other side sees its connection end as well.
            return _abort(request)

    async def _answered(
        self, request: web.Request, verb: str, act: Act | None, answer: ClientResponse
    ) -> web.StreamResponse:
        if isinstance(act, Stop):
            return await self._stop_the_world()
        if isinstance(act, Drop):
            await answer.read()
            return _abort(request)
        if isinstance(act, Answer):
            await answer.read()
            return _response(act)
        if isinstance(act, Delay):
            await asyncio.sleep(act.after_s)
        if verb == WATCH and answer.status == 200:
            return await self._watched(request, act, answer)
        return await _stream(request, answer, _spoiled(answer.content.iter_any(), act))

    async def _watched(self, request: web.Request, act: Act | None, answer: ClientResponse) -> web.StreamResponse:
        end = asyncio.Event()
        self._watches[end] = request.path
        try:
            return await _stream(request, answer, self._pieces(request.path, end, act, answer))
        finally:
            del self._watches[end]

    async def _pieces(
        self, path: str, end: asyncio.Event, act: Act | None, answer: ClientResponse
    ) -> AsyncIterator[bytes]:
        """What of a watch is passed on, and when."""
        ended = asyncio.ensure_future(end.wait())
        pieces = _spoiled(answer.content.iter_any(), act)
        coming: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        try:
            while True:
                coming = asyncio.ensure_future(_next(pieces))
                await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
                while not ended.done() and self._frozen.search(path):
                    thawed = asyncio.ensure_future(self._thawed.wait())
                    await asyncio.wait({thawed, ended}, return_when=asyncio.FIRST_COMPLETED)
                    thawed.cancel()
                if end in self._silent:
                    await ended
                if ended.done():
                    raise ClientConnectionError("cut")
                piece = coming.result()
                if piece is None:
                    return
                yield piece
        finally:
            for each in (ended, coming):
                each.cancel()
            with contextlib.suppress(ClientConnectionError, asyncio.CancelledError):
                await coming

    def _said(self, request: web.Request, verb: str, act: Answer) -> web.Response:
        self._note(request, verb, act.status, forwarded=False)
        return _response(act)

    def _note(
        self,
        request: web.Request,
        verb: str,
        status: int,
        *,
        forwarded: bool,
        came_s: float | None = None,
        body: bytes = b"",
    ) -> None:
        came = time.monotonic() if came_s is None else came_s
        kept = body if verb in WRITES else b""
        now = datetime.now(UTC)
        self.exchanges.append(
            Exchange(verb, request.method, request.path, status, came, now, forwarded=forwarded, body=kept)
        )


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


async def _spoiled(pieces: AsyncIterator[bytes], act: Act | None) -> AsyncIterator[bytes]:
    """The same pieces, up to where a rule ends them."""
    left = act.after_bytes if isinstance(act, Truncate) else act.after_events if isinstance(act, Expire) else 0
    if isinstance(act, Expire):
        async for line in _lines(pieces):
            if left == 0:
                break
            left -= 1
            yield line
        yield _gone()
        return
    async for piece in pieces:
        if isinstance(act, Truncate):
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                raise ClientConnectionError("truncated")
            continue
        yield piece


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"


async def _stream(request: web.Request, answer: ClientResponse, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_passing(answer.headers))
    try:
        await response.prepare(request)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    except ClientConnectionError:
        # Either side went away: the other one sees its connection end as well.
        _abort(request)
    return response


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


async def _silence() -> web.StreamResponse:
    """Never answer; the handler ends when the other side, or the proxy, is gone."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def _response(act: Answer) -> web.Response:
    headers = {} if act.retry_after_s is None else {"Retry-After": str(act.retry_after_s)}
    if act.html:
        text = f"<html><head><title>{act.status}</title></head><body>nginx</body></html>"
        return web.Response(status=act.status, text=text, content_type="text/html", headers=headers)
    return web.json_response(_status(act.status), status=act.status, headers=headers)


_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired"}
_REASONS |= {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


def _status(code: int) -> dict[str, object]:
    reason = _REASONS.get(code, "Unknown")
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"the proxy's {reason}",
    }
    return {**said, "reason": reason, "code": code}


def _gone() -> bytes:
    return json.dumps({"type": "ERROR", "object": _status(410)}).encode() + b"\n"


def _passing(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION)


def _without_names(path: str) -> str:
    """Return a path with what differs from run to run left out, such as /api/v1/namespaces/*/pods/*/status."""
    parts = path.split("/")
    start = parts.index("namespaces") + 1 if "namespaces" in parts else len(parts)
    return "/".join("*" if index >= start and (index - start) % 2 == 0 else part for index, part in enumerate(parts))
