"""Devices of drivers as pieces that pods share: what is left of each, and what claims ask for."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.claims import DeviceChoice
from moorage.core.claimshares import claimed_share, learn, share_of
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.shareasks import Convention, ShareAsk
from moorage.core.state import ClusterState
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import make_allocation, make_device, make_resource_claim, make_slice
from moorage.testing.storage import put

GPUS = [make_device(f"gpu-{number}", capacity={"memory": "80Gi"}, shared=True) for number in range(3)]


def cluster(**labels: str) -> ClusterState:
    state = make_state([make_node("a", labels=labels), make_node("b")])
    state.shares()
    return put(state, make_slice("s", node="a", devices=GPUS))


def room(state: ClusterState, node: str = "a") -> list[int]:
    check_invariants(state)
    row = state.row_of(node)
    assert row is not None
    columns = state.shares()
    return [int(left) for left in columns.room[: columns.offers.item(row), row]]


def taken(device: str, amount: str) -> Any:
    return make_allocation(f"a/{device}", share_id=amount, consumed=FrozenDict({"memory": amount}))


def test_what_claims_hold_is_missing_on_their_devices() -> None:
    state = cluster()
    assert room(state) == [1000, 1000, 1000]
    assert room(state, "b") == []
    put(state, make_resource_claim("half", allocation=taken("gpu-1", "40Gi")))
    assert room(state) == [1000, 500, 1000]
    put(state, make_resource_claim("half"))
    assert room(state) == [1000, 1000, 1000]
    state.remove_object("ResourceSlice", "s")
    assert room(state) == []


def test_reservations_and_what_ifs_count() -> None:
    state = put(cluster(), make_resource_claim("own"))
    with state.statement():
        put(state, make_resource_claim("half", allocation=taken("gpu-0", "40Gi")))
        assert room(state) == [500, 1000, 1000]
    assert room(state) == [1000, 1000, 1000]
    state.devices.reserve("u", {"default/own": taken("gpu-2", "60Gi")})
    assert room(state) == [1000, 1000, 250]
    state.devices.release("u")
    assert room(state) == [1000, 1000, 1000]


def test_rows_on_which_devices_changed_hands_are_noted() -> None:
    """So that kept answers are repaired there, and nowhere else."""
    state = cluster()
    state.shares()
    position = state.pod_log.position
    put(state, make_resource_claim("half", allocation=taken("gpu-1", "40Gi")))
    state.shares()
    assert state.pod_log.since(position) == [state.row_of("a")]


def test_a_node_that_comes_later_or_goes() -> None:
    state = cluster()
    put(state, make_slice("later", node="c", devices=GPUS[:1]))
    state.upsert_node(make_node("c"))
    assert room(state, "c") == [1000]
    state.remove_node("a")
    state.upsert_node(make_node("d"))
    assert room(state, "d") == []


def test_published_devices_are_not_counted_for_other_conventions() -> None:
    """A device plugin's devices have the first slots; no annotation gets what a driver publishes."""
    state = cluster()
    state.upsert_node(make_node("a", resources={"nvidia.com/gpu": 1}))
    assert room(state) == [1000, 1000, 1000, 1000]
    rows = state.rows()
    assert state.shares().hosts(ShareAsk(Convention.KAI, 1, 500, 500), rows).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("choices", "want"),
    [
        pytest.param([DeviceChoice(capacity=FrozenDict({"memory": "40Gi"}))], (1, 500), id="a share"),
        pytest.param([DeviceChoice(count=2)], (2, 1000), id="whole devices"),
        pytest.param([DeviceChoice(capacity=FrozenDict({"other": "1"}))], (1, 1000), id="an unknown capacity"),
        pytest.param([DeviceChoice(capacity=FrozenDict({"memory": "800Gi"}))], (1, 1000), id="more than there is"),
        pytest.param([DeviceChoice(admin_access=True)], None, id="access for administration"),
        pytest.param(
            [DeviceChoice(capacity=FrozenDict({"memory": "1"})), DeviceChoice(capacity=FrozenDict({"memory": "20Gi"}))],
            (2, 250),
            id="the largest of several",
        ),
    ],
)
def test_what_claims_ask_for(choices: list[DeviceChoice], want: tuple[int, int] | None) -> None:
    claims = [make_resource_claim("c", *choices)]
    found = claimed_share(claims, cluster().shares().capacity)
    assert (None if found is None else (found.count, found.milli)) == want


def test_a_pod_counts_for_the_workload_once_its_claims_are_known() -> None:
    state, pod = cluster(), make_pod("p", claims=("gpu",))
    state.workload.follow([])
    learn(state, pod)
    assert share_of(state, pod.template) is None
    state.workload.settle()
    assert not state.workload.typical
    put(state, make_resource_claim("gpu", DeviceChoice(capacity=FrozenDict({"memory": "20Gi"}))))
    learn(state, pod)
    state.workload.settle()
    assert [each.shape.share for each in state.workload.typical] == [ShareAsk(Convention.DRA, 1, 250, 250)]
