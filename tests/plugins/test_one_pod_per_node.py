"""A node holds at most one pod of a scheduler that is not finished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.nodes import Node
from moorage.core.pods import FAILED, SUCCEEDED, Pod
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.plugins.one_pod_per_node import OnePodPerNode
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

REASON = "node(s) already had a pod of this scheduler"
OURS = "custom-scheduler"

HOLDER = make_pod("h", scheduler_name=OURS, node="used")
HOLDERS = [
    pytest.param(HOLDER, True, id="a pod of this scheduler"),
    pytest.param(make_pod("h", scheduler_name=OURS, node="used", namespace="other"), True, id="of another namespace"),
    pytest.param(replace(HOLDER, deleted_s=1.0), True, id="one that is being deleted"),
    pytest.param(replace(HOLDER, phase=SUCCEEDED), False, id="one that succeeded"),
    pytest.param(replace(HOLDER, phase=FAILED), False, id="one that failed"),
    pytest.param(make_pod("h", scheduler_name="default-scheduler", node="used"), False, id="one of another scheduler"),
]


@pytest.mark.parametrize(("holder", "want_taken"), HOLDERS)
def test_filter(holder: Pod, want_taken: bool) -> None:
    """What is not finished and of the same scheduler takes the node; removing it would help."""
    state = make_state([make_node("free"), make_node("used")], [holder])
    reasons = ask(OnePodPerNode(), state, make_pod("a", scheduler_name=OURS)).reasons
    assert reasons == {"free": (), "used": ((REASON, True),) if want_taken else ()}


def taken(plugin: OnePodPerNode, state: ClusterState, scheduler: str = OURS) -> set[str]:
    reasons = ask(plugin, state, make_pod("new", scheduler_name=scheduler)).reasons
    return {name for name, against in reasons.items() if against}


def test_assumed_pods_count_and_what_ifs_are_undone() -> None:
    """The same plugin sees every change of the state, and its undoing."""
    state, plugin = make_state([make_node(f"n{number}") for number in range(20)]), OnePodPerNode()
    assert taken(plugin, state) == set()
    row = state.row_of("n3")
    assert row is not None
    with state.statement():
        state.assume(make_pod("a", scheduler_name=OURS), row)
        assert taken(plugin, state) == {"n3"}
        assert taken(plugin, state, "default-scheduler") == set()
    assert taken(plugin, state) == set()


def test_nodes_come_and_go() -> None:
    """A node that takes the place of another one is free; one that comes back has its pod again."""
    state = make_state([make_node("a"), make_node("b")], [make_pod("h", scheduler_name=OURS, node="a")])
    plugin = OnePodPerNode()
    assert taken(plugin, state) == {"a"}
    state.remove_node("a")
    for number in range(40):
        state.upsert_node(make_node(f"n{number}"))
    assert taken(plugin, state) == set()
    state.upsert_node(make_node("a"))
    assert taken(plugin, state) == {"a"}


CHANGES = [
    pytest.param(Change(What.NODE_ADDED, node=make_node("n")), True, id="a node joins"),
    pytest.param(Change(What.POD_REMOVED, pod=HOLDER), True, id="a pod of this scheduler leaves"),
    pytest.param(Change(What.POD_REMOVED, pod=make_pod("h", node="n")), False, id="a stranger leaves"),
]


@pytest.mark.parametrize(("change", "want"), CHANGES)
def test_what_helps(change: Change, want: bool) -> None:
    """Only a free node helps: a new one, or one that a pod of this scheduler leaves."""
    assert OnePodPerNode().helps(make_pod("a", scheduler_name=OURS).template, change) is want
    assert change.what & OnePodPerNode.wakes


def reference(pod: Pod, _node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    return [REASON] if any(each.template.scheduler_name == pod.template.scheduler_name for each in pods) else []


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(OnePodPerNode, seeds=range(40), reference_filter=reference)
