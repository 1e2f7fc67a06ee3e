"""A state that follows a watch knows what was told last, and answers to commands change nothing."""

from __future__ import annotations

from moorage.core.events import (
    BindDone,
    BindOutcome,
    Event,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from moorage.core.follow import follow
from moorage.core.invariants import check_invariants
from moorage.core.objects import Workload
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod


def test_a_state_follows_a_watch() -> None:
    state = ClusterState()
    workload = Workload("ReplicaSet", "default", "web", "u")
    come: list[Event] = [
        NodeSeen(make_node("n1")),
        NodeSeen(make_node("n2")),
        PodSeen(make_pod("p", node="n1")),
        PodSeen(make_pod("q", node="n2")),
        ObjectSeen("ReplicaSet", workload.key, workload),
        BindDone("default/p", BindOutcome.BOUND, "n2"),
    ]
    for event in come:
        follow(state, event)
    record = state.record("default/p")
    assert record is not None
    assert (record.node, state.node_count, state.pod_count) == ("n1", 2, 2)
    assert state.object("ReplicaSet", "default/web") is workload
    check_invariants(state)
    gone: list[Event] = [PodGone("default/p"), NodeGone("n2"), ObjectGone("ReplicaSet", "default/web")]
    for event in gone:
        follow(state, event)
    assert state.record("default/p") is None
    assert [*state.node_names()] == ["n1"]
    assert state.object("ReplicaSet", "default/web") is None
    check_invariants(state)
