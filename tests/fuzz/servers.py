"""Our servers' handlers, called in this thread: requests go through their routes and middlewares, not over a wire."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from functools import cache
from typing import Any, NoReturn
from unittest import mock

import structlog
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from moorage.adapters import listening
from moorage.adapters.dashboard.backend import DashboardBackend, Surroundings
from moorage.adapters.dashboard.security import Guard
from moorage.adapters.dashboard.server import application as dashboard_application
from moorage.adapters.extender.handler import ExtenderHandler
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.extender.server import ExtenderSources, Rights
from moorage.adapters.extender.server import application as extender_application
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.serving.access import Gate
from moorage.adapters.serving.endpoints import EndpointSources
from moorage.adapters.serving.endpoints import application as page_application
from moorage.adapters.serving.zpages import Component
from moorage.adapters.webhook.handler import WebhookHandler
from moorage.adapters.webhook.metrics import WebhookMetrics
from moorage.adapters.webhook.server import application as webhook_application
from moorage.core.commands import Bind
from moorage.core.echo import answer_to
from moorage.core.events import BindDone, NodeSeen, PodSeen
from moorage.engine.admission import Admission
from moorage.engine.extending import Extending
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing.builders import make_node, make_pod
from moorage.views.world import Settled, World
from moorage.wire.configuration import default_reading

_NODES = ("n1", "n2", "n3")
_FAULTS: list[str] = []


def _note(_: Any, method: str, event: MutableMapping[str, Any]) -> NoReturn:
    """Servers catch what their handlers raise, and log it: that is a finding too."""
    if method in ("error", "exception", "critical"):
        _FAULTS.append(f"{event.get('event')}: {event.get('error') or event.get('exc_info') or ''}")
    raise structlog.DropEvent


@cache
def _loop() -> asyncio.AbstractEventLoop:
    structlog.configure(processors=[_note], cache_logger_on_first_use=False)
    return asyncio.new_event_loop()


def _profile() -> Any:
    configuration = default_reading(Registry(BUILTIN)).configuration
    assert configuration is not None
    return build_profiles(configuration, Registry(BUILTIN))


def _opened(app: web.Application) -> web.Application:
    app[listening._DOOR] = listening._Door(listening.Bounds(body_bytes=16 << 20), _loop().time)
    app.freeze()
    return app


def _ask(
    app: web.Application, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> web.StreamResponse:
    async def answer() -> web.StreamResponse:
        protocol = mock.Mock(_reading_paused=False)
        content = StreamReader(protocol, 1 << 26, loop=asyncio.get_running_loop())
        content.feed_data(body)
        content.feed_eof()
        transport = mock.Mock(get_extra_info=lambda _, default=None: default)
        request = make_mocked_request(method, path, headers, app=app, payload=content, transport=transport)
        try:
            return await app._handle(request)
        except web.HTTPException as refusal:
            return refusal

    _FAULTS.clear()
    response = _loop().run_until_complete(asyncio.wait_for(answer(), 10.0))
    assert not _FAULTS, _FAULTS[0]
    return response


def _path(text: str) -> str:
    """What a client can put into the first line of a request."""
    return "".join(letter if 0x20 < ord(letter) < 0x7F else "%41" for letter in text.replace("#", "%23"))


def _header(text: str) -> str:
    return (
        "".join(letter for letter in text if letter >= " ")[:4000]
        .encode("utf-8", "replace")
        .decode("utf-8", "surrogateescape")
    )


@cache
def _extender() -> web.Application:
    extending = Extending(_profile()[0], longest_wait_s=0.0)

    async def bind(command: Bind) -> BindDone:
        return answer_to(command)

    metrics = ExtenderMetrics(extending, lambda: True)
    handler = ExtenderHandler(extending, bind, metrics)
    for name in _NODES:
        handler.put(NodeSeen(make_node(name)))
    handler.put(PodSeen(make_pod("web-1", uid="u-1")))
    return _opened(
        extender_application(handler, ExtenderSources(lambda: "", MetricsPage(metrics).render), metrics, Rights())
    )


def ask_extender(body: bytes) -> None:
    """The same body as each question."""
    _loop()
    for verb in ("filter", "prioritize", "preempt"):
        assert _ask(_extender(), "POST", f"/{verb}", {}, body).status in (200, 400, 413)


@cache
def _webhook() -> web.Application:
    admission = Admission(excluded=("kube-system",))
    metrics = WebhookMetrics(admission, lambda: 0.0)
    handler = WebhookHandler(admission, metrics)

    async def mutate(body: bytes, certain: bool) -> bytes:
        return await handler.mutate(body, certain=certain)

    return _opened(webhook_application(mutate, metrics))


def ask_webhook(body: bytes) -> None:
    """A review."""
    _loop()
    assert _ask(_webhook(), "POST", "/mutate", {}, body).status in (200, 400, 413)


@cache
def _dashboard() -> web.Application:
    async def opened() -> DashboardBackend:
        backend = DashboardBackend(
            World(_profile(), answers_to_all=True), Surroundings("live", "a test", lambda: 1e9, writes=True)
        )
        backend.put(*(NodeSeen(make_node(name, cpu="4")) for name in _NODES))
        backend.put(PodSeen(make_pod("web-1", cpu="100")), Settled())
        await backend.take_over()
        return backend

    return _opened(dashboard_application(_loop().run_until_complete(opened()), Guard("127.0.0.1", "token")))


_LOOKS = (
    "queue",
    "node",
    "search",
    "pod",
    "suggestions",
    "strategies",
    "spot",
    "timeline",
    "series",
    "snapshot",
    "nothing",
)
_SENDS = ("strategy/check", "strategy/preview", "whatif", "seek", "apply/strategy")


def ask_dashboard(asked: tuple[float, bytes, str]) -> None:
    """A page with a query, or a body."""
    _loop()
    chance, body, query = asked
    headers = {
        "Host": "127.0.0.1",
        "X-Moorage-Token": "token",
        "Accept-Encoding": "gzip",
        "Content-Type": "application/json",
    }
    if chance < 0.5:
        path = _LOOKS[int(chance * 2 * len(_LOOKS))]
        response = _ask(_dashboard(), "GET", _path(f"/api/{path}?{query}"), headers)
    else:
        if chance > 0.95:
            headers["X-Moorage-Token"] = headers["Host"] = _header(query)
        path = _SENDS[int((chance - 0.5) * 2 * len(_SENDS))]
        response = _ask(_dashboard(), "POST", f"/api/{path}", headers, body)
    assert response.status < 500, response.status


@cache
def _pages() -> web.Application:
    admission = Admission(excluded=())
    page = MetricsPage(WebhookMetrics(admission, lambda: 0.0))
    sources = EndpointSources(Component("moorage", "1", {"a": "b"}), {"cache": lambda: ""}, page.render, lambda: b"{}")
    return _opened(page_application(sources, Gate(None, ["/*"])))


_PAGES = ("metrics", "healthz", "livez", "readyz", "readyz/ping", "configz", "flagz", "statusz", "metrics/resources")


def ask_metrics(asked: tuple[float, str, str]) -> None:
    """A page with an odd Accept header and query."""
    _loop()
    chance, accept, query = asked
    headers = {"Accept": _header(accept), "Authorization": _header(query)}
    path = _PAGES[int(chance * len(_PAGES))]
    assert _ask(_pages(), "GET", _path(f"/{path}?{query}"), headers).status < 500
