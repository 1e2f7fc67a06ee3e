"""Lists of several kinds of one moment, from the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
from aiohttp import web

from moorage.adapters.kube import listing
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.adapters.kube.errors import NoSuchPath, NotServed, ServerError
from moorage.adapters.kube.listing import Lister
from moorage.adapters.kube.resources import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Resource
from moorage.bench.controlplane import ControlPlane

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ServerFactory

T = TypeVar("T")


def with_lister(plane: ControlPlane, use: Callable[[Lister], Awaitable[T]]) -> T:
    async def run() -> T:
        async with KubeClient(from_kubeconfig([plane.admin_kubeconfig])) as client:
            return await use(Lister(client))

    return asyncio.run(run())


def make_node(plane: ControlPlane, name: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    assert plane.request("POST", "/api/v1/nodes", node).status == 201


def names(found: list[msgspec.Raw]) -> list[str]:
    documents: list[dict[str, Any]] = [msgspec.json.decode(each) for each in found]
    return sorted(document["metadata"]["name"] for document in documents)


def test_long_lists_come_in_pages(empty_control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """No object is lost or doubled between two pages, whichever list it is."""
    monkeypatch.setattr(listing, "PAGE_SIZE", 2)
    for number in range(5):
        make_node(empty_control_plane, f"n{number}")

    async def twice(lister: Lister) -> tuple[list[str], list[str]]:
        return names(await lister.everything(NODES)), names(await lister.everything(NODES))

    first, second = with_lister(empty_control_plane, twice)
    assert first == second == ["n0", "n1", "n2", "n3", "n4"]


def test_later_lists_are_of_the_first_ones_moment(empty_control_plane: ControlPlane) -> None:
    """What came after the first list is in none of the others."""
    make_node(empty_control_plane, "before")

    async def between(lister: Lister) -> list[str]:
        await lister.everything(NAMESPACES)
        await asyncio.to_thread(make_node, empty_control_plane, "after")
        return names(await lister.everything(NODES))

    assert with_lister(empty_control_plane, between) == ["before"]


def test_a_kind_that_is_not_served_is_not_found(empty_control_plane: ControlPlane) -> None:
    """Whether or not a version is asked for."""

    async def missing(lister: Lister) -> None:
        for _ in range(2):
            with pytest.raises(NotServed):
                await lister.everything(Resource("example.com", "v1", "nothings"))
            await lister.everything(NODES)

    with_lister(empty_control_plane, missing)


def test_field_selectors_count(empty_control_plane: ControlPlane) -> None:
    """Only what the selector chooses is listed."""

    async def nothing(lister: Lister) -> list[str]:
        await lister.everything(NODES)
        return names(await lister.everything(PODS, field_selector="status.phase!=Pending,status.phase=Pending"))

    assert with_lister(empty_control_plane, nothing) == []


def test_a_404_of_somebody_else_is_no_empty_list(scripted_server: ServerFactory) -> None:
    """A load balancer that knows no backend does not make a kind one that is not served."""

    async def scenario() -> None:
        async def handler(request: web.Request) -> web.Response:
            if request.path in {"/api", "/apis"}:
                return web.json_response({"kind": "APIGroupDiscoveryList"} if request.path == "/api" else {})
            return web.Response(status=404, text="<html>no backend</html>")

        async with scripted_server(handler) as server, server.client() as client:
            with pytest.raises(ServerError, match="does not look like"):
                await Lister(client).everything(RESOURCE_CLAIMS)
            with pytest.raises(NoSuchPath):
                await Lister(client).everything(NODES)

    asyncio.run(scenario())
