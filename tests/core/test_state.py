"""The columnar state equals a recount after any sequence of events, what-ifs included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node, NodeImage
from moorage.core.pods import HostPort, Pod, PodTemplate
from moorage.core.resources import Requests
from moorage.core.state import NOWHERE, ClusterState, PodMove
from moorage.core.taints import Taint

NODE_NAMES = st.sampled_from([f"n{i}" for i in range(24)])
POD_NAMES = st.sampled_from([f"p{i}" for i in range(20)])


def a_node(name: str, cpu: int = 4000, gpu: int = 0, zone: str = "a", tainted: bool = False) -> Node:
    return Node(
        name,
        labels=FrozenDict({"zone": zone, "kubernetes.io/hostname": name}),
        taints=(Taint("maintenance"),) if tainted else (),
        allocatable=FrozenDict(
            {"cpu": cpu, "memory": 1 << 34, "pods": 110, **({"example.com/gpu": gpu} if gpu else {})}
        ),
        images=(NodeImage((f"app-{zone}:v1",), 1000),),
    )


def a_pod(
    name: str, node: str | None = None, cpu: int = 100, gpu: int = 0, port: int = 0, phase: str = "Running"
) -> Pod:
    amounts = (("cpu", cpu), *((("example.com/gpu", gpu),) if gpu else ()))
    requests = Requests(amounts, cpu, 200 << 20)
    template = PodTemplate(requests=requests, host_ports=(HostPort("", "TCP", port),) if port else ())
    return Pod(name, name, template, node=node, requests=requests, phase=phase)


@pytest.fixture
def state() -> Iterator[ClusterState]:
    made = ClusterState()
    yield made
    check_invariants(made)


def requested_cpu(state: ClusterState, node: str) -> int:
    row = state.row_of(node)
    assert row is not None
    return int(state.resources.requested[0, row])


class StateMachine(RuleBasedStateMachine):
    """Random events; the invariants are recounted after each."""

    @initialize()
    def begin(self) -> None:
        self.state = ClusterState()

    @rule(
        name=NODE_NAMES,
        cpu=st.sampled_from([1000, 4000]),
        gpu=st.integers(0, 2),
        zone=st.sampled_from("ab"),
        tainted=st.booleans(),
    )
    def node_seen(self, name: str, cpu: int, gpu: int, zone: str, tainted: bool) -> None:
        self.state.upsert_node(a_node(name, cpu, gpu, zone, tainted))

    @rule(name=NODE_NAMES)
    def node_gone(self, name: str) -> None:
        self.state.remove_node(name)

    @rule(
        name=POD_NAMES,
        node=st.none() | NODE_NAMES,
        cpu=st.sampled_from([0, 100]),
        gpu=st.integers(0, 1),
        port=st.sampled_from([0, 80]),
        phase=st.sampled_from(["Running", "Running", "Succeeded"]),
    )
    def pod_seen(self, name: str, node: str | None, cpu: int, gpu: int, port: int, phase: str) -> None:
        self.state.observe_pod(a_pod(name, node, cpu, gpu, port, phase))

    @rule(name=POD_NAMES, pick=st.integers(0, 23))
    def assumed(self, name: str, pick: int) -> None:
        rows = self.state.rows()
        if len(rows) and self.state.record(name) is None:
            self.state.assume(a_pod(name), int(rows[pick % len(rows)]))

    @rule(name=POD_NAMES)
    def forgotten(self, name: str) -> None:
        self.state.forget(name)

    @rule(name=POD_NAMES)
    def pod_gone(self, name: str) -> None:
        self.state.remove_pod(name)

    @rule(names=st.lists(POD_NAMES, max_size=5), inner=st.booleans())
    def what_if(self, names: list[str], inner: bool) -> None:
        before = self.state.resources.requested.copy()
        position = self.state.pod_log.position
        with self.state.statement():
            for name in names:
                record = self.state.remove_pod(name)
                rows = self.state.rows()
                if record is not None and inner and len(rows):
                    with self.state.statement() as nested:
                        self.state.assume(record.pod, int(rows[0]))
                        nested.commit()
        assert np.array_equal(before, self.state.resources.requested), "a rolled back statement left a trace"
        assert self.state.pod_log.position >= position

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "state"):
            check_invariants(self.state)


StateMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRandomEvents = StateMachine.TestCase


def test_a_pod_on_an_unknown_node_is_accounted_for_when_the_node_appears(state: ClusterState) -> None:
    """Watches are not ordered between kinds: the pod may come first."""
    assert state.observe_pod(a_pod("early", "n1", cpu=700)) is PodMove.ADDED
    early = state.record("early")
    assert early is not None
    assert early.row == NOWHERE
    state.upsert_node(a_node("n1"))
    assert requested_cpu(state, "n1") == 700


def test_a_node_that_comes_back_finds_its_pods_again(state: ClusterState) -> None:
    """Deleting a node object does not delete its pods."""
    state.upsert_node(a_node("n1"))
    state.observe_pod(a_pod("stays", "n1", cpu=300))
    state.remove_node("n1")
    state.upsert_node(a_node("n2"))
    assert requested_cpu(state, "n2") == 0
    state.upsert_node(a_node("n1"))
    assert requested_cpu(state, "n1") == 300


def test_assumed_then_confirmed_counts_once(state: ClusterState) -> None:
    """The confirmation of a bind must not add the pod a second time."""
    state.upsert_node(a_node("n1"))
    pod = a_pod("p", cpu=250)
    row = state.row_of("n1")
    assert row is not None
    state.assume(pod, row)
    assert state.observe_pod(a_pod("p", "n1", cpu=250)) is PodMove.CONFIRMED
    assert requested_cpu(state, "n1") == 250
    assert state.forget("p") is None, "a confirmed pod is not forgotten"
    assert requested_cpu(state, "n1") == 250


def test_assumed_here_but_bound_there_is_taken_over(state: ClusterState) -> None:
    """Another scheduler was faster: the API server is right."""
    state.upsert_node(a_node("n1"))
    state.upsert_node(a_node("n2"))
    row = state.row_of("n1")
    assert row is not None
    state.assume(a_pod("p", cpu=250), row)
    assert state.observe_pod(a_pod("p", "n2", cpu=250)) is PodMove.MOVED
    assert (requested_cpu(state, "n1"), requested_cpu(state, "n2")) == (0, 250)


def test_an_unbound_update_of_an_assumed_pod_changes_nothing(state: ClusterState) -> None:
    """Status patches arrive while the bind is under way."""
    state.upsert_node(a_node("n1"))
    state.assume(a_pod("p", cpu=250), 0 if state.row_of("n1") == 0 else int(state.rows()[0]))
    assert state.observe_pod(a_pod("p", None, cpu=250)) is PodMove.NOTHING
    assert requested_cpu(state, "n1") == 250


def test_finished_pods_hold_nothing(state: ClusterState) -> None:
    """Succeeded and Failed pods free their node before they are deleted."""
    state.upsert_node(a_node("n1"))
    state.observe_pod(a_pod("job", "n1"))
    assert state.observe_pod(a_pod("job", "n1", phase="Succeeded")) is PodMove.REMOVED
    assert requested_cpu(state, "n1") == 0


def test_a_resize_changes_what_is_requested(state: ClusterState) -> None:
    """In-place resize arrives as an update of a bound pod."""
    state.upsert_node(a_node("n1"))
    state.observe_pod(a_pod("p", "n1", cpu=100))
    assert state.observe_pod(a_pod("p", "n1", cpu=900)) is PodMove.UPDATED
    assert requested_cpu(state, "n1") == 900


def test_rows_are_recycled_and_clean(state: ClusterState) -> None:
    """A new node on an old row inherits nothing."""
    state.upsert_node(a_node("old", gpu=2, zone="a", tainted=True))
    state.observe_pod(a_pod("p", "old", gpu=1, port=80))
    row = state.row_of("old")
    state.remove_node("old")
    state.upsert_node(Node("new"))
    assert state.row_of("new") == row
    assert row is not None
    assert not state.resources.allocatable[:, row].any()
    assert not state.resources.requested[:, row].any()
    assert state.taints.sets[state.taints.ids[row]] == ()


def test_growth_keeps_everything(state: ClusterState) -> None:
    """More nodes than the first capacity."""
    for number in range(100):
        state.upsert_node(a_node(f"n{number}", cpu=number))
        state.observe_pod(a_pod(f"p{number}", f"n{number}", cpu=number))
    assert state.capacity >= 100
    for number in range(100):
        row = state.row_of(f"n{number}")
        assert row is not None
        assert int(state.resources.allocatable[0, row]) == number


def test_a_status_update_is_no_news_for_placement(state: ClusterState) -> None:
    """Most updates of bound pods: they must not wake anybody, nor spoil kept answers."""
    state.upsert_node(a_node("n1"))
    state.observe_pod(a_pod("p", "n1"))
    position = state.pod_log.position
    assert state.observe_pod(a_pod("p", "n1")) is PodMove.SAME
    assert state.pod_log.position == position


def test_a_deletion_mark_is_news(state: ClusterState) -> None:
    """Rules may leave pods out that are on their way out."""
    state.upsert_node(a_node("n1"))
    state.observe_pod(a_pod("p", "n1"))
    position = state.pod_log.position
    assert state.observe_pod(replace(a_pod("p", "n1"), deleted_s=1.0)) is PodMove.UPDATED
    assert state.pod_log.since(position) == [state.row_of("n1")]


def test_a_what_if_also_takes_back_a_confirmation(state: ClusterState) -> None:
    """An assumed pod that is confirmed inside is assumed again afterwards."""
    state.upsert_node(a_node("n1"))
    record = state.assume(a_pod("p", cpu=250), int(state.rows()[0]))
    with state.statement():
        assert state.observe_pod(a_pod("p", "n1", cpu=250)) is PodMove.CONFIRMED
    assert record.assumed
    assert state.forget("p") is record


def test_a_pod_assumed_anew_counts_once(state: ClusterState) -> None:
    """Whatever was known of it before is replaced, on a known node or not."""
    state.upsert_node(a_node("n1"))
    state.upsert_node(a_node("n2"))
    state.observe_pod(a_pod("p", "n1", cpu=250))
    row = state.row_of("n2")
    assert row is not None
    state.assume(a_pod("p", cpu=250), row)
    assert (requested_cpu(state, "n1"), requested_cpu(state, "n2")) == (0, 250)


def test_taints_are_found_under_their_earlier_names(state: ClusterState) -> None:
    """Plugins written for the release before read them so."""
    state.upsert_node(a_node("n1", tainted=True))
    row = state.row_of("n1")
    assert row is not None
    assert state.taint_sets[state.taint_ids[row]] == (Taint("maintenance"),)
