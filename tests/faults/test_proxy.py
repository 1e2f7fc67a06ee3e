"""The proxy of the fault laboratory, between plain requests and the real API server."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientError, ClientSession, TCPConnector

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from tests.faults.proxy import Proxy
from tests.faults.rules import Act, Answer, Delay, Drop, Expire, Hold, Rule, Truncate, verb_of
from tests.gangs.outcomes import Moment, When

PODS = "/api/v1/namespaces/default/pods"
SOON_S = 0.5


def make_pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "registry.example/app:v1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def binding(name: str, node: str = "n1") -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


@asynccontextmanager
async def session_of(plane: ControlPlane, proxy: Proxy, kubeconfig: Path) -> AsyncIterator[ClientSession]:
    """A client that knows no more than the kubeconfig says."""
    content = yaml.safe_load(proxy.kubeconfig(SCHEDULER.name, kubeconfig).read_text())
    token = content["users"][0]["user"]["token"]
    server = content["clusters"][0]["cluster"]["server"]
    tls = ssl.create_default_context(cafile=str(plane.token_folder / "ca.crt"))
    headers = {"Authorization": f"Bearer {token}"}
    async with ClientSession(server, headers=headers, connector=TCPConnector(ssl=tls)) as session:
        yield session


def node_of(plane: ControlPlane, name: str) -> str | None:
    found: str | None = plane.request("GET", f"{PODS}/{name}").json()["spec"].get("nodeName")
    return found


def test_everything_passes_and_binds_and_refusals_are_counted(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The scheduler's own credentials arrive; answers come back with their status and content."""
    plane = empty_control_plane
    for name in ("a", "b"):
        plane.request("POST", PODS, make_pod(name))

    async def story() -> Proxy:
        async with Proxy(plane) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            listed = await (await session.get(PODS, params={"limit": "1"})).json()
            assert len(listed["items"]) == 1
            for name, want in (("a", 201), ("a", 409), ("b", 201), ("missing", 404)):
                assert (await session.post(f"{PODS}/{name}/binding", json=binding(name))).status == want
            # A scheduler may not make nodes.
            assert (await session.post("/api/v1/nodes", json={"metadata": {"name": "n1"}})).status == 403
            assert (await session.delete(f"{PODS}/a", json={"gracePeriodSeconds": 0})).status == 200
            return proxy

    proxy = asyncio.run(story())
    assert proxy.binds == 4
    assert proxy.accepted("bind") == {"default/a": 1, "default/b": 1}
    assert proxy.accepted("delete") == {"default/a": 1}
    assert proxy.refusals == {
        (409, "POST", "/api/v1/namespaces/*/pods/*/binding"): 1,
        (404, "POST", "/api/v1/namespaces/*/pods/*/binding"): 1,
        (403, "POST", "/api/v1/nodes"): 1,
    }


