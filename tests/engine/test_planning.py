"""The plan in the engine: what the random histories of `test_plan_random` found, told one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from moorage.core.commands import Command
from moorage.core.events import BindDone, BindOutcome, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.engine.units import Place
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.one_pod_per_node import OnePodPerNode
from moorage.plugins.plan_sort import PlanSort
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import SCHEDULER, Play, small_profile
from tests.framework.readers import make_profile

MIN = "moorage.dev/pod-group-min-available"


@pytest.fixture
def play() -> Play:
    """A planner without nodes."""
    usual = [plugin.make() for plugin in small_profile().plugins if plugin.name != "PrioritySort"]
    planner = [PlanSort(), NodeUnschedulable(), OnePodPerNode(), GangScheduling(), DefaultPreemption()]
    return Play(profiles=[make_profile([*usual, *planner], scheduler_name=SCHEDULER)])


def member(name: str, size: int = 3, gang: str = "g", **fields: object) -> Pod:
    annotations = {"pod-group": gang, MIN: str(size)}
    return make_pod(name, annotations=annotations, **{"owner": "crew", **fields})  # type: ignore[arg-type]


def start(play: Play) -> list[Command]:
    """The start of a gang is on record."""
    [patch] = [patch for patch in play.patches if patch.token]
    return play.recorded(patch.pod.uid)


def run(play: Play, *names: str) -> None:
    """Let these binds succeed."""
    for name in names:
        play.bound(name)
        play.confirm(name)


def gang_runs(play: Play, nodes: int = 3) -> None:
    play.see(*(make_node(f"n{number}") for number in range(nodes)))
    play.see(member("a"), member("b"), member("c"))
    start(play)
    run(play, "a", "b", "c")


def test_a_gang_that_the_nodes_can_never_hold_keeps_nobody_out_of_the_plan(play: Play) -> None:
    """All nodes together have less than its minResources; with one more of them it is the gang's turn."""
    group = PodGroup("default", "g", uid="g", min_count=2, min_resources=FrozenDict(cpu=12_000))
    play.handle(ObjectSeen("PodGroup", "default/g", group))
    play.see(make_node("n0", cpu="4"), make_node("n1", cpu="4"))
    play.see(*(make_pod(name, group="g", priority=5) for name in "ab"))
    play.see(make_pod("small"))
    assert set(play.binds) == {"small"}
    play.wait(30)
    assert "less free cpu than the minResources" in play.note("a")
    play.bound("small")
    play.confirm("small")
    play.see(make_node("n2", cpu="4"))
    start(play)
    assert set(play.binds) == {"a", "b"}


def test_a_gang_enters_the_plan_when_it_needs_less(play: Play) -> None:
    """Nothing but the minResources of its group changes."""
    group = PodGroup("default", "g", uid="g", min_count=2, min_resources=FrozenDict(cpu=12_000))
    play.handle(ObjectSeen("PodGroup", "default/g", group))
    play.see(make_node("n0", cpu="4"), make_node("n1", cpu="4"))
    play.see(*(make_pod(name, group="g") for name in "ab"))
    assert play.place("a") is Place.GATED
    play.handle(ObjectSeen("PodGroup", "default/g", replace(group, min_resources=FrozenDict(cpu=8_000))))
    start(play)
    assert set(play.binds) == {"a", "b"}


def test_what_was_promised_to_a_unit_that_left_the_plan_is_free(play: Play) -> None:
    """The gang of two waits for a pod to end; then one node less is left, and the small unit gets it."""
    play.see(make_node("n0"), make_node("n1"), make_pod("low", node="n0", priority=1))
    play.see(member("a", 2, priority=5), member("b", 2, priority=5))
    assert play.deletions == ["low"]
    play.node_gone("n1")
    play.see(make_pod("small"))
    play.handle(PodGone("default/low"))
    assert set(play.binds) == {"small"}


def test_a_promise_that_a_restart_finds_counts_only_in_the_plan(play: Play) -> None:
    """The status of a pod that is not in the plan still names a node."""
    waits = replace(make_pod("large", priority=5, annotations={"pod-group": "g", MIN: "2"}), nominated_node="n0")
    other = replace(member("other", 2, priority=5), nominated_node="n0")
    play.see(make_node("n0"), waits, other, budget=0)
    play.see(make_pod("small"))
    assert set(play.binds) == {"small"}


def test_a_pod_that_was_gone_when_it_was_bound_leaves_the_plan(play: Play) -> None:
    play.see(make_node("n0"), make_pod("a", priority=5))
    assert set(play.binds) == {"a"}
    del play.pods["default/a"]
    play.handle(BindDone("default/a", BindOutcome.GONE))
    play.handle(PodGone("default/a"), PodSeen(make_pod("b")))
    assert set(play.binds) == {"b"}


