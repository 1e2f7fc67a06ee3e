"""Taint sets, label values and label keys live as long as a node has them; the numbers that stand for them follow."""

from __future__ import annotations

from moorage.core.domains import Scope
from moorage.core.invariants import check_invariants
from moorage.core.podcounts import CountQuery
from moorage.core.selectors import EVERYTHING
from moorage.core.taints import Toleration
from moorage.testing import make_node, make_pod, make_state

HOSTNAME = "kubernetes.io/hostname"
_GARBAGE = 64
"""What may lie around beside as many as are in use."""


def test_taints_with_timestamps_leave_nothing_behind() -> None:
    """An autoscaler writes another timestamp into a taint of one of 50 nodes, 20,000 times."""
    state = make_state([make_node(f"n{number}") for number in range(50)])
    for turn in range(20_000):
        taints = [f"DeletionCandidateOfClusterAutoscaler={turn}:PreferNoSchedule"] if turn % 3 else []
        state.upsert_node(make_node(f"n{turn % 50}", taints=taints))
    check_invariants(state)
    alive = {state.node(int(row)).taints for row in state.rows()}
    assert len(state.taints.sets) <= 2 * len(alive) + 2 * _GARBAGE + 2
    for number in range(50):
        state.upsert_node(make_node(f"n{number}", taints=[f"a={number}:NoSchedule"]))
        state.remove_node(f"n{number}")
    assert len(state.taints.sets) <= 2 * _GARBAGE + 2


def test_replaced_nodes_leave_no_hostnames_behind() -> None:
    """Fifty nodes are replaced a hundred times; counts by domain stay right over every renumbering."""
    state = make_state([make_node(f"n{number}", zone=f"z{number % 3}") for number in range(50)])
    question = CountQuery(None, EVERYTHING)
    by_host, by_zone = state.domains.column(HOSTNAME), state.domains.column("topology.kubernetes.io/zone")
    for turn in range(5_000):
        name = f"n{turn + 50}"
        state.remove_node(f"n{turn}")
        state.upsert_node(make_node(name, zone=f"z{turn % 3}", labels={f"only-{turn}": "x"}))
        state.observe_pod(make_pod(f"p{turn}", node=name))
        state.remove_pod(f"default/p{turn - 20}")
        for column in (by_host, by_zone) if turn % 7 == 0 else ():
            column.refresh(state)
            tally = state.pod_counts.counter(question).tally
            assert tally.by_domain(column).total == min(turn + 1, 20)
    check_invariants(state)
    hostnames = state.labels.known(HOSTNAME)
    assert hostnames is not None
    assert len(hostnames.values) <= 2 * 50 + 2 * _GARBAGE + 2
    assert len(state.labels) == 2 + 50, "a key of its own on every node, and the keys of nodes that are gone have none"


def test_scoped_domains_follow_sets_of_taints_that_are_numbered_anew() -> None:
    """A count of untainted nodes only is right after every change."""
    state = make_state([make_node(f"n{number}", zone="z") for number in range(5)])
    column = state.domains.column("topology.kubernetes.io/zone", Scope(tolerations=(Toleration("calm", "Exists"),)))
    for turn in range(1_000):
        taints = [f"{'calm' if turn % 2 else 'loud'}={turn}:NoSchedule"]
        state.upsert_node(make_node(f"n{turn % 5}", zone=f"z{turn}", taints=taints))
        if turn % 3 == 0:
            column.refresh(state)
            want = sum(column.scope.admits(state.node(int(row))) for row in state.rows())
            assert column.labelled == want
