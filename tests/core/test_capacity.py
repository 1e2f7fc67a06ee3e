"""Spot, on-demand or unknown: what the labels of the clouds say, of one node and as a column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.capacity import CAPACITY_LABELS, Capacity, CapacityLabel, CapacityTypes
from moorage.testing import make_node, make_state

OWN, KARPENTER, EKS = "node.kubernetes.io/capacity", "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"
GKE, AKS = "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority"
SPOT, ON_DEMAND, UNKNOWN = Capacity.SPOT, Capacity.ON_DEMAND, Capacity.UNKNOWN

LABELS = {
    "own spot": ({OWN: "spot"}, SPOT),
    "own on-demand": ({OWN: "on-demand"}, ON_DEMAND),
    "any case": ({OWN: "Spot"}, SPOT),
    "Karpenter spot": ({KARPENTER: "spot"}, SPOT),
    "Karpenter on-demand": ({KARPENTER: "on-demand"}, ON_DEMAND),
    "Karpenter reserved": ({KARPENTER: "reserved"}, ON_DEMAND),
    "EKS spot": ({EKS: "SPOT"}, SPOT),
    "EKS on-demand": ({EKS: "ON_DEMAND"}, ON_DEMAND),
    "GKE spot": ({GKE: "true"}, SPOT),
    "GKE not spot": ({GKE: "false"}, ON_DEMAND),
    "AKS spot": ({AKS: "spot"}, SPOT),
    "AKS regular": ({AKS: "regular"}, ON_DEMAND),
    "nothing": ({}, UNKNOWN),
    "an unknown word": ({OWN: "leased"}, UNKNOWN),
    "the next label where one says nothing": ({OWN: "leased", AKS: "spot"}, SPOT),
    "the first label where both say something": ({OWN: "on-demand", EKS: "SPOT"}, ON_DEMAND),
}


@pytest.mark.parametrize(("labels", "want"), LABELS.values(), ids=LABELS.keys())
def test_labels_tell_the_capacity(labels: dict[str, str], want: Capacity) -> None:
    """One node and the column agree."""
    types, state = CapacityTypes(), make_state([make_node("n1", labels=labels)])
    assert types.of(labels) is want
    assert types.column(state)[state.row_of("n1")] == want


def test_added_labels_come_first() -> None:
    """Who adds a key means it."""
    types = CapacityTypes([CapacityLabel("pool", frozenset({"cheap"}), frozenset({"dear"}))])
    assert types.of({"pool": "cheap", OWN: "on-demand"}) is SPOT
    assert types.of({"pool": "Dear", OWN: "spot"}) is ON_DEMAND
    assert types.of({"pool": "other", OWN: "spot"}) is SPOT


def test_nodes_without_a_label_can_count_as_on_demand() -> None:
    """GKE and AKS label their spot nodes only."""
    types, state = (
        CapacityTypes(unlabelled=ON_DEMAND),
        make_state([make_node("a"), make_node("b", labels={GKE: "true"})]),
    )
    column = types.column(state)
    assert [column[state.row_of(name)] for name in ("a", "b")] == [ON_DEMAND, SPOT]


NODES = st.integers(0, 40)
NODE_LABELS = st.dictionaries(
    st.sampled_from([label.key for label in CAPACITY_LABELS]), st.sampled_from(["spot", "SPOT", "true", "regular", "x"])
)


@given(batches=st.lists(st.lists(st.tuples(NODES, st.none() | NODE_LABELS), max_size=50), max_size=6))
def test_the_column_equals_the_labels_node_by_node(batches: list[list[tuple[int, dict[str, str] | None]]]) -> None:
    """Nodes come, change and go, few or many at a time: the kept column is what a new one would be."""
    types, state = CapacityTypes(), make_state()
    for batch in batches:
        for number, labels in batch:
            if labels is None:
                state.remove_node(f"n{number}")
            else:
                state.upsert_node(make_node(f"n{number}", labels=labels))
        column = types.column(state)
        assert len(column) == state.capacity
        assert {int(row): int(column[row]) for row in state.rows()} == {
            int(row): types.of(state.node(int(row)).labels) for row in state.rows()
        }


def test_one_reader_serves_several_states() -> None:
    """What was kept of one state is not shown for another."""
    types = CapacityTypes()
    spot, plain = make_state([make_node("n", labels={OWN: "spot"})]), make_state([make_node("n")])
    assert [int(types.column(state)[0]) for state in (spot, plain, spot)] == [
        types.of(state.node(0).labels) for state in (spot, plain, spot)
    ]
