"""Who has which device: states, claims and pods of what a state knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.claims import Allocation, ClaimConsumer, ResourceClaim
from moorage.core.devices import CounterUse, Device, DeviceTaintRule, Reach, Version
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.selectors import Operator, Requirement
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.testing import make_node, make_state
from moorage.testing.devices import DEVICE_DRIVER, make_allocation, make_device, make_resource_claim, make_slice
from moorage.testing.storage import put
from moorage.views.devices import DeviceEntry, DeviceState, device_document, document, drivers, inventory

N1, N2 = make_node("n1", labels={"zone": "a"}), make_node("n2", labels={"zone": "b"})
FREE, SHARED, IN_USE = DeviceState.FREE, DeviceState.SHARED, DeviceState.IN_USE
BLOCKED, MISSING = DeviceState.BLOCKED, DeviceState.MISSING


def on(node: str, allocation: Allocation) -> Allocation:
    """The allocation, of devices of this node."""
    return replace(allocation, node_terms=(NodeTerm(fields=(Requirement("metadata.name", Operator.IN, (node,)),)),))


def claim(name: str, allocation: Allocation, *pods: str) -> ResourceClaim:
    consumers = tuple(ClaimConsumer("pods", pod, f"uid-{pod}") for pod in pods)
    return make_resource_claim(name, allocation=allocation, reserved_for=consumers)


def share(device: str, amount: str, **fields: Any) -> Allocation:
    return make_allocation(device, share_id="s", consumed=FrozenDict({"memory": amount}), **fields)


def state_of(*objects: Any) -> ClusterState:
    state = make_state([N1, N2])
    put(state, *objects)
    return state


def states(state: ClusterState, node: Node | None = None, driver: str | None = None) -> dict[str, DeviceState]:
    """`pool/device` -> its state."""
    return {f"{entry.id.pool}/{entry.id.device}": entry.state for entry in inventory(state, node, driver).devices}


def only(state: ClusterState, device: str) -> DeviceEntry:
    (found,) = (entry for entry in inventory(state).devices if entry.id.device == device)
    return found


HALVES = [
    make_device("whole", counters={"memory": "80Gi"}),
    make_device("half-0", counters={"memory": "40Gi"}),
    make_device("half-1", counters={"memory": "40Gi"}),
]
COUNTED = make_slice(
    "c", node="n1", slice_count=2, counter_sets=(CounterUse("shared", FrozenDict({"memory": "80Gi"})),)
)
OPEN = Device("d", capacity=make_device("d", capacity={"memory": "80Gi"}).capacity, shared=True)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([make_slice("s", node="n1", devices=["d"])], {"n1/d": FREE}, id="free"),
        pytest.param(
            [make_slice("s", node="n1", devices=["d", "e"]), claim("c", make_allocation("n1/d"))],
            {"n1/d": IN_USE, "n1/e": FREE},
            id="in use",
        ),
        pytest.param(
            [make_slice("s", node="n1", devices=["d"]), claim("c", make_allocation("n1/d", admin_access=True))],
            {"n1/d": FREE},
            id="administration takes nothing",
        ),
        pytest.param(
            [make_slice("s", node="n1", devices=[OPEN]), claim("c", share("n1/d", "30Gi"))],
            {"n1/d": SHARED},
            id="a share",
        ),
        pytest.param(
            [
                make_slice("s", node="n1", devices=[OPEN]),
                claim("c", share("n1/d", "30Gi")),
                claim("e", share("n1/d", "50Gi")),
            ],
            {"n1/d": IN_USE},
            id="used up",
        ),
        pytest.param(
            [
                COUNTED,
                make_slice("s", node="n1", slice_count=2, devices=HALVES),
                claim("c", make_allocation("n1/half-0")),
            ],
            {"n1/whole": BLOCKED, "n1/half-0": IN_USE, "n1/half-1": FREE},
            id="counters",
        ),
        pytest.param([claim("c", make_allocation("n1/d"))], {"n1/d": MISSING}, id="no pool"),
        pytest.param(
            [
                make_slice("new", node="n1", devices=["e"], generation=2),
                make_slice("old", node="n1", devices=["d"]),
                claim("c", make_allocation("n1/d")),
            ],
            {"n1/e": FREE, "n1/d": MISSING},
            id="of an older generation",
        ),
    ],
)
def test_states(objects: list[Any], want: dict[str, DeviceState]) -> None:
    """What others leave of a device; listed for the cluster as for its node."""
    state = state_of(*objects)
    assert states(state) == want
    assert states(state, N1) == want
    assert inventory(state).counts == {each.value: list(want.values()).count(each) for each in set(want.values())}


def test_claims_and_pods_that_have_a_device() -> None:
    """All of them, with what each takes and for what."""
    state = state_of(
        make_slice("s", node="n1", devices=[OPEN]),
        claim("a", share("n1/d", "30Gi"), "p", "q"),
        claim("b", share("n1/d", "1Gi", request="gpu/big")),
    )
    found = device_document(only(state, "d"))
    assert (found["node"], found["capacity"], found["consumed"]) == ("n1", {"memory": "80Gi"}, {"memory": "31Gi"})
    first = {"claim": "default/a", "request": "r0", "pods": ["default/p", "default/q"], "consumed": {"memory": "30Gi"}}
    second = {"claim": "default/b", "request": "gpu/big", "pods": [], "consumed": {"memory": "1Gi"}}
    assert found["claims"] == [{**first, "adminAccess": False}, {**second, "adminAccess": False}]


def test_what_a_pod_on_its_way_has_reserved_is_in_use() -> None:
    """Before the API server knows it."""
    state = state_of(make_slice("s", node="n1", devices=["d"]), make_resource_claim("c"))
    state.devices.reserve("pod", {"default/c": make_allocation("n1/d")})
    entry = only(state, "d")
    assert (entry.state, [each.claim for each in entry.holdings]) == (IN_USE, ["default/c"])


def test_a_node_lists_what_it_can_use() -> None:
    """Slices and devices for other nodes are left out; who has what of theirs is still known."""
    mine, theirs = make_device("mine", reach=Reach("n1")), make_device("theirs", reach=Reach("n2"))
    state = state_of(
        make_slice("each", pool="each", reach=None, per_device=True, devices=[mine, theirs]),
        make_slice("zone", pool="zone", on="zone In b", devices=["z"]),
        make_slice("net", pool="net", driver="net", devices=["card"]),
        claim("c", on("n2", make_allocation("net/net/card", "each/theirs"))),
        claim("lost", on("n2", make_allocation("gone/g"))),
    )
    assert states(state, N1) == {"each/mine": FREE, "net/card": IN_USE}
    assert states(state, N2) == {"each/theirs": IN_USE, "zone/z": FREE, "net/card": IN_USE, "gone/g": MISSING}
    assert states(state, N2, "net") == {"net/card": IN_USE}
    assert states(state, driver="nobody") == {}
    assert drivers(state) == [DEVICE_DRIVER, "net"]
    where = {entry.id.device: (entry.node, entry.everywhere) for entry in inventory(state).devices}
    want_where: dict[str, tuple[str | None, bool]] = {"mine": ("n1", False), "theirs": ("n2", False)}
    assert where == {**want_where, "g": ("n2", False), "z": (None, False), "card": (None, True)}


def test_pools_that_something_has_to_be_said_of() -> None:
    """What is left of counters, and why nothing can be allocated; a device of such a pool is not called lost."""
    state = state_of(
        COUNTED,
        make_slice("s", node="n1", slice_count=2, devices=HALVES),
        make_slice("part", node="n2", pool="part", slice_count=3, devices=["d"]),
        make_slice("twice", node="n2", pool="twice", devices=["d", "d"]),
        claim("c", make_allocation("n1/half-0"), "p"),
        claim("e", make_allocation("part/d")),
        claim("f", make_allocation("gone/d")),
    )
    pools = {each["pool"]: (each["problem"], each["counters"]) for each in document(inventory(state))["pools"]}
    assert pools == {
        "n1": (None, {"shared/memory": {"free": "40Gi", "total": "80Gi"}}),
        "part": ("incomplete: slices are missing", {}),
        "twice": ("invalid: duplicate device name d", {}),
    }
    problems = {entry.id.pool: entry.problem for entry in inventory(state).devices if entry.problem}
    assert problems == {"part": "its pool is incomplete: slices are missing", "gone": "no driver offers it any more"}


def test_taints_of_rules_and_attributes() -> None:
    """A device has its own taints and those of rules; attributes are plain values."""
    taint = Taint("bad", "x", "NoExecute")
    device = make_device("d", taints=(Taint("k"),), model="a", n=3, ok=True, v=Version("1.2.3"), all=("a", "b"))
    state = state_of(
        make_slice("s", node="n1", devices=[device]), DeviceTaintRule("r", taint, selects=True, device="d")
    )
    found = device_document(only(state, "d"))
    assert found["taints"] == ["k:NoSchedule", "bad=x:NoExecute"]
    assert found["attributes"] == {"model": "a", "n": 3, "ok": True, "v": "1.2.3", "all": ["a", "b"]}
