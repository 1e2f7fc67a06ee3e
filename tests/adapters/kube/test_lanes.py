"""Places that namespaces share: what is slow for one must not make another wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from aiohttp import web

from moorage.adapters.kube.lanes import Lane, Lanes
from moorage.core.commands import Bind, PodRef
from moorage.core.events import BindDone
from moorage.core.shares import Shares
from tests.adapters.kube.bindings import binding

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, ServerFactory


def test_shares() -> None:
    """Alone, half of the places; then half of what is left; and always one for the next namespace."""
    lane = Lane[int](Shares(128))
    taken: Counter[str] = Counter()
    for namespace in "abcdefghi":
        for number in range(500):
            lane.put(namespace, number)
        while (found := lane.take()) is not None:
            taken[found[0]] += 1
    assert taken == {"a": 64, "b": 32, "c": 16, "d": 8, "e": 4, "f": 2, "g": 1, "h": 1}
    lane.leave("a")
    assert lane.take() == ("i", 0)


def test_namespaces_take_turns() -> None:
    """A namespace that has queued more does not come more often."""
    lane = Lane[int](Shares(100))
    for number in range(6):
        lane.put("a", number)
    for number in range(2):
        lane.put("b", number)
    found = [lane.take() for _ in range(5)]
    assert found == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]


def test_everything_comes_out_once() -> None:
    """Whatever the number of workers and namespaces, and nothing of it is kept."""

    async def scenario() -> None:
        lanes = Lanes[int](8, 6, 4)
        done: list[int] = []

        async def do(item: int) -> None:
            await asyncio.sleep(0)
            done.append(item)

        working = asyncio.create_task(lanes.work(do))
        for number in range(1000):
            lanes.put(f"n{number % 7}", number, number % 3)
        assert await lanes.drained(20)
        working.cancel()
        assert sorted(done) == list(range(1000))
        assert not any(lane.waiting or any(shares._taken_by for shares in lane._shares) for lane in lanes._lanes)

    asyncio.run(scenario())


def test_binds_of_others_do_not_wait_for_slow_ones(scripted_server: ServerFactory, clock: Clock) -> None:
    """300 binds of a namespace that hang, 64 of them under way; 20 of another are posted and answered meanwhile."""
    thaw = asyncio.Event()
    running: Counter[str] = Counter()

    async def handler(request: web.Request) -> web.StreamResponse:
        namespace = request.path.split("/")[4]
        running[namespace] += 1
        if namespace == "slow":
            await thaw.wait()
        return web.json_response({})

    async def scenario() -> None:
        async with binding(scripted_server, handler, clock) as (_, binder, done):
            for number in range(300):
                binder.submit(Bind(PodRef("slow", f"p{number}", f"s{number}"), "n"))
            while running["slow"] < 64:  # noqa: ASYNC110 - counted by the server
                await asyncio.sleep(0.01)
            for number in range(20):
                binder.submit(Bind(PodRef("other", f"p{number}", f"o{number}"), "n"))
            async with asyncio.timeout(20):
                while len(done) < 20:  # noqa: ASYNC110 - the binder reports to a list
                    await asyncio.sleep(0.01)
            assert {each.uid[0] for each in done if isinstance(each, BindDone)} == {"o"}
            assert running["slow"] == 64
            thaw.set()
            assert await binder.drained(20)
            assert len(done) == 320

    asyncio.run(scenario())
