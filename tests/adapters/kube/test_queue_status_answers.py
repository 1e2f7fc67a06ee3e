"""The status of queues is written whatever a list of queues is answered with, and an odd object harms no other one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from moorage.adapters.kube import listing
from moorage.app.queuestatus import write_queue_statuses
from moorage.core.events import ObjectSeen
from moorage.core.queues import QUEUE, Queue
from moorage.engine.engine import Engine
from tests.sim.whatif_rules import default_rules

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ServerFactory

SINCE = "2020-01-01T00:00:00Z"
GOOD = (
    f'{{"metadata":{{"name":"q"}},"status":{{"conditions":'
    f'[{{"type":"Ready","status":"True","lastTransitionTime":"{SINCE}"}}]}}}}'
)
DEEP = f'{{"metadata":{{"name":"deep","managedFields":{"[" * 100_000}{"]" * 100_000}}}}}'


class Enough(Exception):  # noqa: N818 - not an error
    """One round is over."""


def page(*items: str, token: str = "") -> str:
    return f'{{"metadata":{{"continue":"{token}"}},"items":[{",".join(items)}]}}'


def written_since(factory: ServerFactory, pages: dict[str, str]) -> str:
    """The time that one round writes on the queue q, with lists that are answered so, by the token of each page."""

    async def scenario() -> str:
        async def handler(request: web.Request) -> web.Response:
            if request.method == "GET":
                return web.Response(text=pages[request.query.get("continue", "")], content_type="application/json")
            return web.json_response({"metadata": {"name": "q", "resourceVersion": "2"}})

        rounds = iter([1])

        async def sleep(_: float) -> None:
            if next(rounds, None) is None:
                raise Enough

        engine = Engine(default_rules().profiles, answers_to_all=True)
        engine.handle([ObjectSeen(QUEUE, "q", Queue("q", "u"))], 0.0, budget=0)
        async with factory(handler) as server, server.client() as client:
            with pytest.raises(Enough):
                await write_queue_statuses(engine, client, lambda: True, sleep)
            (patch,) = (each for each in server.seen if each.method == "PATCH")
            return str(patch.json()["status"]["conditions"][0]["lastTransitionTime"])

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "item",
    [
        pytest.param("null", id="null"),
        pytest.param('"text"', id="no object"),
        pytest.param('{"metadata":{"name":"odd"},"status":{"conditions":["x"]}}', id="a condition that is a text"),
        pytest.param('{"status":{"conditions":[{"type":"Ready","lastTransitionTime":"t"}]}}', id="no name"),
        pytest.param(DEEP, id="nested deeply"),
    ],
)
def test_an_odd_object_concerns_itself_alone(scripted_server: ServerFactory, item: str) -> None:
    """What the other one says about its condition is kept."""
    assert written_since(scripted_server, {"": page(item, GOOD)}) == SINCE


@pytest.mark.parametrize("answer", ["[]", "null", '"text"', "{}", "<html>", '{"metadata":{},"items":{}}'])
def test_an_answer_that_is_no_list_is_an_unknown_past(scripted_server: ServerFactory, answer: str) -> None:
    """The status is written all the same, with the time of now."""
    assert written_since(scripted_server, {"": answer}) > SINCE


def test_long_lists_come_in_pages(scripted_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is on the second one."""
    monkeypatch.setattr(listing, "PAGE_SIZE", 1)
    pages = {"": page('{"metadata":{"name":"other"}}', token="t"), "t": page(GOOD)}
    assert written_since(scripted_server, pages) == SINCE
