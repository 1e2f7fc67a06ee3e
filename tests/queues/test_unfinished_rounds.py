"""Rounds of making room that are told to end in every turn: however much waits, they get on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from moorage.core.commands import DeletePod
from moorage.core.events import Event, PodSeen
from moorage.core.pods import Pod
from moorage.engine.roomparts import Order
from moorage.engine.sharedroom import RoomRound
from moorage.engine.trial import Trial
from moorage.engine.units import Unit
from tests.queues.teams import Teams, make_queue, team_pod

WAITING = 256


class Counts:
    """What is done for rounds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rounds = 0
        self.looks: Counter[str] = Counter()
        """Pod -> how often it was found out whether a node could hold it."""
        make, could_fit = RoomRound.make, Trial.could_fit

        def counted(room: RoomRound, units: list[Unit], looks: int) -> list[Order]:
            self.rounds += 1
            return make(room, units, looks)

        def looked(trial: Trial, pod: Pod) -> bool:
            self.looks[pod.name] += 1
            return could_fit(trial, pod)

        patch.setattr(RoomRound, "make", counted)
        patch.setattr(Trial, "could_fit", looked)


def crowded() -> tuple[Teams, list[Pod]]:
    """Queues a and b have more than their shares; many pods of a wait, no two alike, and one of c that may reclaim."""
    teams = Teams(make_queue("a", 1), make_queue("b", 1), make_queue("c", 1), nodes=(4, 4))
    running = [team_pod(f"{'ab'[n % 2]}{n}", "ab"[n % 2], created_s=float(n)) for n in range(8)]
    teams.see(*(replace(pod, node=f"n{number // 4}") for number, pod in enumerate(running)))
    waiting = [team_pod(f"w{n}", "a", cpu=f"{n + 1}m", created_s=10.0 + n) for n in range(WAITING)]
    return teams, [*waiting, team_pod("c0", "c", created_s=1000.0)]


def until_room_is_made(teams: Teams, pods: list[Pod]) -> None:
    """Turn after turn is told to end, until somebody has to go."""
    teams.echo.pods.update({pod.uid: pod for pod in pods})
    events: list[Event] = [PodSeen(pod) for pod in pods]
    for turn in range(10 * WAITING):
        commands, _ = teams.engine.handle(events, 1.0 + turn / 1000, stop=lambda: True)
        if any(isinstance(command, DeletePod) for command in commands):
            return
        events = teams.echo.events(commands)
    raise AssertionError("room is never made")


def test_many_different_pods_that_get_no_room_do_not_keep_a_share_from_another_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every turn looks at all that wait, so it tries a part of them, not one."""
    teams, pods = crowded()
    counts = Counts(monkeypatch)
    until_room_is_made(teams, pods)
    assert counts.rounds <= WAITING // 3
    assert teams.engine._rooms.unfinished


def test_whether_a_node_could_hold_a_pod_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again by every turn that goes on with a round."""
    teams, pods = crowded()
    counts = Counts(monkeypatch)
    until_room_is_made(teams, pods)
    assert set(counts.looks.values()) == {1}
    assert len(counts.looks) == len(pods)


def test_nothing_is_remembered_of_a_round_that_is_finished() -> None:
    """What was tried in vain belongs to one state, and is gone with the round."""
    teams, pods = crowded()
    until_room_is_made(teams, pods)
    memory = teams.engine._rooms._memory
    assert memory._suits
    teams.play([])
    teams.stop = None
    teams.rest()
    assert not teams.engine._rooms.unfinished
    assert (len(memory.hopeless), len(memory._suits)) == (0, 0)
