"""Evictions for one reason keep what holds for all: budgets, and pods that nobody makes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from moorage.core.commands import DeletePod, RecordEvent
from moorage.core.disruption.ledger import BUDGET
from moorage.core.events import DeleteDone, ObjectSeen, PodGone
from moorage.core.gangrecords import STARTED
from moorage.core.gangs import COSCHEDULING_KIND
from moorage.core.membership import GROUP_LABEL
from moorage.core.objects import COSCHEDULING_GROUPS, PodDisruptionBudget, PodGroup
from moorage.core.pods import RUNNING, Owner, Pod
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE_LABEL
from moorage.core.selectors import selector_from_labels
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.default_preemption import DefaultPreemptionArgs
from moorage.plugins.fair_share import FairShareArgs
from moorage.plugins.gang_scheduling import GangSchedulingArgs
from moorage.testing import make_node, make_pod
from tests.engine.play import Play
from tests.queues.teams import Teams, make_queue, team_pod

JOB, DAEMONS = Owner("Job", "j", "j", "batch/v1"), Owner("DaemonSet", "d", "d", "apps/v1")
ON_N0 = {"kubernetes.io/hostname": "n0"}


def profiles(*, release_bare_pods: bool = False, strict: bool = False, **terms: Any) -> Sequence[Profile]:
    """The default profile; `strict` is for preemption, `terms` are arguments of FairShare."""
    shares = FairShareArgs(**{"min_runtime_seconds": 0.0, "wait_for_ends_seconds": 0.0, **terms})
    gangs = GangSchedulingArgs(release_bare_pods=release_bare_pods)
    preemption = DefaultPreemptionArgs(pdb_policy="Strict" if strict else "BestEffort")
    written = ProfileConfiguration(
        args={"FairShare": shares, "GangScheduling": gangs, "DefaultPreemption": preemption},
    )
    return build_profiles(Configuration(profiles=(written,)), Registry(BUILTIN))


def running(pod: Pod, node: str) -> Pod:
    return replace(pod, node=node, phase=RUNNING, ready=True, started_s=0.0)


def allow(teams: Teams, disruptions: int) -> None:
    """The budget of the pods with the label app=guarded allows so many disruptions now."""
    budget = PodDisruptionBudget("default", "pdb", selector_from_labels({"app": "guarded"}), disruptions)
    teams.play([ObjectSeen(BUDGET, budget.key, budget)])


def evicted(teams: Teams) -> list[str]:
    return sorted(pod.name for pod in teams.evicted)


@pytest.mark.parametrize("consolidate", [True, False], ids=["consolidation", "reclaim"])
@pytest.mark.parametrize(
    ("owner", "moves"),
    [
        pytest.param(None, False, id="nobody makes it again"),
        pytest.param(DAEMONS, False, id="it belongs to its node"),
        pytest.param("web", True, id="of a ReplicaSet"),
        pytest.param(JOB, True, id="of a Job"),
    ],
)
def test_only_pods_that_are_made_again_are_moved(owner: Owner | str | None, moves: bool, consolidate: bool) -> None:
    """A pod of a queue within its quota has room elsewhere: who needs its node gets it only if it comes back there."""
    queues = make_queue("a", 1), make_queue("b", 1)
    teams = Teams(*queues, nodes=(1, 1), profiles=profiles(consolidate=consolidate))
    teams.see(running(team_pod("a0", "a", owner=owner), "n0"))
    teams.see(team_pod("b0", "b", node_selector=ON_N0, created_s=9.0))
    assert (evicted(teams), teams.running("b")) == ((["a0"], ["b0"]) if moves else ([], []))


def test_a_pod_that_nobody_makes_again_is_taken_back_as_lost() -> None:
    """Reclaim may take it where the share of its queue allows that, though it would fit elsewhere."""
    teams = Teams(make_queue("a", 0), make_queue("b", 1), nodes=(1, 1), profiles=profiles())
    teams.see(running(team_pod("a0", "a", owner=None), "n0"), running(team_pod("a1", "a", owner=None), "n1"))
    teams.see(team_pod("b0", "b", node_selector=ON_N0, created_s=9.0))
    assert (evicted(teams), teams.running("b")) == (["a0"], ["b0"])


STALE = [
    pytest.param({"pdb_policy": "Strict"}, "web", 0, [], id="a strict budget protects it"),
    pytest.param({"pdb_policy": "Strict"}, "web", 1, [], id="a strict budget allows a part: all or nobody"),
    pytest.param({"pdb_policy": "Strict"}, "web", 2, ["g0", "g1"], id="a strict budget allows it"),
    pytest.param({}, "web", 0, ["g0", "g1"], id="budgets are kept where possible only"),
    pytest.param({}, None, 2, [], id="nobody makes it again"),
    pytest.param({"release_bare_pods": True}, None, 2, ["g0", "g1"], id="nobody makes it again, which is accepted"),
]


def stale(owner: str | None, allowed: int, **arguments: Any) -> Teams:
    """A gang of three of which two run and the third is lost for good."""
    teams = Teams(make_queue("a", 4), nodes=(4,), profiles=profiles(**arguments))
    group = PodGroup("default", "g", api_group=COSCHEDULING_GROUPS, min_count=3)
    teams.play([ObjectSeen(COSCHEDULING_KIND, group.key, group)])
    allow(teams, allowed)
    labels = {QUEUE_LABEL: "a", PREEMPTIBLE_LABEL: "true", GROUP_LABEL: "g", "app": "guarded"}
    teams.see(*(running(team_pod(f"g{n}", "a", labels=labels, owner=owner), "n0") for n in range(3)))
    teams.play([PodGone("default/g2")])
    return teams


def wait(teams: Teams, seconds: float) -> None:
    teams.now += seconds
    teams.play([])


@pytest.mark.parametrize(("arguments", "owner", "allowed", "want"), STALE)
def test_a_stale_gang_goes_only_if_that_is_allowed(
    arguments: dict[str, Any], owner: str | None, allowed: int, want: list[str]
) -> None:
    """As any other gang that cannot run: budgets by `pdbPolicy`, bare pods by `releaseBarePods`."""
    teams = stale(owner, allowed, **arguments)
    assert evicted(teams) == []
    wait(teams, 61.0)
    assert evicted(teams) == want


def test_a_stale_gang_goes_as_soon_as_its_budget_gives_way() -> None:
    """Until then its members are told once why they stay."""
    teams = stale("web", 0, pdb_policy="Strict")
    for _ in range(4):
        wait(teams, 61.0)
    told = [each.note for each in teams.commands if isinstance(each, RecordEvent) and each.reason == "GangIncomplete"]
    why = "disruption budget default/pdb does not allow that now"
    assert told == [f"pod group default/g has 2 members left, fewer than it needs, and is not released: {why}"] * 2
    allow(teams, 2)
    wait(teams, 61.0)
    assert evicted(teams) == ["g0", "g1"]


@pytest.mark.parametrize("pause_s", [0.1, 30.0])
def test_an_eviction_counts_before_the_status_of_the_budget_shows_it(pause_s: float) -> None:
    """Two claimants one after the other, and a budget that allows one disruption: the second waits for its status."""
    teams = Teams(make_queue("a", 2), make_queue("b", 0), nodes=(2,), profiles=profiles(pdb_policy="Strict"))
    allow(teams, 1)
    labels = {QUEUE_LABEL: "b", PREEMPTIBLE_LABEL: "true", "app": "guarded"}
    teams.see(*(running(team_pod(f"b{n}", "b", labels=labels, created_s=float(n)), "n0") for n in range(2)))
    teams.see(team_pod("a0", "a", created_s=8.0))
    assert evicted(teams) == ["b1"]
    teams.now += pause_s
    teams.see(team_pod("a1", "a", created_s=9.0))
    assert evicted(teams) == ["b1"]
    allow(teams, 0)
    assert evicted(teams) == ["b1"]
    allow(teams, 1)
    assert evicted(teams) == ["b0", "b1"]


# --- an eviction that succeeds in part ---

THREE = {"pod-group": "g", "moorage.dev/pod-group-min-available": "3"}


def member(name: str, owner: str | None = "crew", **fields: Any) -> Pod:
    given = {"labels": {"app": "guarded"}, "scheduler_name": "moorage", "created_s": 500.0, **fields}
    return make_pod(name, cpu="1", annotations=THREE, owner=owner, **given)


def gang_and_preemptor(owner: str | None = "crew", **arguments: Any) -> Play:
    """A gang of three runs on three nodes; a more important pod takes the first, and so all have to go."""
    play = Play(profiles=profiles(**arguments))
    pods = [replace(running(member(f"g{n}", owner), f"n{n}"), scheduled_s=600.0) for n in range(3)]
    play.see(*(make_node(f"n{n}", cpu="1") for n in range(3)), *pods)
    play.see(make_pod("first", cpu="1", priority=100, node_selector=ON_N0, scheduler_name="moorage"))
    assert sorted(play.deletions) == ["g0", "g1", "g2"]
    return play


def partly_evicted(owner: str | None = "crew", **arguments: Any) -> Play:
    """The deletion of the third fails; the two others are made again and wait."""
    play = gang_and_preemptor(owner, **arguments)
    answers = [DeleteDone(f"default/g{n}", ok=n < 2, message="" if n < 2 else "no") for n in range(3)]
    play.handle(*answers, PodGone("default/g0"), PodGone("default/g1"))
    play.see(make_pod("other", cpu="1", priority=100, node="n1"))
    if owner is not None:
        play.see(*(member(f"g{n}", owner, uid=f"again{n}", created_s=play.now) for n in range(2)))
    return play


def told_to_go(play: Play, seconds: int) -> list[int]:
    """In which of these seconds the third was told to go, if its deletion always fails."""
    found = []
    for second in range(seconds):
        play.wait(1.0)
        gone = [each for each in play.of(DeletePod) if each.pod.name == "g2"]
        assert play.deletions == ["g2"] * len(gone)
        if gone:
            found.append(second)
            play.handle(DeleteDone("default/g2", ok=False, message="no"))
    return found


@pytest.mark.parametrize("owner", ["crew", None], ids=["made again", "bare"])
def test_the_rest_of_a_gang_that_was_evicted_in_part_follows(owner: str | None) -> None:
    """One deletion failed: the member does not run on for ever by itself."""
    play = partly_evicted(owner)
    assert len(told_to_go(play, 15)) == 1


def test_the_rest_of_a_gang_is_told_to_go_less_and_less_often() -> None:
    """As long as its deletion fails."""
    times = told_to_go(partly_evicted(), 200)
    pauses = [after - before for before, after in pairwise(times)]
    assert len(times) in range(3, 7)
    assert pauses == sorted(pauses)


def test_a_gang_that_is_complete_again_stays() -> None:
    """Its members came back before the rest was told to go."""
    play = partly_evicted()
    play.see(make_node("n4", cpu="2"))
    for name, uid in (("g0", "again0"), ("g1", "again1")):
        play.see(replace(running(member(name, uid=uid), "n4"), scheduled_s=play.now))
    assert told_to_go(play, 60) == []


@pytest.mark.parametrize(("strict", "want"), [(True, 0), (False, 1)], ids=["Strict", "BestEffort"])
def test_the_rest_of_a_gang_is_protected_by_strict_budgets_only(strict: bool, want: int) -> None:
    """The budget covers it, and allows nothing any more."""
    play = partly_evicted(strict=strict)
    budget = PodDisruptionBudget("default", "pdb", selector_from_labels({"app": "guarded"}), 0)
    play.object_seen(BUDGET, budget.key, budget)
    assert len(told_to_go(play, 15)) == want


def test_the_next_leader_evicts_the_rest_of_a_gang() -> None:
    """The mark of the eviction on the pod shows that it was to go, though the gang once started as a whole."""
    play = Play(profiles=profiles())
    rest = replace(running(member("g2"), "n2"), scheduled_s=600.0, preempted=True, gang_record=STARTED)
    again = [member(f"g{n}", uid=f"again{n}", created_s=900.0) for n in range(2)]
    play.see(make_node("n2", cpu="1"), rest, *again)
    assert len(told_to_go(play, 15)) == 1


def test_the_next_leader_evicts_the_rest_while_others_are_still_leaving() -> None:
    """The leader died before it told the third to go."""
    play = Play(profiles=profiles())
    pods = [replace(running(member(f"g{n}"), f"n{n}"), scheduled_s=600.0, gang_record=STARTED) for n in range(3)]
    leaving = [replace(pod, preempted=True, deleted_s=1030.0) for pod in pods[:2]]
    play.see(*(make_node(f"n{n}", cpu="1") for n in range(3)), *leaving, pods[2])
    play.handle(PodGone("default/g0"), PodGone("default/g1"), at=1002.0)
    assert len(told_to_go(play, 15)) == 1
