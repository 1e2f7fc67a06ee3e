"""Pools by node, and what is in use of them, follow every event, and what-ifs leave nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE
from moorage.core.devices import CounterUse, DeviceId, DeviceTaintRule, Reach, ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.testing import make_node, make_state
from moorage.testing.devices import DEVICE_DRIVER, make_allocation, make_device, make_resource_claim, make_slice
from moorage.testing.storage import put

NODE = make_node("n1", labels={"zone": "a"})


def seen(state: ClusterState) -> dict[str, list[str] | str]:
    """Pool -> its devices as `n1` sees them, or what is wrong with it."""
    return {
        pool.id.pool: pool.invalid or ("incomplete" if pool.incomplete else [c.id.device for c in pool.candidates])
        for pool in state.devices.pools(NODE)
    }


def near(name: str, *devices: str, pool: str = "p", **fields: Any) -> ResourceSlice:
    return make_slice(name, node="n1", pool=pool, devices=devices, **fields)


def far(name: str, *devices: str, pool: str = "p", **fields: Any) -> ResourceSlice:
    return make_slice(name, node="n2", pool=pool, devices=devices, **fields)


COUNTERS = (CounterUse("shared", FrozenDict({"memory": "80Gi"})),)
POOLS = [
    pytest.param([near("s", "b", "a")], {"p": ["b", "a"]}, id="devices as listed"),
    pytest.param(
        [near("s2", "a", slice_count=2), near("s1", "b", slice_count=2)], {"p": ["b", "a"]}, id="slices by name"
    ),
    pytest.param([near("s1", "a", pool="q"), near("s2", "b", pool="p")], {"p": ["b"], "q": ["a"]}, id="pools by name"),
    pytest.param([near("s1", "a", generation=1), near("s2", "b", generation=2)], {"p": ["b"]}, id="newest generation"),
    pytest.param([near("s1", "a", slice_count=2)], {"p": "incomplete"}, id="a slice is missing"),
    pytest.param(
        [near("s1", "a", slice_count=2), far("s2", "b", slice_count=2)], {"p": ["a"]}, id="another is elsewhere"
    ),
    pytest.param([near("s1", "a", slice_count=2), far("s2", "b", generation=2)], {}, id="a newer one elsewhere"),
    pytest.param([near("s1", "a"), far("s2", "b", generation=2)], {"p": ["a"]}, id="a newer one, but this is complete"),
    pytest.param([far("s2", "b")], {}, id="nothing for this node"),
    pytest.param([make_slice("s", pool="p", devices=["a"])], {"p": ["a"]}, id="for all nodes"),
    pytest.param([make_slice("s", pool="p", on="zone In a", devices=["a"])], {"p": ["a"]}, id="for a zone"),
    pytest.param([make_slice("s", pool="p", on="zone In b", devices=["a"])], {}, id="for another zone"),
    pytest.param(
        [near("s1", "a", slice_count=2), near("s2", "a", slice_count=2)],
        {"p": "duplicate device name a"},
        id="a name twice",
    ),
    pytest.param(
        [
            make_slice(
                "s1", node="n1", pool="p", devices=[make_device("a", counters={"memory": "1Gi"})], slice_count=2
            ),
            far("s2", slice_count=2, counter_sets=COUNTERS),
        ],
        {"p": ["a"]},
        id="counters elsewhere",
    ),
    pytest.param(
        [make_slice("s1", node="n1", pool="p", devices=[make_device("a", counters={"memory": "1Gi"})])],
        {"p": "counter set shared not found"},
        id="no such counters",
    ),
    pytest.param(
        [
            make_slice("s1", node="n1", pool="p", devices=[make_device("a", counters={"cores": "1"})], slice_count=2),
            near("s2", slice_count=2, counter_sets=COUNTERS),
        ],
        {"p": "counter cores not found in counter set shared"},
        id="no such counter",
    ),
    pytest.param(
        [
            near("s1", slice_count=2, counter_sets=COUNTERS),
            near("s2", slice_count=2, counter_sets=COUNTERS),
        ],
        {"p": "duplicate counter set name shared"},
        id="counters twice",
    ),
    pytest.param(
        [
            make_slice("s1", node="n1", pool="a", devices=[make_device("late", binding_conditions=("ready",))]),
            near("s2", "soon", pool="b"),
        ],
        {"b": ["soon"], "a": ["late"]},
        id="devices that drivers have to make ready come last",
    ),
]


@pytest.mark.parametrize(("slices", "want"), POOLS)
def test_the_pools_of_a_node(slices: list[ResourceSlice], want: dict[str, list[str] | str]) -> None:
    """In the order in which they are tried, whatever the order in which slices come."""
    for order in (slices, slices[::-1]):
        found = seen(put(make_state([NODE]), *order))
        assert found == want
        assert [*found] == [*want]


@pytest.mark.parametrize(("slices", "want"), POOLS)
def test_pools_are_those_of_the_slices_that_there_are(
    slices: list[ResourceSlice], want: dict[str, list[str] | str]
) -> None:
    """However often the node was asked about before, and in what-ifs."""
    state = make_state([NODE])
    for part in slices:
        seen(put(state, part))
    assert seen(state) == want
    with state.statement():
        for part in slices:
            state.remove_object(RESOURCE_SLICE, part.name)
            seen(state)
        put(state, near("other", "z", pool="z"))
        assert seen(state) == {"z": ["z"]}
    assert seen(state) == want
    for part in slices:
        state.remove_object(RESOURCE_SLICE, part.name)
    assert seen(state) == {}
    assert state.devices.views.empty


def test_a_node_that_moves_sees_other_pools() -> None:
    """Labels of the node count as they are now."""
    state = put(make_state([NODE]), make_slice("s", pool="p", on="zone In a", devices=["a"]))
    assert seen(state) == {"p": ["a"]}
    assert state.devices.pools(make_node("n1", labels={"zone": "b"})) == ()
    assert seen(state) == {"p": ["a"]}


def test_rules_taint_devices_as_long_as_they_are_there() -> None:
    """Beside the taints that a device has itself."""
    own, added = Taint("own"), Taint("added", effect="NoExecute")
    state = put(
        make_state([NODE]), make_slice("s", node="n1", pool="p", devices=[make_device("a", taints=(own,)), "b"])
    )
    assert [each.taints for each in state.devices.pools(NODE)[0].candidates] == [(own,), ()]
    put(state, DeviceTaintRule("r", added, selects=True, device="a"))
    assert [each.taints for each in state.devices.pools(NODE)[0].candidates] == [(own, added), ()]
    state.remove_object(TAINT_RULE, "r")
    assert [each.taints for each in state.devices.pools(NODE)[0].candidates] == [(own,), ()]


GPU = DeviceId(DEVICE_DRIVER, "p", "a")


def in_use(state: ClusterState) -> tuple[bool, bool, dict[str, int] | None]:
    consumed = state.devices.consumed(GPU)
    return state.devices.held(GPU), state.devices.in_use(GPU), None if consumed is None else dict(consumed)


def test_claims_hold_devices_until_they_give_them_back() -> None:
    """Admin access holds nothing."""
    state = make_state([NODE])
    claim = make_resource_claim("c", allocation=make_allocation("p/a"))
    put(state, make_resource_claim("admin", allocation=make_allocation("p/a", admin_access=True)))
    assert in_use(state) == (False, False, None)
    put(state, claim, claim)
    assert in_use(state) == (True, True, None)
    put(state, replace(claim, allocation=None))
    assert in_use(state) == (False, False, None)
    put(state, claim)
    state.remove_object(RESOURCE_CLAIM, claim.key)
    assert in_use(state) == (False, False, None)


def test_shares_add_up() -> None:
    """A shared device is not held, but what is left of it shrinks."""
    state = make_state([NODE])
    half = make_allocation("p/a", share_id="x", consumed=FrozenDict({"memory": "1"}))
    more = make_allocation("p/a", share_id="y", consumed=FrozenDict({"memory": "500m"}))
    put(state, make_resource_claim("c1", allocation=half), make_resource_claim("c2", allocation=more))
    assert in_use(state) == (False, True, {"memory": 1_500_000_000})
    put(state, make_resource_claim("c1"))
    assert in_use(state) == (False, True, {"memory": 500_000_000})
    put(state, make_resource_claim("c2"))
    assert in_use(state) == (False, False, None)


def test_what_is_left_of_counters() -> None:
    """Devices in use take theirs, on whatever node; the result may be negative."""
    devices = [make_device("a", counters={"memory": "60Gi"}), make_device("b", counters={"memory": "40Gi"})]
    state = put(
        make_state([NODE]),
        make_slice("s1", node="n1", pool="p", devices=devices[:1], slice_count=3),
        make_slice("s2", node="n2", pool="p", devices=devices[1:], slice_count=3),
        near("s3", slice_count=3, counter_sets=COUNTERS),
    )
    (pool,) = state.devices.pools(NODE)
    gi = 1024**3 * 10**9
    assert state.devices.available(pool) == {("shared", "memory"): 80 * gi}
    put(state, make_resource_claim("c1", allocation=make_allocation("p/b")))
    assert state.devices.available(pool) == {("shared", "memory"): 40 * gi}
    put(state, make_resource_claim("c2", allocation=make_allocation("p/a")))
    assert state.devices.available(pool) == {("shared", "memory"): -20 * gi}


def test_a_reservation_counts_until_the_claim_says_more() -> None:
    """What the API server says of a claim goes before what a pod has reserved for it."""
    state = put(make_state([NODE]), make_resource_claim("c"))
    key, mine, other = "default/c", make_allocation("p/a"), make_allocation("p/b")
    state.devices.reserve("u", {key: mine})
    assert (state.devices.pending(key), state.devices.held(GPU)) == (mine, True)
    put(state, make_resource_claim("c", allocation=other))
    assert (state.devices.pending(key), state.devices.allocation(key), state.devices.held(GPU)) == (None, other, False)
    put(state, make_resource_claim("c"))
    assert state.devices.held(GPU)
    assert state.devices.release("u") == {key: mine}
    assert (state.devices.pending(key), state.devices.held(GPU), state.devices.reservations) == (None, False, {})


def test_reservations_can_be_taken_over() -> None:
    """As a journal's image does it."""
    state, other = make_state([NODE]), make_state([NODE])
    state.devices.reserve("u", {"default/c": make_allocation("p/a")})
    other.devices.reserve("v", {"default/d": make_allocation("p/b")})
    other.devices.reservations = state.devices.reservations
    assert other.devices.reservations == state.devices.reservations
    assert in_use(other) == in_use(state) == (True, True, None)
    assert not other.devices.held(DeviceId(DEVICE_DRIVER, "p", "b"))