def test_a_watch_is_streamed_event_by_event(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """An event arrives while the watch stays open."""
    plane = empty_control_plane

    async def story() -> list[bytes]:
        async with Proxy(plane) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            lines = []
            async with asyncio.timeout(20), session.get(PODS, params={"watch": "1"}) as watch:
                for name in ("a", "b"):
                    await asyncio.to_thread(plane.request, "POST", PODS, make_pod(name))
                    lines.append(await watch.content.readline())
            return lines

    lines = asyncio.run(story())
    assert [b'"ADDED"' in line for line in lines] == [True, True]
    assert [f'"name":"{name}"'.encode() in line for name, line in zip("ab", lines, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("when", "want_nodes"),
    [
        pytest.param("before", {"a": "n1", "b": None, "c": None}, id="before bind 2 is forwarded"),
        pytest.param("after", {"a": "n1", "b": "n1", "c": None}, id="after bind 2 was answered"),
    ],
)
def test_at_its_moment_the_world_stands_still(
    empty_control_plane: ControlPlane, tmp_path: Path, when: When, want_nodes: dict[str, str | None]
) -> None:
    """The bind of the moment gets no answer, and no later write is forwarded; reading goes on."""
    plane = empty_control_plane
    for name in want_nodes:
        plane.request("POST", PODS, make_pod(name))

    async def unanswered(session: ClientSession, method: str, path: str, body: Any) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON_S):
                await session.request(method, path, json=body)

    async def story() -> None:
        moment = Moment(2, when)
        async with Proxy(plane, [moment.rule]) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            assert (await session.post(f"{PODS}/a/binding", json=binding("a"))).status == 201
            assert not proxy.reached.is_set()
            await unanswered(session, "POST", f"{PODS}/b/binding", binding("b"))
            assert proxy.reached.is_set()
            await unanswered(session, "POST", f"{PODS}/c/binding", binding("c"))
            await unanswered(session, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
            assert (await session.get(f"{PODS}/a")).status == 200

    asyncio.run(story())
    assert {name: node_of(plane, name) for name in want_nodes} == want_nodes


@pytest.mark.parametrize(
    ("method", "path", "query", "want"),
    [
        ("GET", "/api/v1/pods", {}, "list"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch"),
        ("GET", PODS, {}, "list"),
        ("GET", f"{PODS}/a", {}, "get"),
        ("GET", "/apis/apps/v1/replicasets", {}, "list"),
        ("GET", "/apis/apps/v1", {}, "get"),
        ("POST", PODS, {}, "create"),
        ("POST", f"{PODS}/a/binding", {}, "bind"),
        ("POST", f"{PODS}/a/eviction", {}, "evict"),
        ("PATCH", f"{PODS}/a/status", {}, "patch"),
        ("PUT", f"{PODS}/a", {}, "update"),
        ("DELETE", f"{PODS}/a", {}, "delete"),
    ],
)
def test_requests_are_called_by_what_they_do(method: str, path: str, query: dict[str, str], want: str) -> None:
    assert verb_of(method, path, query) == want


@pytest.mark.parametrize(
    ("act", "want", "want_bound"),
    [
        pytest.param(Answer(503), 503, False, id="refused before it had an effect"),
        pytest.param(Answer(500, after=True), 500, True, id="refused after it had its effect"),
        pytest.param(Answer(429, retry_after_s=2), 429, False, id="told to wait"),
        pytest.param(Answer(404, html=True), 404, False, id="a load balancer knows nothing"),
        pytest.param(Drop(), None, True, id="the answer is lost"),
        pytest.param(Delay(before_s=0.01, after_s=0.01), 201, True, id="slow"),
    ],
)
def test_a_rule_acts_on_its_own_request_only(
    empty_control_plane: ControlPlane, tmp_path: Path, act: Act, want: int | None, want_bound: bool
) -> None:
    """The second bind meets the fault; the first and third pass."""
    plane = empty_control_plane
    for name in "abc":
        plane.request("POST", PODS, make_pod(name))

    async def bind(session: ClientSession, name: str) -> int | None:
        try:
            async with session.post(f"{PODS}/{name}/binding", json=binding(name)) as answer:
                if answer.status == 429:
                    assert answer.headers["Retry-After"] == "2"
                is_html = answer.content_type == "text/html"
                assert is_html == (isinstance(act, Answer) and act.html and name == "b")
                return answer.status
        except ClientError:
            return None

    async def story() -> list[int | None]:
        rule = Rule(verb="bind", path=f"^{PODS}/", nth=2, act=act)
        async with Proxy(plane, [rule]) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            found = [await bind(session, name) for name in "abc"]
            assert [each.status for each in proxy.exchanges if each.forwarded].count(201) == 2 + want_bound
            return found

    assert asyncio.run(story()) == [201, want, 201]
    assert (node_of(plane, "b") is not None) == want_bound


def test_a_request_is_kept_back_until_it_is_released(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = empty_control_plane
    plane.request("POST", PODS, make_pod("a"))

    async def story() -> int:
        rule = Rule(verb="bind", act=Hold())
        async with Proxy(plane, [rule]) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            posted = asyncio.ensure_future(session.post(f"{PODS}/a/binding", json=binding("a")))
            await asyncio.wait_for(proxy.held.wait(), 20)
            assert await asyncio.to_thread(node_of, plane, "a") is None
            proxy.release()
            return (await posted).status

    assert asyncio.run(story()) == 201


# A client whose TLS connection is cut may not have closed its end when its loop ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("act", "want_lines", "whole"),
    [
        pytest.param(Expire(1), ["ADDED", "ERROR"], True, id="410 in the stream"),
        pytest.param(Truncate(40), [], False, id="cut in the middle of an event"),
    ],
)
def test_a_watch_ends_as_a_rule_says(
    empty_control_plane: ControlPlane, tmp_path: Path, act: Act, want_lines: list[str], whole: bool
) -> None:
    plane = empty_control_plane
    for name in "ab":
        plane.request("POST", PODS, make_pod(name))

    async def story() -> tuple[list[str], bool]:
        rule = Rule(verb="watch", act=act)
        lines: list[str] = []
        async with Proxy(plane, [rule]) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            try:
                async with asyncio.timeout(20), session.get(PODS, params={"watch": "1"}) as watch:
                    lines += [json.loads(line)["type"] async for line in watch.content]
            except (ClientError, ValueError):
                return lines, False
            return lines, True

    found = asyncio.run(story())
    gc.collect()  # here, where it may warn, and not in another test
    assert found == (want_lines, whole)


def test_a_frozen_watch_loses_nothing_and_can_be_cut(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = empty_control_plane

    async def story() -> None:
        async with (
            asyncio.timeout(20),
            Proxy(plane) as proxy,
            session_of(plane, proxy, tmp_path / "kubeconfig") as session,
            session.get(PODS, params={"watch": "1"}) as watch,
        ):
            proxy.freeze("/pods$")
            await asyncio.to_thread(plane.request, "POST", PODS, make_pod("a"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(watch.content.readline(), SOON_S)
            proxy.thaw()
            assert b'"name":"a"' in await watch.content.readline()
            assert proxy.cut("/nodes$") == 0
            assert proxy.cut("/pods$") == 1
            with pytest.raises(ClientError):
                await watch.content.readline()

    asyncio.run(story())


def test_tokens_can_expire(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """The proxy decides which token is good, and shows the API server one that it knows."""
    plane = empty_control_plane

    async def story() -> list[int]:
        found = []
        async with (
            Proxy(plane, token=plane.token_of(SCHEDULER.name)) as proxy,
            session_of(plane, proxy, tmp_path / "kubeconfig") as session,
        ):
            for proxy.accepts in ("new", "old"):
                found.append((await session.get(PODS, headers={"Authorization": "Bearer old"})).status)
        return found

    assert asyncio.run(story()) == [401, 200]
