"""The proxy of the crash drill, between plain requests and the real API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession, TCPConnector

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from tests.gangs.proxy import BindProxy, Moment, When

PODS = "/api/v1/namespaces/default/pods"
SOON_S = 0.5


def make_pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "registry.example/app:v1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def binding(name: str, node: str = "n1") -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


@asynccontextmanager
async def session_of(plane: ControlPlane, proxy: BindProxy, kubeconfig: Path) -> AsyncIterator[ClientSession]:
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

    async def story() -> BindProxy:
        async with BindProxy(plane) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
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
    assert proxy.bound == {"default/a": 1, "default/b": 1}
    assert proxy.deleted == {"default/a": 1}
    assert proxy.refusals == {
        (409, "POST", "/api/v1/namespaces/*/pods/*/binding"): 1,
        (404, "POST", "/api/v1/namespaces/*/pods/*/binding"): 1,
        (403, "POST", "/api/v1/nodes"): 1,
    }


def test_a_watch_is_streamed_event_by_event(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """An event arrives while the watch stays open."""
    plane = empty_control_plane

    async def story() -> list[bytes]:
        async with BindProxy(plane) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
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
        async with BindProxy(plane, moment) as proxy, session_of(plane, proxy, tmp_path / "kubeconfig") as session:
            assert (await session.post(f"{PODS}/a/binding", json=binding("a"))).status == 201
            assert not proxy.reached.is_set()
            await unanswered(session, "POST", f"{PODS}/b/binding", binding("b"))
            assert proxy.reached.is_set()
            await unanswered(session, "POST", f"{PODS}/c/binding", binding("c"))
            await unanswered(session, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
            assert (await session.get(f"{PODS}/a")).status == 200

    asyncio.run(story())
    assert {name: node_of(plane, name) for name in want_nodes} == want_nodes
