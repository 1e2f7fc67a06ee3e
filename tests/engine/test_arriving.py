"""Nodes that are on their way: gangs that would fit on them evict nobody, and `explain` counts them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.arrivals import NODE_CLAIM, NodeClaim, arrivals
from moorage.core.commands import DeletePod
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.engine.opinion import form_opinion
from moorage.engine.settings import EngineSettings
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play, small_profile

ROOM = FrozenDict({"cpu": 2000, "memory": 1 << 34, "pods": 110})
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
NOW = 1000.0


def claim(name: str = "c1", **fields: Any) -> NodeClaim:
    return replace(NodeClaim(name, allocatable=ROOM, created_s=NOW - 10), **fields)


WARMING = claim(node="n1", startup_taints=(Taint("warming"),))


def young(name: str, *taints: Taint, **fields: Any) -> Node:
    return replace(make_node(name, cpu="2"), taints=taints, created_s=NOW - 10, **fields)


def coming(*things: NodeClaim | Node) -> list[str]:
    state = ClusterState()
    for each in things:
        if isinstance(each, Node):
            state.upsert_node(each)
        else:
            state.put_object(NODE_CLAIM, each.name, each)
    return [f"{node.name}{''.join(f' {taint.key}' for taint in node.taints)}" for node in arrivals(state, NOW)]


@pytest.mark.parametrize(
    ("things", "want"),
    [
        ([claim()], ["c1"]),
        ([claim(allocatable=FrozenDict())], []),
        ([claim(deleting=True)], []),
        ([claim(created_s=NOW - 1000)], []),
        ([claim(node="n1")], ["n1"]),
        ([claim(node="n1"), young("n1")], []),
        ([claim(taints=(Taint("gpu"),))], ["c1 gpu"]),
        ([WARMING, young("n1", Taint("warming"), Taint("gpu"))], ["n1 gpu"]),
        ([young("n1", NOT_READY, Taint("gpu"))], ["n1 gpu"]),
        ([young("n1", Taint("startup-taint.cluster-autoscaler.kubernetes.io/gpu"))], ["n1"]),
        ([young("n1", NOT_READY, Taint("ToBeDeletedByClusterAutoscaler"))], []),
        ([young("n1", NOT_READY, deleting=True)], []),
        ([replace(young("n1", NOT_READY), created_s=0.0)], []),
        ([young("n1", Taint("gpu"))], []),
    ],
    ids=[
        "a claim", "no machine yet", "a claim that goes", "given up", "a name, and no node", "it has come",
        "taints that stay", "startup taints of a claim", "not ready", "Cluster Autoscaler's", "to be deleted",
        "a node that goes", "not ready for long", "a node like others",
    ],
)  # fmt: skip
def test_what_is_on_its_way(things: list[NodeClaim | Node], want: list[str]) -> None:
    """With the taints that it will keep."""
    assert coming(*things) == want


def gang(size: int = 2, priority: int = 10) -> list[Pod]:
    notes = {"pod-group": "g", "moorage.dev/pod-group-min-available": str(size)}
    return [make_pod(f"g{number}", cpu="2", annotations=notes, priority=priority) for number in range(size)]


def full(**args: Any) -> Play:
    """A node that is full of a pod of less importance."""
    play = Play(GangScheduling(GangSchedulingArgs(**args)), DefaultPreemption())
    play.now = NOW
    play.see(make_node("n1", cpu="2"), make_node("n2", cpu="2"), make_pod("low", cpu="2", node="n1"))
    return play


def deleted(play: Play) -> list[str]:
    return [each.pod.name for each in play.commands if isinstance(each, DeletePod)]


def test_a_gang_that_would_fit_on_nodes_that_come_evicts_nobody() -> None:
    """Until they are late."""
    play = full()
    play.object_seen(NODE_CLAIM, "c1", claim())
    play.see(*gang())
    assert not deleted(play)
    assert "1 node is coming that would fit: c1" in play.note("g0")
    play.handle(at=NOW + 300)
    assert deleted(play) == ["low"]


@pytest.mark.parametrize(
    ("found", "args"),
    [
        (claim(taints=(Taint("gpu"),)), {}),
        (claim(allocatable=FrozenDict({"cpu": 1000, "pods": 110})), {}),
        (claim(), {"arrival_seconds": 0.0}),
    ],
    ids=["tainted", "too small", "switched off"],
)
def test_other_nodes_are_not_waited_for(found: NodeClaim, args: dict[str, Any]) -> None:
    """What would be of no use is no reason to wait."""
    play = full(**args)
    play.object_seen(NODE_CLAIM, "c1", found)
    play.see(*gang())
    assert deleted(play) == ["low"]


def test_the_gang_starts_on_the_nodes_when_they_are_there() -> None:
    """Together, as always."""
    play = full()
    play.object_seen(NODE_CLAIM, "c1", claim())
    play.see(*gang())
    play.see(make_node("c1", cpu="2"))
    play.wait(20)
    assert {play.node_of("g0"), play.node_of("g1")} == {"n2", "c1"}


@pytest.mark.parametrize(
    ("world", "want"),
    [
        ([], ()),
        ([ObjectSeen(NODE_CLAIM, "c1", claim())], ("1 node is coming that would fit: c1",)),
        (
            [ObjectSeen(NODE_CLAIM, "c1", claim()), NodeSeen(young("n3", NOT_READY))],
            ("2 nodes are coming that would fit: c1 and n3",),
        ),
        ([ObjectSeen(NODE_CLAIM, "c1", claim(taints=(Taint("gpu"),)))], ()),
    ],
    ids=["none", "one", "two", "of no use"],
)
def test_explain_says_what_is_coming(world: list[Event], want: tuple[str, ...]) -> None:
    """For a single pod, each node that it would fit on."""
    pod = make_pod("a", cpu="2")
    events = [NodeSeen(make_node("n1", cpu="1")), *world]
    opinion = form_opinion([small_profile(GangScheduling())], EngineSettings(), events, pod, NOW)
    assert opinion.arriving == want


def test_explain_counts_the_nodes_of_a_gang() -> None:
    """Those that it would use, if they are enough."""
    first, *others = gang(3)
    claims: list[Event] = [ObjectSeen(NODE_CLAIM, name, claim(name)) for name in ("c1", "c2")]
    profiles = [small_profile(GangScheduling())]
    world: list[Event] = [NodeSeen(make_node("n1", cpu="2")), *(PodSeen(pod) for pod in others)]
    enough = form_opinion(profiles, EngineSettings(), [*world, *claims], first, NOW)
    assert [line.partition(":")[0] for line in enough.arriving] == ["2 nodes are coming that would fit"]
    too_few = form_opinion(profiles, EngineSettings(), [*world, claims[0]], first, NOW)
    assert too_few.arriving == ()
