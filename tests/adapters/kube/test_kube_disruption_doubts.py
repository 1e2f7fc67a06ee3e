"""Answers to evictions and writes on nodes that prove nothing: proxies, and a Status about something else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.adapters.kube.disruptions import Disruptions
from moorage.core.commands import ClearNode, EvictPod, PatchNode, PodRef
from moorage.core.events import EvictDone, EvictOutcome
from moorage.core.frozen import FrozenDict

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ServerFactory

POD = PodRef("ns", "p", "uid-1")
Answer = Callable[[], web.Response]


def html(status: int = 404) -> Answer:
    return lambda: web.Response(status=status, text="<html>no backend</html>")


def missing(kind: str, name: str) -> Answer:
    details = {"kind": kind, "name": name}
    status: dict[str, Any] = {"kind": "Status", "code": 404, "reason": "NotFound", "details": details}
    return lambda: web.json_response(status, status=404)


def pod(uid: str = "uid-1") -> Answer:
    return lambda: web.json_response({"metadata": {"uid": uid, "name": "p"}, "spec": {}})


def carried_out(
    factory: ServerFactory, answers: dict[str, Answer], use: Callable[[Disruptions], Any]
) -> tuple[Any, list[str]]:
    """What came of it, and which requests were made."""

    async def scenario() -> tuple[Any, list[str]]:
        async def handler(request: web.Request) -> web.Response:
            return answers[request.method]()

        async with factory(handler) as server, server.client() as client:
            came = await use(Disruptions(client, lambda _: None))
            return came, [seen.method for seen in server.seen]

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("post", "get", "want"),
    [
        pytest.param(html(), pod(), EvictOutcome.FAILED, id="404 of a load balancer"),
        pytest.param(missing("pods", "p"), missing("pods", "p"), EvictOutcome.GONE, id="gone"),
        pytest.param(missing("pods", "p"), pod("uid-2"), EvictOutcome.GONE, id="another pod of that name"),
        pytest.param(missing("pods", "p"), pod(), EvictOutcome.FAILED, id="404, but it is there"),
        pytest.param(missing("namespaces", "ns"), html(), EvictOutcome.FAILED, id="404, and nobody can tell"),
        pytest.param(
            missing("namespaces", "ns"), missing("namespaces", "ns"), EvictOutcome.FAILED, id="404 of something else"
        ),
    ],
)
def test_a_pod_is_gone_only_if_the_server_says_so_of_it(
    scripted_server: ServerFactory, post: Answer, get: Answer, want: EvictOutcome
) -> None:
    """A pod that is taken for gone is not moved from a node that goes."""
    command = EvictPod(POD, "n1", "fallback")
    done, _ = carried_out(scripted_server, {"POST": post, "GET": get}, lambda each: each.evict(command))
    assert isinstance(done, EvictDone)
    assert done.outcome is want


@pytest.mark.parametrize("get", [html(), html(200), missing("namespaces", "x")], ids=["404", "200", "something else"])
def test_nothing_is_deleted_on_the_word_of_a_proxy(scripted_server: ServerFactory, get: Answer) -> None:
    """Pods are deleted without grace only if the API server has said that their node does not exist."""
    answers = {"GET": get, "DELETE": pod()}
    assert carried_out(scripted_server, answers, lambda each: each.clear(ClearNode("n1", (POD,)))) == (0, ["GET"])


def test_a_node_that_could_not_be_written_is_tried_again(scripted_server: ServerFactory) -> None:
    """A 404 of a load balancer does not mean that the node is gone, and with it the need to write."""
    command = PatchNode("n1", "u", True, FrozenDict())
    done, _ = carried_out(scripted_server, {"PATCH": html()}, lambda each: each.patch(command))
    assert not done.ok
