"""The loop between the outside and the engine: how far decisions run ahead of what was answered."""

from __future__ import annotations

import asyncio
import itertools

from moorage.app.loop import DecisionLoop
from moorage.core.commands import Bind, Command
from moorage.core.events import NodeSeen, PodSeen, TermBegan
from moorage.engine.engine import Engine
from moorage.framework.cycle import Cycle
from moorage.framework.status import Hold
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.actors import PreBinder
from tests.engine.play import small_profile

GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "257"}


def test_a_gang_that_waits_for_its_last_member_stops_nobody_else() -> None:
    """256 members may be bound and one is held in PreBind: others are decided on all the same."""

    def slowly(cycle: Cycle) -> Hold | None:
        return Hold(cycle.now + 600) if cycle.pod.name == "g-256" else None

    engine = Engine([small_profile(PreBinder(slowly), GangScheduling())])
    bound = asyncio.Event()

    def carry_out(command: Command) -> None:
        if isinstance(command, Bind):
            assert command.pod.name == "other"
            bound.set()

    async def run() -> None:
        loop = DecisionLoop(engine, carry_out)
        loop.put(NodeSeen(make_node("n1", cpu="1000", pods=1000)))
        loop.put_all(PodSeen(make_pod(f"g-{number:03}", cpu="1", annotations=GANG)) for number in range(257))
        loop.start_deciding()
        running = asyncio.create_task(loop.run())
        while len(engine.bindings) < 257:  # noqa: ASYNC110 - the loop tells nobody of its turns
            await asyncio.sleep(0)
        loop.put(PodSeen(make_pod("other", cpu="1")))
        await asyncio.wait_for(bound.wait(), 20)
        running.cancel()

    asyncio.run(run())


def test_what_is_told_is_taken_over_after_everything_before_it() -> None:
    """However many turns that takes: a new leader knows all that was listed before it decides."""
    engine = Engine([small_profile()])
    readings = itertools.count()

    async def run() -> None:
        loop = DecisionLoop(engine, lambda _: None, timer_s=lambda: float(next(readings)))  # one event a turn
        loop.put_all(NodeSeen(make_node(f"n{number}")) for number in range(7))
        running = asyncio.create_task(loop.run())
        await asyncio.wait_for(loop.tell(TermBegan("1/me")), 20)
        running.cancel()

    asyncio.run(run())
    assert (engine.state.node_count, engine.gangs.term) == (7, "1/me")
