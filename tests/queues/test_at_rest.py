"""A promise that failed is not made again until something changes that it was about, and counts for nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from moorage.core.commands import DeletePod, PatchPodStatus, RecordEvent
from moorage.core.events import NodeSeen, ObjectSeen
from moorage.core.objects import PodGroup
from moorage.core.pods import Pod
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import TopologyAsk
from moorage.engine.invariants import check_engine
from moorage.testing import make_node, make_pod
from tests.queues.teams import GPU, Teams, make_queue, team_pod

MOST = 3
"""Rounds for one change of the cluster, and writes per pod."""
ASKS = {"one zone": {"topology_key": "zone"}, "a level": {"topology": TopologyAsk(required="zone")}}


def _node(number: int, gpus: int = 2) -> NodeSeen:
    labels = {"zone": f"z{number}"}
    return NodeSeen(make_node(f"n{number}", cpu="64", memory="64Gi", resources={GPU: gpus}, labels=labels))


def elastic(ask: str) -> Teams:
    """A gang runs with its minimum and fills its zone; two more members come, for which there is room in another."""
    teams = Teams(make_queue("a", 4), make_queue("b", 4), nodes=())
    group = PodGroup("default", "g", uid="g", min_count=2, **ASKS[ask])  # type: ignore[arg-type]
    levels = Topology("t", ("zone", "kubernetes.io/hostname"))
    teams.play([ObjectSeen(TOPOLOGY, "t", levels), ObjectSeen("PodGroup", "default/g", group), _node(0)])
    teams.see(*members(0, 2))
    assert teams.running("a") == ["g-0", "g-1"]
    teams.play([_node(1)])
    teams.see(team_pod("b0", "b", node="n1"))
    teams.commands.clear()
    return teams


def members(first: int, last: int) -> list[Pod]:
    return [team_pod(f"g-{n}", "a", group="g", created_s=1000.0) for n in range(first, last)]


def rounds(teams: Teams) -> int:
    return teams.engine.room_rounds


def writes(teams: Teams) -> Counter[str]:
    """Pod -> what was written about it; what was is forgotten."""
    kinds = (DeletePod, PatchPodStatus, RecordEvent)
    found = Counter(each.pod.name for each in teams.commands if isinstance(each, kinds))
    teams.commands.clear()
    return found


def held(teams: Teams) -> int:
    """The GPUs that count as allocated of queue a."""
    tree = teams.engine.state.queues.settle(teams.engine.state)
    return tree.nodes["a"].allocated[tree.resources.index(GPU)] // 1000


@pytest.mark.parametrize("ask", ASKS)
def test_a_promise_that_failed_is_not_made_again_by_itself(ask: str) -> None:
    teams = elastic(ask)
    before = rounds(teams)
    teams.see(*members(2, 4))
    assert rounds(teams) - before <= MOST
    assert held(teams) == 2, "what is promised and cannot start is not allocated"
    writes(teams)
    before = rounds(teams)
    for _ in range(20):
        teams.now += 10.0
        teams.play([])
    assert (rounds(teams), writes(teams)) == (before, Counter())
    check_engine(teams.engine)


@pytest.mark.parametrize("ask", ASKS)
def test_one_change_costs_few_rounds_and_writes(ask: str) -> None:
    """Pods that come and go elsewhere or there, a node that changes, a queue that does."""
    teams = elastic(ask)
    teams.see(*members(2, 4))
    pods = [team_pod("b1", "b", node="n1"), make_pod("x", cpu="1", node="n0", scheduler_name="moorage")]
    quota = replace(make_queue("a", 4), created_s=1.0)
    changes: list[Pod | NodeSeen | ObjectSeen] = [*pods, _node(1, 3), ObjectSeen("Queue", "a", quota), *pods]
    for change in changes:
        before = rounds(teams)
        writes(teams)
        if isinstance(change, NodeSeen | ObjectSeen):
            teams.play([change])
        elif change.name in teams.running():
            teams.end(change)
        else:
            teams.see(change)
        assert rounds(teams) - before <= MOST, change
        assert max(writes(teams).values(), default=0) <= MOST, change
        assert held(teams) == 2


@pytest.mark.parametrize("ask", ASKS)
def test_it_starts_once_its_own_zone_has_room(ask: str) -> None:
    teams = elastic(ask)
    teams.see(*members(2, 4))
    teams.play([_node(0, 4)])
    assert teams.running("a") == ["g-0", "g-1", "g-2", "g-3"]


def test_a_promise_is_not_written_if_nothing_has_to_leave() -> None:
    teams = elastic("one zone")
    teams.see(*members(2, 4))
    assert not any(isinstance(each, PatchPodStatus) and each.nominated_node is not None for each in teams.commands)
