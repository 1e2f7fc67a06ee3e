"""Time-based shares in the engine: a team that had much lately gives way to one that had nothing."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.framework.profiles import Profile
from tests.queues.teams import GPU, Teams, hasty, make_queue, team_pod

WINDOW_S = 4800.0


def profiles(factor: float) -> Sequence[Profile]:
    return hasty(usage_factor=factor, usage_window_seconds=WINDOW_S)


def an_hour_alone(factor: float) -> Teams:
    """Team a has all 16 GPUs for an hour; then b wants them, too."""
    teams = Teams(make_queue("a"), make_queue("b"), nodes=(16,), profiles=profiles(factor))
    teams.see(*(team_pod(f"a{n}", "a") for n in range(16)))
    while teams.now < 3600.0:
        teams.now += 60.0
        teams.play([])
    teams.see(*(team_pod(f"b{n}", "b", created_s=3600.0) for n in range(16)))
    return teams


def test_who_had_everything_gives_more_than_half() -> None:
    """Without it both have their halves."""
    halves = an_hour_alone(0.0)
    assert (len(halves.running("a")), len(halves.running("b"))) == (8, 8)
    teams = an_hour_alone(0.4)
    a, b = len(teams.running("a")), len(teams.running("b"))
    assert a + b == 16
    assert b > 10


def test_shares_meet_again_and_evictions_end() -> None:
    """With time both have used the same; on the way there the shares move a little, and settle each time."""
    teams = an_hour_alone(0.4)
    teams.rest()
    evicted = 0
    for _ in range(int(3 * WINDOW_S / 60)):
        teams.now += 60.0
        teams.play([])
        evicted += len(teams.evicted)
        teams.rest()
    tree = teams.engine.state.queues.settle(teams.engine.state)
    index = tree.resources.index(GPU)
    assert abs(tree.nodes["a"].share[index] - tree.nodes["b"].share[index]) <= 2000
    assert evicted < 16 * 3


def test_the_engine_wakes_up_for_it_and_nothing_is_noted_without() -> None:
    teams = an_hour_alone(0.4)
    _, next_s = teams.engine.handle([], teams.now)
    assert next_s is not None
    assert next_s - teams.now <= WINDOW_S / 48
    assert an_hour_alone(0.0).engine._rooms.usage.samples == []
