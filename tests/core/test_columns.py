"""Resource columns: names that nodes offer have one, sums never lie, and nothing stays behind."""

from __future__ import annotations

import pytest

from moorage.core.columns import FIRST_COLUMNS
from moorage.core.invariants import check_invariants
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state

GPU, FPGA = "example.com/gpu", "example.com/fpga"


def names(state: ClusterState) -> list[str]:
    return [name for name in state.resources.names[len(FIRST_COLUMNS) :] if name]


def free(state: ClusterState, node: str, name: str) -> int | None:
    column, row = state.resources.known(name), state.row_of(node)
    if column is None or row is None:
        return None
    return int(state.resources.allocatable[column, row] - state.resources.requested[column, row])


def test_names_that_no_node_offers_get_no_column() -> None:
    """Whatever pods ask for, bound or assumed; what nodes say that they have 0 of is not offered."""
    state = make_state([make_node("n1", resources={GPU: 0})])
    state.observe_pod(make_pod("bound", node="n1", requests={f"example.com/r{number}": 1 for number in range(60)}))
    state.assume(make_pod("assumed", requests={GPU: 1}), 0)
    assert names(state) == []
    assert len(state.resources.requested) == len(FIRST_COLUMNS)
    check_invariants(state)


def test_what_pods_ask_for_counts_as_soon_as_a_node_offers_it() -> None:
    """The device plugin comes after the pods, on the same or on another node; taken back in a statement, too."""
    state = make_state([make_node("n1"), make_node("n2")], [make_pod("p", node="n1", requests={GPU: 3, FPGA: 1})])
    state.upsert_node(make_node("n2", resources={GPU: 2}))
    assert free(state, "n1", GPU) == -3
    state.upsert_node(make_node("n1", resources={GPU: 4, FPGA: 1}))
    assert (free(state, "n1", GPU), free(state, "n1", FPGA)) == (1, 0)
    with state.statement():
        state.remove_pod("default/p")
        assert free(state, "n1", GPU) == 4
        check_invariants(state)
    assert free(state, "n1", GPU) == 1
    state.remove_node("n1")
    assert free(state, "n2", GPU) == 2
    state.upsert_node(make_node("n1", resources={GPU: 4}))
    assert free(state, "n1", GPU) == 1, "pods of a node that comes back count again"
    check_invariants(state)


def test_columns_are_freed_and_used_again() -> None:
    """A column lives while a node offers the name or a pod on a node holds some of it."""
    state = make_state(
        [make_node("n1", resources={GPU: 4}), make_node("n2")], [make_pod("p", node="n1", requests={GPU: 1})]
    )
    state.upsert_node(make_node("n1"))
    assert names(state) == [GPU], "the pod still holds some"
    state.remove_pod("default/p")
    state.upsert_node(make_node("n2", resources={FPGA: 1}))
    assert names(state) == [FPGA]
    state.upsert_node(make_node("n1", resources={GPU: 1}))
    assert sorted(names(state)) == [FPGA, GPU]
    check_invariants(state)


def test_memory_follows_the_resources_that_are_offered() -> None:
    """Names come and go by the thousands, a few at a time."""
    state = make_state([make_node(f"n{number}") for number in range(8)])
    for turn in range(500):
        state.upsert_node(make_node(f"n{turn % 4}", resources={f"example.com/t{turn}-{each}": 1 for each in range(8)}))
    check_invariants(state)
    assert len(names(state)) == 32
    assert len(state.resources.requested) <= 44
    for number in range(4):
        state.upsert_node(make_node(f"n{number}"))
    assert names(state) == []
    base = state.resources.requested.base
    assert base is not None
    assert len(base) <= 16, "memory is given back"


@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage", "example.com/bytes"])
@pytest.mark.parametrize("amounts", [("9Ei", "9P"), ("9223372036854775807", "1"), ("4Ei", "4Ei")], ids="-".join)
def test_amounts_saturate_and_come_back_to_the_truth(resource: str, amounts: tuple[str, str]) -> None:
    """Two giants never make a full node look empty, and when they are gone it is as full as before."""
    state = make_state([make_node("n1", resources={resource: "8Gi"})])
    before = free(state, "n1", resource)
    for number, amount in enumerate(amounts * 3):
        state.observe_pod(make_pod(f"giant-{number}", node="n1", requests={resource: amount}))
        left = free(state, "n1", resource)
        assert before is not None
        assert left is not None
        assert left < before
        assert left < 0 or amount == "1"
    check_invariants(state)
    for number in range(6):
        state.remove_pod(f"default/giant-{number}")
    assert free(state, "n1", resource) == before


def test_a_node_never_has_room_for_more_than_can_be_added_up() -> None:
    """Beyond that many pods sums could overflow, so such a node is full; and nobody gets the largest amount."""
    state = make_state([make_node("n1", pods=1_000_000, memory="9Ei")])
    assert free(state, "n1", "pods") == 8191
    giant = make_pod("p", memory="9Ei")
    assert (free(state, "n1", "memory") or 0) < giant.requests.get("memory")
    assert (8192 + 8192) * giant.requests.get("memory") <= 2**63
