"""Pods above the minimum of a gang, while its start is put on record: they have nodes, and wait for it."""

from __future__ import annotations

import pytest

from moorage.core.commands import Bind, Command, PatchPodStatus
from moorage.core.events import PodGone, PodSeen, StatusDone
from moorage.engine.invariants import check_engine
from tests.queues.teams import Teams, make_queue
from tests.queues.test_reclaiming_gangs import gang

PODS = gang("g", "a", 4, 2)


def begun() -> tuple[Teams, PatchPodStatus]:
    """A gang of at least two of four pods whose start is being recorded."""
    teams = Teams(make_queue("a", 4))
    teams.echo.pods.update({pod.uid: pod for pod in PODS})
    commands, _ = teams.engine.handle([PodSeen(pod) for pod in PODS], teams.now)
    assert _binds(commands) == []
    (record,) = (each for each in commands if isinstance(each, PatchPodStatus) and each.gang_record is not None)
    assert record.gang_record is not None
    assert sorted(record.gang_record.nodes) == ["g-0", "g-1"]
    assert "g-2" in teams.running(), "it has a node, so that nobody else gets it"
    check_engine(teams.engine)
    return teams, record


def _binds(commands: list[Command]) -> list[str]:
    return sorted(command.pod.name for command in commands if isinstance(command, Bind))


def test_they_are_bound_after_the_start_is_on_record() -> None:
    teams, record = begun()
    commands, _ = teams.engine.handle([StatusDone(record.pod.uid, ok=True, token=record.token)], teams.now)
    assert _binds(commands)[:3] == ["g-0", "g-1", "g-2"]
    check_engine(teams.engine)
    teams.play(teams.echo.events(commands))
    assert teams.running() == ["g-0", "g-1", "g-2", "g-3"]


def test_they_wait_again_if_it_could_not_be_recorded() -> None:
    teams, record = begun()
    failed = StatusDone(record.pod.uid, ok=False, message="try again", token=record.token)
    commands, _ = teams.engine.handle([failed], teams.now)
    assert (_binds(commands), teams.running()) == ([], [])
    check_engine(teams.engine)
    teams.now += 30.0
    teams.play([])
    assert teams.running() == ["g-0", "g-1", "g-2", "g-3"]


@pytest.mark.parametrize("gone", [0, 2])
def test_a_pod_that_goes_away_meanwhile(gone: int) -> None:
    """One that is needed takes all with it; the start comes again with those that are left."""
    teams, record = begun()
    commands, _ = teams.engine.handle([PodGone(PODS[gone].uid)], teams.now)
    check_engine(teams.engine)
    teams.play([StatusDone(record.pod.uid, ok=True, token=record.token), *teams.echo.events(commands)])
    teams.now += 30.0
    teams.play([])
    assert teams.running() == sorted(pod.name for pod in PODS if pod is not PODS[gone])
