"""Sources of prices: files, URLs and ConfigMaps are followed; what cannot be read ages, and is flagged as stale."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.prices import FileReader, PriceFollower, PriceSourceError, Reader, UrlReader
from moorage.adapters.kube.transport import AiohttpTransport
from moorage.adapters.metrics.registry import MetricsPage
from moorage.app.lifetime import Parts
from moorage.app.prices import Prices, price_sources
from moorage.bench.controlplane import ControlPlane
from moorage.core.events import Event, ObjectSeen
from moorage.core.prices import PriceList
from moorage.framework.pricing import PriceSource, SourceKind
from moorage.framework.profiles import Profile
from moorage.plugins.cost_aware import CostAware
from tests.plugins.controlled import packing_rules

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ServerFactory

START_S = 1_782_864_000.0  # 2026-07-01T00:00:00Z
SOURCE = PriceSource(SourceKind.FILE, "prices.yaml", poll_s=10.0, stale_after_s=60.0)


def price_text(price: str = "0.1", **fields: Any) -> bytes:
    body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "PriceList", "currency": "USD"}
    return json.dumps({**body, "prices": [{"pricePerHour": price}], **fields}).encode()


class Script:
    """A source that says what the test wants, one entry per question; errors are raised."""

    def __init__(self) -> None:
        self.says: bytes | str | None = None

    async def read(self) -> bytes | None:
        if isinstance(self.says, str):
            raise PriceSourceError(self.says)
        return self.says

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Watch:
    """One follower with a clock of its own, and what it told."""

    def __init__(self, reader: Reader | None = None) -> None:
        self.now_s = START_S
        self.script = Script()
        self._events: list[Event] = []
        self.follower = PriceFollower(SOURCE, reader or self.script, self._events.append, lambda: self.now_s)

    def look(self, says: bytes | str | None = None, *, after_s: float = 0.0) -> None:
        """Let time pass, and the source say something."""
        self.now_s += after_s
        self.script.says = says
        asyncio.run(self.follower.look())

    def told(self) -> list[tuple[int, bool]]:
        """Micros of the first price and whether it is stale, of each event since the last question."""
        found = []
        for event in self._events:
            assert isinstance(event, ObjectSeen)
            assert (event.kind, event.key) == ("PriceList", "file:prices.yaml")
            assert isinstance(event.value, PriceList)
            found.append((event.value.rules[0].micros_per_hour, event.value.stale))
        self._events.clear()
        return found


def test_prices_are_told_when_they_change_and_only_then() -> None:
    """Also when the source sends the same ones again."""
    watch = Watch()
    for says in (price_text(), price_text(), None, price_text("0.2"), None):
        watch.look(says, after_s=1)
    assert watch.told() == [(100_000, False), (200_000, False)]


def test_what_cannot_be_read_changes_nothing_until_it_is_stale() -> None:
    """The last prices stay, age, are flagged as stale once, and are good again when they are confirmed."""
    watch = Watch()
    assert watch.follower.stale
    watch.look(price_text())
    assert watch.told() == [(100_000, False)]
    for _ in range(6):
        watch.look("gone", after_s=10)
    assert (watch.told(), watch.follower.stale, watch.follower.error) == ([], False, "gone")
    watch.look("gone", after_s=1)
    watch.look("gone", after_s=1)
    assert (watch.told(), watch.follower.stale) == ([(100_000, True)], True)
    watch.look(None, after_s=1)
    assert (watch.told(), watch.follower.stale, watch.follower.error) == ([(100_000, False)], False, "")


def test_a_source_that_confirms_its_prices_keeps_them_young() -> None:
    """However long they have not changed."""
    watch = Watch()
    watch.look(price_text())
    for _ in range(20):
        watch.look(None, after_s=50)
    assert watch.told() == [(100_000, False)]


def test_text_that_is_wrong_is_not_confirmed_by_staying_as_it_is() -> None:
    """The prices from before it age."""
    watch = Watch()
    watch.look(price_text())
    watch.look(price_text("cheap"), after_s=30)
    assert 'prices.yaml: prices[0].pricePerHour: "cheap": not a price' in watch.follower.error
    watch.look(None, after_s=31)
    assert watch.told() == [(100_000, False), (100_000, True)]
    watch.look(price_text("0.3"), after_s=1)
    assert watch.told()[-1] == (300_000, False)


def test_prices_are_never_younger_than_they_say() -> None:
    """A job that writes old prices again and again does not make them new."""
    watch = Watch()
    watch.look(price_text(asOf="2026-07-01T00:00:00Z"), after_s=59)
    assert watch.told() == [(100_000, False)]
    watch.look(price_text(asOf="2026-07-01T00:00:00Z"), after_s=2)
    assert watch.told() == [(100_000, True)]


# --- files ---


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Replaced as Kubernetes replaces mounted ConfigMaps, too: by another target of a symbolic link."""
    file = tmp_path / "prices.yaml"
    reader = FileReader(str(file))

    def read() -> bytes | None:
        return asyncio.run(reader.read())

    with pytest.raises(PriceSourceError, match=r"prices.yaml: cannot be read \(No such file or directory\)"):
        read()
    for number, content in enumerate((b"one", b"two")):
        (tmp_path / f"v{number}").write_bytes(content)
        (tmp_path / "next").symlink_to(f"v{number}")
        (tmp_path / "next").replace(file)
        assert read() == content
        assert read() is None
    file.unlink()
    with pytest.raises(PriceSourceError):
        read()