def lose_one(play: Play) -> None:
    play.pod_gone("c")


def finish_one(play: Play) -> None:
    play.see(replace(play.pods["default/c"], phase="Succeeded"))


@pytest.mark.parametrize("loss", [lose_one, finish_one], ids=["lost", "finished"])
def test_a_running_gang_that_is_short_of_a_member_stays(play: Play, loss: Callable[[Play], None]) -> None:
    """The others run on, whether a new member comes or not."""
    gang_runs(play)
    loss(play)
    assert play.deletions == []
    play.wait(30)
    assert play.deletions == []
    play.see(member("d"))
    assert set(play.binds) == {"d"}


def test_a_gang_in_part_goes_when_something_better_takes_its_last_node(play: Play) -> None:
    """A member is lost, and before its successor is placed a more important pod comes."""
    gang_runs(play)
    play.handle(PodGone("default/c"), PodSeen(member("d")), PodSeen(make_pod("high", priority=9)))
    assert set(play.binds) == {"high"}
    assert set(play.deletions) == {"a", "b"}


def test_nobody_is_evicted_for_a_node_that_takes_no_pods(play: Play) -> None:
    """A pod on a cordoned node stays; the other node goes by priority."""
    play.see(make_node("n0"), make_node("n1"), make_pod("x", node="n0", priority=1), make_pod("y", node="n1"))
    play.see(make_node("n1", unschedulable=True))
    play.see(make_pod("high", priority=9))
    assert play.deletions == ["x"]
    play.see(make_node("n0", unschedulable=True))
    play.see(make_pod("higher", priority=10))
    assert play.deletions == []


def test_a_gang_enters_the_plan_when_its_group_comes(play: Play) -> None:
    """Its size is known only then; the group's own priority counts."""
    play.see(make_node("n0"), make_node("n1"))
    play.see(*(make_pod(name, group="g", priority=9) for name in "ab"), make_pod("other", priority=5))
    run(play, "other")
    group = PodGroup("default", "g", uid="u", min_count=2, priority=1)
    play.handle(ObjectSeen("PodGroup", "default/g", group))
    assert (play.deletions, play.place("a")) == ([], Place.GATED)
    play.handle(NodeSeen(make_node("n2")))
    start(play)
    assert set(play.binds) == {"a", "b"}


def test_a_gang_in_part_goes_though_nothing_happens_to_it(play: Play) -> None:
    """Its new member's bind has failed and is to be tried again; in between a more important pod takes the node."""
    gang_runs(play)
    play.handle(PodGone("default/c"), PodSeen(member("d")))
    play.answer("d", BindOutcome.FAILED, message="no")
    play.see(make_pod("high", priority=9))
    assert set(play.binds) == {"high"}
    assert set(play.deletions) == {"a", "b"}


def test_a_pod_that_is_being_bound_runs(play: Play) -> None:
    """An older one of the same priority comes too late."""
    play.see(make_node("n0"), make_pod("a", created_s=10.0))
    assert set(play.binds) == {"a"}
    play.see(make_pod("older", created_s=5.0))
    assert (play.deletions, play.place("older")) == ([], Place.GATED)


@pytest.mark.parametrize("node", [None, "n1"], ids=["waiting", "standing"])
def test_a_pod_that_joins_a_gang_is_no_unit_of_its_own_any_more(play: Play, node: str | None) -> None:
    """Otherwise one that was annotated late would keep a node of the plan, also when it is long gone."""
    play.see(make_node("n1"), make_node("n2", unschedulable=node is None))
    alone = make_pod("a", priority=10, node=node)
    play.see(alone, budget=0)
    play.handle(budget=1 if node else 0)
    play.see(replace(alone, template=member("a", size=2, priority=10).template))
    play.pod_gone("a")
    play.see(make_pod("b"))
    assert play.engine.planning is not None
    assert [unit.id for unit in play.engine.planning._plans[SCHEDULER]] == ["default/b"]


def test_what_is_kept_of_usable_nodes_follows_the_pods_there_are(play: Play) -> None:
    """Pods of five hundred priorities come and go beside one of another scheduler: nothing of them is left over."""
    play.see(make_node("n1"), make_node("n2"))
    play.see(make_pod("stranger", node="n2", scheduler_name="other", priority=2_000))
    for priority in range(500):
        play.see(make_pod(f"p{priority}", priority=priority, scheduler_name=SCHEDULER))
        play.pod_gone(f"p{priority}")
    usable = play.engine._context.planning._usable  # type: ignore[union-attr]
    assert len(usable._kinds) <= 65
    assert len(usable._stays) <= 65
