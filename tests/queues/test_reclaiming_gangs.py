"""Gangs that take back a share, and gangs that give one: small and large, elastic and young ones."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.membership import GROUP_ANNOTATIONS, MIN_AVAILABLE
from moorage.core.objects import PodGroup
from moorage.core.pods import Owner, Pod
from moorage.engine import sharedroom
from tests.queues.teams import GPU, Teams, make_queue, team_pod

WORLDS = 25


def gang(name: str, queue: str, size: int, least: int | None = None, gpus: int = 1, **fields: object) -> list[Pod]:
    """Pods of a Job that start together."""
    said = {GROUP_ANNOTATIONS[0]: name, MIN_AVAILABLE: str(size if least is None else least)}
    owner = Owner("Job", name, name, "batch/v1")
    fields = {"created_s": 1000.0} | fields
    fields |= {"annotations": said, "owner": owner}
    return [team_pod(f"{name}-{n}", queue, gpus, **fields) for n in range(size)]  # type: ignore[arg-type]


def full(queues: int, nodes: int, weight: int = 1) -> Teams:
    """Nodes with 8 GPUs each that pods of queue b fill; a, and more, have their parts of it as quotas."""
    total = nodes * 8
    names = ["a", "b", *(f"c{n}" for n in range(queues - 2))]
    teams = Teams(*(make_queue(name, total // len(names), weight) for name in names), nodes=(8,) * nodes)
    teams.see(*(team_pod(f"b{n}", "b", created_s=float(n)) for n in range(total)))
    assert len(teams.running("b")) == total
    return teams


@pytest.mark.parametrize("size", [2, 8, 9, 30, 64])
def test_a_gang_takes_back_what_it_needs_and_no_more(size: int) -> None:
    teams = full(2, 16)
    teams.see(*gang("g", "a", size))
    assert len(teams.running("a")) == size
    assert len(teams.evicted) == size
    assert teams.rest() <= 1
    assert len(teams.running("a")) == size


@pytest.mark.parametrize("size", [3, 12])
@pytest.mark.parametrize("hurried", [False, True])
def test_members_that_need_several_victims_each(size: int, hurried: bool) -> None:
    """Also if every round is told to end at once."""
    teams = full(2, 8)
    teams.stop = (lambda: True) if hurried else None
    teams.see(*gang("g", "a", size, gpus=2))
    assert len(teams.running("a")) == size
    assert len(teams.evicted) == 2 * size


def test_members_of_different_priorities_do_not_replace_each_other() -> None:
    """The first member speaks for those that wait, and may stay; those that have room already keep it."""
    teams = Teams(make_queue("a", 2, limit=2), nodes=(4, 2))
    asked = itertools.count()

    def stop() -> bool:
        assert next(asked) < 10_000, "the round goes on for ever"
        return False

    teams.stop = stop
    teams.see(team_pod("old", "a"))
    teams.see(gang("g", "a", 4, 2, preemptible=False, priority=200)[0], *gang("g", "a", 4, 2)[1:])
    assert teams.running() == ["g-0", "g-1"]
    teams.rest()
    assert teams.running() == ["g-0", "g-1"]


def test_a_gang_may_have_the_name_of_a_pod_and_of_another_gang() -> None:
    """All three wait for room, are as old as each other, and one after the other is served."""
    teams = full(2, 1)
    grouped = [team_pod(f"grouped{n}", "a", group="x", created_s=1000.0) for n in range(2)]
    group = PodGroup("default", "x", uid="x", min_count=2, created_s=1000.0)
    teams.play([ObjectSeen("PodGroup", "default/x", group)])
    teams.see(team_pod("x", "a", created_s=1000.0), *gang("x", "a", 2), *grouped)
    assert len(teams.running("a")) == 3
    teams.rest()
    assert "x" in teams.running("a")


@pytest.mark.parametrize(("nodes", "size"), [(1, 5), (4, 17)])
def test_a_gang_that_is_larger_than_the_share_takes_nothing(nodes: int, size: int) -> None:
    teams = full(2, nodes)
    teams.see(*gang("g", "a", size))
    assert (teams.running("a"), teams.evicted) == ([], [])


@pytest.mark.parametrize(("least", "starts"), [(2, True), (3, False), (9, False)])
@pytest.mark.parametrize("few", [0, 8])
def test_nobody_goes_for_a_gang_whose_min_resources_are_not_met_then(
    least: int, starts: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members would fit where others were, and yet it could not start."""
    monkeypatch.setattr(sharedroom, "_FEW_MEMBERS", few)
    teams = full(2, 1)
    group = PodGroup("default", "g", uid="g", min_count=2, min_resources=FrozenDict({GPU: least}))
    teams.play([ObjectSeen("PodGroup", "default/g", group)])
    teams.see(*(team_pod(f"g-{n}", "a", group="g", created_s=1000.0) for n in range(2)))
    assert len(teams.running("a")) == len(teams.evicted) == (2 if starts else 0)
    assert teams.rest() <= 1


def test_a_gang_goes_whole_and_an_elastic_one_pod_by_pod() -> None:
    for least, left in ((4, 0), (2, 3)):
        teams = Teams(make_queue("a", 1), make_queue("b", 3))
        teams.see(*gang("v", "b", 4, least))
        assert len(teams.running("b")) == 4
        teams.see(team_pod("a0", "a"))
        assert (len(teams.running("a")), len(teams.running("b"))) == (1, left)


def test_queues_are_compared_without_the_whole_of_the_next_job() -> None:
    """An elastic job gives one pod, but its queue would have nothing left without it: the other one gives first."""
    parts = make_queue("q0", 3, parent="p"), make_queue("q1", 2, parent="p")
    teams = Teams(make_queue("p", 1), *parts, make_queue("a", 4), nodes=(5,))
    teams.see(team_pod("old", "q0"), *gang("g", "q0", 2), *gang("elastic", "q1", 2, 1))
    assert len(teams.running()) == 5
    teams.see(team_pod("a0", "a", created_s=2000.0))
    assert sorted(pod.name for pod in teams.evicted) == ["g-0", "g-1"]
    assert teams.running("a") == ["a0"]


def test_a_young_gang_gives_only_what_it_has_above_its_minimum() -> None:
    teams = Teams(make_queue("a", 3), make_queue("b", 1, reclaim_min_runtime_s=60.0))
    teams.see(*gang("v", "b", 4, 3))
    teams.see(*(replace(pod, started_s=0.0) for pod in list(teams.echo.pods.values())))
    teams.see(*(team_pod(f"a{n}", "a", created_s=float(n)) for n in range(3)))
    assert teams.running() == ["a0", "v-0", "v-1", "v-2"]
    teams.now = 61.0
    teams.play([])
    assert teams.running() == ["a0", "a1", "a2"]


@pytest.mark.parametrize("seed", range(WORLDS))
def test_both_searches_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that is placed member by member costs what one costs that is placed anew with every victim."""
    ends = []
    for few in (0, 1000):
        monkeypatch.setattr(sharedroom, "_FEW_MEMBERS", few)
        draw = random.Random(seed)
        teams = full(draw.choice([2, 4]), 3, weight=draw.choice([0, 1]))
        teams.see(*gang("g", "a", draw.randint(1, 12), gpus=draw.choice([1, 1, 2])))
        rest = teams.rest()
        ends.append((teams.running("a"), len(teams.running("b")), rest))
    assert ends[0] == ends[1]
