"""A scheduler that checks itself: what is wrong is found between turns, at a bounded cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moorage.app.loop import DecisionLoop
from moorage.app.selfcheck import SelfCheck
from moorage.core.commands import Command
from moorage.core.events import NodeSeen, PodSeen
from moorage.core.invariants import InvariantError
from moorage.engine.engine import Engine
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import small_profile


def lose_a_pod(engine: Engine) -> None:
    del engine.queue._unschedulable["default/waits"]


def count_wrongly(engine: Engine) -> None:
    engine.state.resources.requested[0, 0] += 1


def forget_a_bind(engine: Engine) -> None:
    engine.bindings._posted.clear()


def nominate_a_pod_that_is_unknown(engine: Engine) -> None:
    engine.state.nominations.set(make_pod("stranger"), "n1")


@pytest.mark.parametrize(
    ("mistake", "want"),
    [
        (count_wrongly, "requested columns differ"),
        (forget_a_bind, "binds under way are counted wrongly"),
        (nominate_a_pod_that_is_unknown, "nominated to n1, but not in the queue"),
        (lose_a_pod, "listed in"),
    ],
)
def test_a_mistake_ends_the_loop_before_more_is_written(mistake: Callable[[Engine], None], want: str) -> None:
    """With one line that says what is wrong; the commands of that turn are not carried out."""
    engine = Engine([small_profile()])
    carried_out: list[Command] = []
    loop = DecisionLoop(engine, carried_out.append, selfcheck=SelfCheck(engine, lambda: 0.0))
    loop.put(NodeSeen(make_node("n1", cpu="2")))
    loop.put_all(PodSeen(make_pod(name, cpu=cpu)) for name, cpu in (("fits", "1"), ("waits", "4"), ("too", "4")))
    loop.start_deciding()
    loop._turn()
    assert carried_out
    carried_out.clear()
    mistake(engine)
    loop.put(PodSeen(make_pod("last", cpu="1")))
    with pytest.raises(InvariantError, match=want):
        asyncio.run(loop.run())
    assert carried_out == []


def test_checks_take_a_tenth_of_the_time() -> None:
    """However long one of them takes: the next waits for nine times as long."""
    engine = Engine([small_profile()])
    reads = iter([0.0, 0.0, 2.0, 19.9, 20.0, 20.1])
    check = SelfCheck(engine, lambda: next(reads))
    check.look()
    nominate_a_pod_that_is_unknown(engine)
    check.look()
    with pytest.raises(InvariantError):
        check.look()
