"""Searches in vain are left out by amounts, and a pod that leaves wakes only whom it helps; all else is the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moorage.core.commands import Bind, DeletePod
from moorage.core.events import PodGone
from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.roomprospects import RoomProspects
from moorage.engine.sharedroom import RoomRound
from moorage.engine.waking import Waking
from moorage.testing import make_pod
from tests.queues.teams import Teams, make_queue, random_teams, team_pod
from tests.queues.test_reclaiming_gangs import gang

WORLDS = 60
WAITING = 300


def _told(seed: int) -> list[tuple[str, str, str]]:
    """What is bound and evicted in a random history: pods and gangs come, go and come back."""
    draw = random.Random(seed)
    teams, pods = random_teams(draw)
    queues = sorted({pod.template.labels["moorage.dev/queue"] for pod in pods})
    for number in range(draw.randint(0, 2)):
        least, size = draw.randint(1, 2), draw.randint(2, 4)
        fields = {"priority": draw.choice([50, 60]), "created_s": float(draw.randint(0, 10))}
        pods += gang(f"g{number}", draw.choice(queues), size, least, draw.randint(1, 2), **fields)
    draw.shuffle(pods)
    for pod in pods:
        teams.see(pod)
        running = sorted(record.pod.uid for record in teams.engine.state.records())
        if running and draw.random() < 0.3:
            teams.end(teams.echo.pods[draw.choice(running)])
        if draw.random() < 0.3:
            teams.come_back()
        teams.now += draw.choice([0.0, 20.0])
    kinds = (Bind, DeletePod)
    commands = (each for each in teams.commands if isinstance(each, kinds))
    return [(type(each).__name__, each.pod.name, getattr(each, "node", "")) for each in commands]


@pytest.mark.parametrize("seed", [*range(WORLDS), 1436, 1585, 1976, 2529])
def test_the_same_is_done_as_if_everything_were_searched(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 1436 a pod that may not be evicted gets room by a move. In the last three others would come first if attempts
    in vain counted, which are left out: whoever has failed more often waits longer.
    """
    monkeypatch.setattr(Backoff, "after", lambda *_: 0.0)
    found = _told(seed)
    monkeypatch.setattr(RoomProspects, "hopeful", lambda _, units, __: units)
    monkeypatch.setattr(RoomProspects, "could", lambda *_: True)
    monkeypatch.setattr(Waking, "worth_trying", lambda *_: True)
    assert found == _told(seed)


def _crowded(preemptible: bool, gpus: int) -> tuple[Teams, list[Pod]]:
    """Queue b runs on all GPUs; pods of queue a wait, no two alike."""
    teams = Teams(make_queue("a", 20), make_queue("b", 20), nodes=(4,) * 10)
    running = [team_pod(f"b{n}", "b", created_s=float(n), preemptible=preemptible) for n in range(40)]
    teams.see(*(replace(pod, node=f"n{number // 4}") for number, pod in enumerate(running)))
    waiting = [team_pod(f"w{n}", "a", gpus, cpu=f"{n + 1}m", created_s=100.0 + n) for n in range(WAITING)]
    teams.see(*waiting)
    return teams, running


@pytest.mark.parametrize(("preemptible", "gpus"), [(False, 1), (True, 5)])
def test_neighbours_of_many_that_wait_in_vain(preemptible: bool, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be taken for them, or no node could hold them even so: no set of victims is tried for any."""
    teams, _ = _crowded(preemptible, gpus)
    tries: list[object] = []
    monkeypatch.setattr(RoomRound, "_try", lambda *each: tries.append(each))
    tried = sum(entry.attempts for entry in teams.engine.queue.entries())
    for number in range(20):
        pod = make_pod(f"x{number}", cpu="1", scheduler_name="moorage")
        teams.see(pod)
        assert pod.name in teams.running()
        teams.play([PodGone(pod.uid)])
    assert not tries
    assert sum(entry.attempts for entry in teams.engine.queue.entries()) == tried, "the others were tried"


def test_a_pod_that_leaves_lets_in_whoever_fits_there() -> None:
    teams, running = _crowded(preemptible=False, gpus=1)
    teams.end(running[17])
    assert teams.running("a") == ["w0"]
