"""Pods of queues that have to give way to other namespaces, or whose attempts go on later, are tried once each."""

from __future__ import annotations

import pytest

from moorage.core.events import PodSeen
from moorage.engine.queue import SchedulingQueue
from tests.queues.teams import Teams, make_queue, team_pod

_SLOW_S = 10.0


def waiting() -> SchedulingQueue:
    """Four pods of a queue, none of which was tried."""
    teams = Teams(make_queue("a", 4))
    teams.engine.handle([PodSeen(team_pod(f"p{number}", "a")) for number in range(4)], 0.0, budget=0)
    return teams.engine.queue


def popped(queue: SchedulingQueue, now: float) -> list[str]:
    queue.admit(now, 0)
    found = []
    while (unit := queue.pop(now)) is not None:
        found.append(unit.pod.name)
    return found


@pytest.mark.parametrize("again", [False, True], ids=["as it was", "sorted again"])
def test_units_that_give_way_come_once(*, again: bool) -> None:
    """Also if all active units are sorted again meanwhile, as after each round of making room."""
    queue = waiting()
    queue.pacing.slow("default", _SLOW_S, 0.0, _SLOW_S)
    assert popped(queue, 0.0) == []
    if again and queue.shared is not None:
        queue.shared.renew(())
        assert popped(queue, 0.0) == []
    first = queue.pop_slow(0.0)
    assert first is not None
    assert sorted([first.pod.name, *popped(queue, _SLOW_S)]) == ["p0", "p1", "p2", "p3"]


def test_an_attempt_that_goes_on_later_is_one() -> None:
    """The same for units whose attempts are not finished."""
    queue = waiting()
    queue.admit(0.0, 9)
    first = queue.pop(0.0)
    assert first is not None
    queue.postpone(first, 0.0)
    assert queue.shared is not None
    queue.shared.renew(())
    second = queue.pop(0.0)
    assert second is not None
    assert [first.pod.name, second.pod.name, *popped(queue, 1.0)] == ["p0", "p1", "p0", "p2", "p3"]