def test_the_log_has_views_of_which_something_else_is_in_use() -> None:
    """Nodes that see the pool concerned, not others; and what the API server knows already is no news."""
    state = put(make_state([NODE]), near("s", "a"), far("t", "b", pool="q"), make_slice("u", pool="r", devices=["c"]))
    views = state.devices.views
    mine, other = views.view(NODE), views.view(make_node("n2"))

    def news(*objects: Any) -> set[int]:
        position = views.log.position
        put(state, *objects)
        return set(views.log.since(position) or ())

    claim = make_resource_claim("c")
    state.devices.reserve("pod", {claim.key: make_allocation("p/a")})
    assert news(replace(claim, allocation=replace(make_allocation("p/a"), allocated_s=1.0))) == set()
    assert news(claim, make_resource_claim("d", allocation=make_allocation("q/b"))) == {other}
    assert news(make_resource_claim("e", allocation=make_allocation("r/c"))) == {mine, other}


def test_nodes_that_the_same_slices_concern_share_a_view() -> None:
    """Until a slice comes, changes or goes that concerns one of them."""
    nodes = [make_node(f"n{number}", labels={"zone": "a"}) for number in range(3)]
    state = put(make_state(nodes), make_slice("u", pool="r", on="zone In a", devices=["c"]))

    def groups() -> list[list[str]]:
        views: dict[int, list[str]] = {}
        for node in nodes:
            views.setdefault(state.devices.views.view(node), []).append(node.name)
        return sorted(views.values())

    assert groups() == [["n0", "n1", "n2"]]
    put(state, near("s", "a"))
    assert groups() == [["n0", "n2"], ["n1"]]
    state.remove_object(RESOURCE_SLICE, "s")
    assert groups() == [["n0", "n1", "n2"]]
    assert state.devices.views.height <= 3
    each = [make_device(name, reach=Reach(name)) for name in ("n0", "n1")]
    put(state, make_slice("s", pool="p", reach=None, per_device=True, devices=each))
    assert groups() == [["n0"], ["n1"], ["n2"]]


def test_what_two_pods_give_to_a_claim_stays_taken_for_the_second() -> None:
    """Although the first has given up, and its write is answered after that of the second."""
    state = put(make_state([make_node("n1")]), make_slice("s", node="n1", devices=["a"]), make_resource_claim("c"))
    devices, taken = state.devices, make_allocation("n1/a")
    devices.reserve("first", {"default/c": taken})
    assert devices.join("second", "default/c") == taken
    devices.release("first")
    assert devices.held(DeviceId(DEVICE_DRIVER, "n1", "a"))
    devices.release("second")
    assert not devices.held(DeviceId(DEVICE_DRIVER, "n1", "a"))
    assert devices.join("third", "default/c") is None
