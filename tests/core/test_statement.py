"""Whatever changes in a statement is as it was when the statement is taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.objects import SERVICE, Service
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod

NODES = ("n1", "n2", "n3", "n4")
PODS = ("a", "b", "c", "d")


def seen(state: ClusterState) -> dict[str, Any]:
    """What others can see of a state."""
    nodes = {name: state.row_of(name) for name in state.node_names()}
    columns = {state.resources.names[i]: column.tolist() for i, column in enumerate(state.resources.requested)}
    return {
        "nodes": {name: (row, state.node(row)) for name, row in nodes.items() if row is not None},
        "pods": {record.pod.uid: (record.pod, record.node, record.row, record.assumed) for record in state.records()},
        "requested": {name: column for name, column in columns.items() if any(column)},
        "objects": {kind: dict(table) for kind, table in state.objects.items() if table},
        "nominations": {node: [pod.uid for pod in state.nominations.on(node)] for node in state.nominations.nodes()},
        "nominated": (state.nominations.count, {name: state.nominations.pod(name) for name in PODS}),
    }


def assume(state: ClusterState, pod: str, node: str, _: list[str]) -> None:
    row = state.row_of(node)
    if row is not None:
        state.assume(make_pod(pod, uid=pod, cpu="2"), row)


def mark(state: ClusterState, pod: str, _: str, __: list[str]) -> None:
    record = state.record(pod)
    if record is not None:
        state.observe_pod(replace(record.pod, node=record.node, deleted_s=5.0))


def hold(state: ClusterState, pod: str, _: str, held: list[str]) -> None:
    held.append(pod)
    state.undo.note(held.pop)


def service(pod: str, node: str) -> Service:
    return Service("default", pod, FrozenDict({"by": node}))


Change = Callable[[ClusterState, str, str, list[str]], object]
CHANGES: dict[str, Change] = {
    "a node comes or changes": lambda state, pod, node, _: state.upsert_node(make_node(node, labels={"by": pod})),
    "a node goes": lambda state, _, node, __: state.remove_node(node),
    "a pod is seen": lambda state, pod, node, _: state.observe_pod(make_pod(pod, uid=pod, cpu="1", node=node)),
    "a pod is assumed": assume,
    "a pod is being deleted": mark,
    "a pod goes": lambda state, pod, _, __: state.remove_pod(pod),
    "an object comes or changes": lambda state, pod, node, _: state.put_object(SERVICE, pod, service(pod, node)),
    "an object goes": lambda state, pod, _, __: state.remove_object(SERVICE, pod),
    "a pod is nominated": lambda state, pod, node, _: state.nominations.set(make_pod(pod, uid=pod), node),
    "a nomination ends": lambda state, pod, _, __: state.nominations.clear(pod),
    "somebody reserves": hold,
}
STEPS = st.lists(st.tuples(st.sampled_from([*CHANGES]), st.sampled_from(PODS), st.sampled_from(NODES)), max_size=12)
Steps = list[tuple[str, str, str]]


@given(before=STEPS, within=STEPS, nested=STEPS, keeps=st.booleans())
def test_a_statement_that_is_taken_back_leaves_no_trace(
    before: Steps, within: Steps, nested: Steps, keeps: bool
) -> None:
    """Pods, nodes, other objects, nominations and what is reserved are the same, inner statement kept or not."""
    state, held = ClusterState(), list[str]()

    def play(steps: Steps) -> None:
        for what, pod, node in steps:
            CHANGES[what](state, pod, node, held)

    play(before)
    known, holding = seen(state), list(held)
    with state.statement():
        play(within)
        with state.statement() as inner:
            play(nested)
            if keeps:
                inner.commit()
        play(within)
    assert seen(state) == known
    assert held == holding
    check_invariants(state)


def test_a_nomination_is_as_old_as_it_was() -> None:
    """The nominations of a node are in the order in which they were made, also after one was set aside in a what-if."""
    state = ClusterState()
    state.upsert_node(make_node("n1"))
    for name in PODS:
        state.nominations.set(make_pod(name, uid=name), "n1")
    position = state.nominations.position
    with state.statement():
        state.nominations.clear("b")
        state.nominations.set(make_pod("a", uid="a"), "n2")
    assert [pod.uid for pod in state.nominations.on("n1")] == list(PODS)
    assert set(state.nominations.since(position) or ()) == {"n1", "n2"}


def test_amounts_that_are_shifted_are_shifted_back() -> None:
    """Rows request what they did before."""
    state = ClusterState()
    for name in NODES:
        state.upsert_node(make_node(name, cpu="4"))
    state.assume(make_pod("a", cpu="1"), 0)
    before = state.resources.requested.copy()
    with state.statement():
        state.shift_amounts(state.rows(), {0: np.arange(len(NODES), dtype=np.int64)}, -1)
        assert not np.array_equal(before, state.resources.requested)
    assert np.array_equal(before, state.resources.requested)
