"""Requests of nominated pods as columns equal a plain look at the nominations, whatever happened before.

Pods count that are as important as the one that asks; of two of which one belongs to a queue, both.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.queueledger import QueueTerms
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.nominated import NominatedPods
from moorage.testing import make_node, make_pod, make_state

NODES = [f"n{number}" for number in range(8)]
QUEUES = ["a", "b"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("nominate"), st.integers(0, 9), st.sampled_from(NODES)),
        st.tuples(st.just("end"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("node"), st.just(0), st.sampled_from(NODES)),
        st.tuples(st.just("queue"), st.just(0), st.sampled_from(QUEUES)),
        st.tuples(st.just("ask"), st.integers(0, 9), st.just("")),
    ),
    max_size=25,
)
PODS = [
    make_pod(f"p{n}", cpu=f"{n + 1}", priority=n % 4 * 10, labels={QUEUE_LABEL: QUEUES[n % 2]} if n > 5 else {})
    for n in range(10)
]


def plain(state: ClusterState, cycle: Cycle) -> dict[str, dict[str, int]]:
    """Node -> resource -> amount, counted from scratch."""
    found: dict[str, dict[str, int]] = {}
    mine, queued = cycle.pod, {pod.uid for pod in PODS if state.object(QUEUE, pod.template.labels.get(QUEUE_LABEL, ""))}
    for node in state.nominations.nodes():
        pods = [
            pod
            for pod in state.nominations.on(node)
            if {mine.uid, pod.uid} & queued or pod.template.priority >= mine.template.priority
        ]
        pods = [p for p in pods if p.uid != mine.uid]
        if pods and state.row_of(node) is not None:
            found[node] = {"cpu": sum(p.requests.get("cpu") for p in pods), "pods": len(pods)}
    return found


def answer(nominated: NominatedPods, state: ClusterState, cycle: Cycle, rows: list[int]) -> dict[str, dict[str, int]]:
    found = nominated.among(cycle, np.array(sorted(rows), dtype=np.intp))
    if found is None:
        return {}
    names = state.resources.names
    return {
        state.node(int(row)).name: {names[column]: int(amounts[index]) for column, amounts in found.amounts.items()}
        for index, row in enumerate(found.rows)
    }


@settings(max_examples=200)
@given(steps=STEPS)
def test_columns_follow_the_nominations(steps: list[tuple[str, int, str]]) -> None:
    """After nominations, withdrawn ones, nodes and queues that come and go in any order, for few rows and for all."""
    state = make_state([make_node(name) for name in NODES])
    state.queues.use_terms(lambda _: QueueTerms("", 100))
    nominated = NominatedPods(state)
    for what, number, node in [*steps, ("ask", 0, ""), ("ask", 5, "")]:
        if what == "nominate":
            state.nominations.set(PODS[number], node)
        elif what == "end":
            state.nominations.clear(PODS[number].uid)
        elif what == "queue" and state.object(QUEUE, node) is not None:
            state.remove_object(QUEUE, node)
        elif what == "queue":
            state.put_object(QUEUE, node, Queue(node))
        elif what == "node" and state.row_of(node) is not None:
            state.remove_node(node)
        elif what == "node":
            state.upsert_node(make_node(node))
        else:
            cycle = Cycle(PODS[number], state, 0.0)
            want = plain(state, cycle)
            rows = [int(row) for row in state.rows()]
            assert answer(nominated, state, cycle, rows) == want
            few = [row for row in rows if state.node(row).name in NODES[:3]]
            assert answer(nominated, state, cycle, few) == {name: want[name] for name in want if name in NODES[:3]}