# --- URLs ---

Ask = Callable[[UrlReader], Awaitable[None]]


def with_url(factory: ServerFactory, answers: list[web.Response], ask: Ask, *, trusted: bool = True) -> list[Any]:
    """Ask a server that gives these answers, one after the other; the requests that it saw."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return answers.pop(0)

    async def run() -> list[Any]:
        async with factory(handler) as server:
            server.kubeconfig()  # writes the CA beside it
            transport = AiohttpTransport()
            ca = str(server.folder / "ca.pem") if trusted else None
            try:
                await ask(UrlReader(f"{server.url}/prices?region=eu", ca, transport))
            finally:
                await transport.aclose()
            return server.seen

    return asyncio.run(run())


def test_urls_are_asked_again_with_their_tag(scripted_server: ServerFactory) -> None:
    """304 says that nothing has changed."""
    answers = [web.Response(body=b"one", headers={"ETag": '"1"'}), web.Response(status=304), web.Response(body=b"two")]

    async def ask(reader: UrlReader) -> None:
        assert [await reader.read() for _ in range(3)] == [b"one", None, b"two"]

    seen = with_url(scripted_server, answers, ask)
    assert [(each.method, each.path, each.query, each.headers.get("If-None-Match")) for each in seen] == [
        ("GET", "/prices", {"region": "eu"}, None),
        ("GET", "/prices", {"region": "eu"}, '"1"'),
        ("GET", "/prices", {"region": "eu"}, '"1"'),
    ]


@pytest.mark.parametrize(
    ("answer", "trusted", "want"),
    [
        pytest.param(web.Response, True, None, id="fine"),
        pytest.param(lambda: web.Response(status=503), True, "answered 503; check the address", id="an error"),
        pytest.param(lambda: web.Response(status=302), True, "answered 302; check the address", id="elsewhere"),
        pytest.param(web.Response, False, "certificate is not trusted", id="a stranger"),
    ],
)
def test_what_urls_may_answer(
    scripted_server: ServerFactory, answer: Callable[[], web.Response], trusted: bool, want: str | None
) -> None:
    """Anything but 200 and 304 is one line."""

    async def ask(reader: UrlReader) -> None:
        if want is None:
            assert await reader.read() == b""
            return
        with pytest.raises(PriceSourceError, match=want):
            await reader.read()

    with_url(scripted_server, [answer()], ask, trusted=trusted)


def test_a_url_that_nobody_answers() -> None:
    """Says so in one line, without advice about kubeconfigs."""

    async def run() -> None:
        transport = AiohttpTransport()
        try:
            with pytest.raises(PriceSourceError, match=r"^http://127.0.0.1:1/x: .*: Connection refused$"):
                await UrlReader("http://127.0.0.1:1/x", None, transport).read()
        finally:
            await transport.aclose()

    asyncio.run(run())


# --- a whole process's prices, on a real API server ---

MAPS = "/api/v1/namespaces/default/configmaps"


def profile(**source: Any) -> Profile:
    return packing_rules(CostAware, {"source": source, "staleAfterSeconds": 600}).profiles[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what changes it is on the server
            await asyncio.sleep(0.02)


def test_a_config_map_is_watched(control_plane: ControlPlane) -> None:
    """It may come after us; its changes are heard at once; when it goes, its prices stay until they are stale."""
    control_plane.request("DELETE", f"{MAPS}/prices")
    events: list[Event] = []

    def config_map(price: str) -> dict[str, Any]:
        data = {"prices.yaml": price_text(price).decode()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": data}

    def page(prices: Prices) -> str:
        return MetricsPage(*prices.collectors()).render("")[0].decode()

    async def run() -> None:
        async with KubeClient(load_credentials(str(control_plane.admin_kubeconfig))) as client:
            source = {"namespace": "default", "name": "prices"}
            parts = Parts()
            prices = Prices([profile(configMap=source, pollSeconds=600)], client, events.append, parts)
            prices.start()
            try:
                await prices.settle()
                assert not events
                assert 'moorage_prices_stale{source="configMap:default/prices#prices.yaml"} 1.0' in page(prices)
                for number, (verb, path) in enumerate((("POST", MAPS), ("PUT", f"{MAPS}/prices")), start=1):
                    answer = await asyncio.to_thread(control_plane.request, verb, path, config_map(f"0.{number}"))
                    assert answer.status in (200, 201)
                    await until(lambda wanted=number: len(events) == wanted)  # type: ignore[misc]
                assert 'moorage_prices_stale{source="configMap:default/prices#prices.yaml"} 0.0' in page(prices)
                await asyncio.to_thread(control_plane.request, "DELETE", f"{MAPS}/prices")
                await until(lambda: prices.complaints() == ["ConfigMap default/prices: does not exist; make it"])
            finally:
                await parts.aclose()
                await prices.aclose()

    asyncio.run(run())
    values = [event.value for event in events if isinstance(event, ObjectSeen)]
    assert [(value.rules[0].micros_per_hour, value.stale) for value in values] == [(100_000, False), (200_000, False)]


def test_profiles_that_name_the_same_source_share_it() -> None:
    """The more impatient one counts."""
    sources = price_sources([profile(file="a", pollSeconds=9), profile(file="a", pollSeconds=3), profile(file="b")])
    assert [(source.where, source.poll_s) for source in sources] == [("a", 3), ("b", 5)]
