"""Many units for which every search is long and in vain: what is tried is bounded, and everybody has a turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from moorage.core.events import PodGone
from moorage.core.labelnames import HOSTNAME
from moorage.core.pods import Pod
from moorage.engine.packings import PartCounts
from moorage.engine.roomefforts import MOST_AT_ONCE, MOST_TRIES, TRIES_PER_S, RoomEfforts, RoomRequest
from moorage.engine.sharedroom import RoomRound
from moorage.testing import make_pod
from tests.queues.teams import Teams, make_queue, team_pod
from tests.queues.vain import SHAPES, Minute

NODES, WAITING = 10, 200
SMALL = 16
"""What one round may try beside its allowance: whether units fit as it is."""


def _crowd(priority: Callable[[int], int] = lambda _: 50) -> Teams:
    """Pods of queue b leave one GPU on every node. By amounts each could move; but on n9, all must stay on their nodes.

    Pods of queue a wait for two GPUs on one of the other nodes, no two alike.
    """
    teams = Teams(make_queue("a", 10), make_queue("b", 40), nodes=(4,) * NODES)
    pods = [team_pod(f"b{n}", "b", created_s=float(n), node_selector=_on(n // 3)) for n in range(3 * NODES - 3)]
    pods += [team_pod(f"b{n}", "b", created_s=float(n)) for n in range(3 * NODES - 3, 3 * NODES)]
    teams.see(*(replace(pod, node=f"n{number // 3}") for number, pod in enumerate(pods)))
    fields: list[dict[str, Any]] = [
        {"cpu": f"{n + 1}m", "created_s": 100.0 + n, "node_selector": _on(n % (NODES - 1)), "priority": priority(n)}
        for n in range(WAITING)
    ]
    teams.see(*(team_pod(f"w{n}", "a", 2, **each) for n, each in enumerate(fields)))
    return teams


def _on(node: int) -> dict[str, str]:
    return {HOSTNAME: f"n{node}"}


def _neighbour(teams: Teams, number: int) -> Pod:
    """A second later a pod of somebody else comes and goes; nothing is the same as before."""
    teams.now += 1.0
    pod = make_pod(f"x{number}", cpu="1", scheduler_name="moorage")
    teams.see(pod)
    assert pod.name in teams.running()
    teams.play([PodGone(pod.uid)])
    return pod


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One for every set of victims that is tried."""
    found: list[object] = []
    attempt = RoomRound._try

    def counted(room: RoomRound, *args: Any) -> Any:
        found.append(args)
        return attempt(room, *args)

    monkeypatch.setattr(RoomRound, "_try", counted)
    return found


def test_what_is_tried_in_vain_is_bounded_however_often_something_changes(tries: list[object]) -> None:
    """All searches after one change are more than 5,000 tries."""
    teams = _crowd()
    assert len(tries) < 2 * MOST_TRIES
    for number in range(30):
        before = len(tries)
        _neighbour(teams, number)
        assert len(tries) - before <= 3 * (MOST_AT_ONCE + SMALL)  # it came, was bound, and went
    before = len(tries)
    for number in range(30):
        _neighbour(teams, number)
    assert len(tries) - before <= 30 * (TRIES_PER_S + SMALL)


@pytest.mark.parametrize("priority", [50, 40])
def test_who_could_get_room_gets_it(priority: int) -> None:
    """It comes last, is the least important, and something changes every second."""
    teams = _crowd()
    for number in range(60):
        _neighbour(teams, number)
    teams.see(team_pod("late", "a", 2, created_s=1000.0, priority=priority, node_selector=_on(NODES - 1)))
    for number in range(60, 180):
        if "late" in teams.running():
            break
        teams.come_back()
        _neighbour(teams, number)
    assert "late" in teams.running()


def test_it_comes_to_rest(tries: list[object]) -> None:
    """If nothing happens, everybody is tried once more, and then nobody."""
    teams = _crowd()
    for _ in range(600):
        if teams.engine._rooms._efforts.next_s == inf:
            break
        teams.now = max(teams.now, teams.engine._rooms._efforts.next_s)
        teams.play([])
    assert teams.engine._rooms._efforts.next_s == inf
    assert all(len(leaf.done) == WAITING for leaf in teams.engine._rooms._efforts._leaves.values())
    before = len(tries)
    for _ in range(10):
        teams.now += 1.0
        teams.play([])
    assert len(tries) == before


def test_a_search_goes_on_though_the_engine_is_called_in_between() -> None:
    """Every tick is a call in which nothing has changed; the last of those who wait could get room."""
    teams = _crowd()
    teams.see(team_pod("late", "a", 2, created_s=1000.0, priority=40, node_selector=_on(NODES - 1)))
    for _ in range(1000):
        if "late" in teams.running():
            break
        teams.now += 0.3
        teams.play([])
    assert "late" in teams.running()


class _Unit:
    """As much of a unit as efforts know."""

    def __init__(self, number: int, amount: int) -> None:
        self.uid, self.number, self.amount = f"u{number}", number, amount


def _laps(units: list[_Unit], rounds: int, *, alike: bool) -> list[list[str]]:
    """Who is chosen in each round, one a second, in which something changes and nobody gets anything."""
    leaf, found = object(), list[list[str]]()
    efforts: Any = RoomEfforts(8.0)
    efforts.charge(leaf, 9)

    def asking(unit: _Unit) -> RoomRequest | None:
        return RoomRequest("like", (unit.amount,)) if alike else None

    def key(unit: _Unit) -> tuple[int]:
        return (unit.number,)

    for second in range(rounds):
        efforts.changed()
        chosen = efforts.choose(units, second + 1.0, lambda _: leaf, key, asking)
        efforts.charge(leaf, 2 * len(chosen))
        efforts.ended(asking, (), cut=False)
        found.append([unit.uid for unit in chosen])
    return found


def test_nobody_has_a_second_turn_before_everybody_had_one() -> None:
    units = [_Unit(number, 5) for number in range(20)]
    turns = [uid for lap in _laps(units, 60, alike=False) for uid in lap]
    assert sorted(turns[:20]) == sorted(turns[20:40]) == sorted(unit.uid for unit in units)


def test_of_many_that_ask_for_more_than_one_in_vain_each_has_a_turn_now_and_then() -> None:
    units = [_Unit(number, 5 + number) for number in range(40)]
    rounds = _laps(units, 400, alike=True)
    turns = [uid for lap in rounds for uid in lap]
    assert {unit.uid for unit in units} <= set(turns)
    assert turns.count("u0") >= 10


@pytest.mark.parametrize(("amount", "fits"), [(3, True), (4, False), (9, False)])
def test_parts_of_all_sizes_decide_whether_more_could_have_room(amount: int, fits: bool) -> None:
    """Rows of 7 and 5 hold four pieces of 2: at most 3 of what is left lie together."""
    packing = PartCounts(np.array([7, 5], dtype=np.int64), {2: 4})
    assert packing.holds([amount]) is fits


@pytest.mark.parametrize("name", SHAPES)
def test_neighbours_are_placed_beside_those_that_wait_in_vain(name: str) -> None:
    """For whatever reason the pods of a queue wait, nobody is evicted for them, and others find a node."""
    minute = Minute(SHAPES[name], 40)
    figures = minute.play(5)
    assert len(figures.neighbours_s) == 5
    assert figures.evictions == 0
