"""Which devices claims get on a node, and why they get none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from moorage.core.allocating import Search
from moorage.core.claims import (
    ALL,
    EXACT_COUNT,
    Allocation,
    DeviceChoice,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from moorage.core.devicecapacity import CapacityError, consumption, is_enough
from moorage.core.devicefit import AllocationError
from moorage.core.devices import CounterUse, Device, DeviceCapacity, RequestPolicy, ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.testing import make_node, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

NODE = make_node("n1", labels={"zone": "a"})
GPU = DeviceChoice(device_class="gpu")
CLASSES = {"gpu": make_device_class("gpu"), "big": make_device_class("big", 'device.attributes["gpu.example.com"].big')}
PAIR = make_device("a", big=True, numa=0), make_device("b", big=False, numa=1), make_device("c", big=False, numa=1)


def state_of(*slices: ResourceSlice, used: Sequence[Allocation] = ()) -> ClusterState:
    others = (make_resource_claim(f"other-{number}", allocation=each) for number, each in enumerate(used))
    return put(make_state([NODE]), *slices, *others)


def search(state: ClusterState, *claims: ResourceClaim) -> Search:
    return Search(NODE, state.devices.pools(NODE), claims, CLASSES, state.devices)


def found(state: ClusterState, *claims: ResourceClaim) -> list[list[str]] | None:
    """Of each claim the devices that it gets, as `request:device`."""
    looking = search(state, *claims)
    if not looking.run(1 << 20):
        return None
    return [[f"{each.request}:{each.device}" for each in allocation.devices] for allocation in looking.allocations()]


def gpus(*devices: Device | str, **fields: Any) -> ResourceSlice:
    return make_slice("s", node="n1", devices=devices, **fields)


def either(*choices: DeviceChoice) -> ResourceClaim:
    return make_resource_claim("c", requests=(DeviceRequest("r0", alternatives=choices),))


def choice(name: str, **fields: Any) -> DeviceChoice:
    return DeviceChoice(name, **{"device_class": "gpu", **fields})


LATER = gpus(*PAIR)
CASES = [
    pytest.param(LATER, [make_resource_claim("c")], [["r0:a"]], id="the first"),
    pytest.param(LATER, [make_resource_claim("c"), make_resource_claim("d")], [["r0:a"], ["r0:b"]], id="each another"),
    pytest.param(LATER, [make_resource_claim("c", DeviceChoice(device_class="gpu", count=4))], None, id="too few"),
    pytest.param(
        LATER,
        [make_resource_claim("c", GPU, DeviceChoice(device_class="big"))],
        [["r0:b", "r1:a"]],
        id="an earlier request makes way",
    ),
    pytest.param(
        LATER,
        [
            make_resource_claim(
                "c",
                DeviceChoice(device_class="gpu", count=2),
                constraints=(DeviceConstraint(match="gpu.example.com/numa"),),
            )
        ],
        [["r0:b", "r0:c"]],
        id="of the same",
    ),
    pytest.param(
        LATER,
        [
            make_resource_claim(
                "c", GPU, GPU, GPU, constraints=(DeviceConstraint(("r1", "r2"), distinct="gpu.example.com/numa"),)
            )
        ],
        [["r0:b", "r1:a", "r2:c"]],
        id="of different",
    ),
    pytest.param(
        LATER,
        [make_resource_claim("c", constraints=(DeviceConstraint(match="gpu.example.com/none"),))],
        None,
        id="an attribute that nothing has",
    ),
    pytest.param(LATER, [either(choice("x", count=4), choice("y"))], [["r0/y:a"]], id="the next alternative"),
    pytest.param(
        LATER,
        [either(choice("x", count=2), choice("y")), make_resource_claim("d", GPU, GPU)],
        [["r0/y:a"], ["r0:b", "r1:c"]],
        id="an alternative that leaves enough",
    ),
    pytest.param(
        LATER,
        [make_resource_claim("c", DeviceChoice(device_class="gpu", mode=ALL))],
        [["r0:a", "r0:b", "r0:c"]],
        id="all",
    ),
    pytest.param(
        gpus(), [make_resource_claim("c", DeviceChoice(device_class="gpu", mode=ALL))], None, id="all of none"
    ),
    pytest.param(
        gpus(make_device("a", taints=(Taint("k"),)), "b"), [make_resource_claim("c")], [["r0:b"]], id="tainted"
    ),
    pytest.param(
        gpus(make_device("a", taints=(Taint("k", effect="None"),))),
        [make_resource_claim("c")],
        [["r0:a"]],
        id="harmless taint",
    ),
    pytest.param(
        gpus("a", "b"),
        [make_resource_claim("c", DeviceChoice(device_class="gpu", admin_access=True)), make_resource_claim("d")],
        [["r0:a"], ["r0:b"]],
        id="what an administrator looks at is not given to the same pod",
    ),
]


@pytest.mark.parametrize(("slices", "claims", "want"), CASES)
def test_which_devices_are_found(
    slices: ResourceSlice, claims: list[ResourceClaim], want: list[list[str]] | None
) -> None:
    """The first solution in the order of claims, requests, alternatives and devices."""
    assert found(state_of(slices), *claims) == want


def test_devices_in_use_are_left_alone_but_by_administrators() -> None:
    """They take what others hold, and hold nothing themselves."""
    state = state_of(gpus("a", "b"), used=[make_allocation("n1/a")])
    assert found(state, make_resource_claim("c")) == [["r0:b"]]
    assert found(state, make_resource_claim("c", DeviceChoice(device_class="gpu", admin_access=True))) == [["r0:a"]]
    assert found(state, make_resource_claim("c", DeviceChoice(device_class="gpu", mode=ALL))) is None


def test_partitions_share_counters() -> None:
    """Two halves fit, or the whole, not both; a pool that is overdrawn gives nothing."""
    parts = [
        make_device(name, counters={"memory": size})
        for name, size in (("whole", "80Gi"), ("h1", "40Gi"), ("h2", "40Gi"))
    ]
    pool = [
        make_slice("s1", node="n1", devices=parts, slice_count=2),
        make_slice(
            "s2", node="n1", counter_sets=(CounterUse("shared", FrozenDict({"memory": "80Gi"})),), slice_count=2
        ),
    ]
    assert found(state_of(*pool), make_resource_claim("c", GPU, GPU)) == [["r0:h1", "r1:h2"]]
    assert found(state_of(*pool, used=[make_allocation("n1/h1")]), make_resource_claim("c")) == [["r0:h2"]]
    assert found(state_of(*pool, used=[make_allocation("n1/h1", "n1/whole")]), make_resource_claim("c")) is None


def test_shares_of_a_device_until_it_is_full() -> None:
    """Each has a name, and consumes of every capacity."""
    device = make_device("a", capacity={"memory": "10"}, shared=True)
    ask = DeviceChoice(device_class="gpu", capacity=FrozenDict({"memory": "4"}))
    state = state_of(gpus(device))
    looking = search(state, make_resource_claim("c", ask), make_resource_claim("d", ask))
    assert looking.run(1 << 20)
    assert [each.devices[0].consumed for each in looking.allocations()] == [{"memory": "4"}] * 2
    named = looking.allocations(lambda claim, device, number: f"{claim.name}/{device}/{number}")
    assert [each.devices[0].share_id for each in named] == ["c/gpu.example.com/n1/a/0", "d/gpu.example.com/n1/a/0"]
    assert found(state, *(make_resource_claim(name, ask) for name in "cde")) is None
    used = make_allocation("n1/a", share_id="x", consumed=FrozenDict({"memory": "7"}))
    assert found(state_of(gpus(device), used=[used]), make_resource_claim("c", ask)) is None
    assert found(state, make_resource_claim("c"), make_resource_claim("d")) is None  # nothing said means everything


ERRORS = [
    pytest.param(
        [make_resource_claim("c", DeviceChoice(device_class="none"))],
        'claim default/c, request r0: could not retrieve device class none: deviceclass.resource.k8s.io "none" not '
        "found",
        id="class",
    ),
    pytest.param(
        [make_resource_claim("c", DeviceChoice(device_class="gpu", selectors=("device.attributes['x'].y == 1",)))],
        "claim default/c: selector #0 on device gpu.example.com/n1/a: CEL runtime error: no such key: y. consider "
        "using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
        id="selector",
    ),
    pytest.param(
        [
            make_resource_claim(
                "c",
                DeviceChoice(device_class="gpu", mode=ALL),
                constraints=(DeviceConstraint(match="gpu.example.com/numa"),),
            )
        ],
        "claim default/c, request r0: cannot add device gpu.example.com/n1/b because a claim constraint would not be "
        "satisfied",
        id="constraint on all",
    ),
    pytest.param(
        [
            make_resource_claim(
                "c", DeviceChoice(device_class="gpu", count=20), DeviceChoice(device_class="gpu", count=13)
            )
        ],
        "claim default/c, request r1: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for",
        id="limit",
    ),
]


@pytest.mark.parametrize(("claims", "want"), ERRORS)
def test_what_fails_for_good(claims: list[ResourceClaim], want: str) -> None:
    """In the words of kube-scheduler."""
    with pytest.raises(AllocationError) as caught:
        search(state_of(LATER), *claims).run(1 << 20)
    assert str(caught.value) == want


COSTLY = "[1, 2, 3, 4, 5, 6, 7].all(a, [1, 2, 3, 4, 5, 6, 7].all(b, [1, 2, 3, 4, 5, 6, 7].all(c, a + b + c < {})))"
"""A selector that costs some thousands of units; it holds with a large number."""


@pytest.mark.parametrize(("mode", "limit"), [(EXACT_COUNT, 100), (ALL, 200)])
def test_what_selectors_cost_counts_too(mode: str, limit: int) -> None:
    """A search pauses between devices, between the selectors of one, and inside of one, if they are costly."""
    serial = 'device.attributes["gpu.example.com"].serial == "9" && '
    selectors = (COSTLY.format(limit), COSTLY.format(limit + 1), serial + COSTLY.format(limit + 2))
    devices = [make_device(f"g{number}", serial=str(number)) for number in range(10)]
    wanted = DeviceChoice(device_class="gpu", mode=mode, selectors=selectors)
    looking = search(state_of(gpus(*devices)), make_resource_claim("c", wanted))
    pauses = 0
    while (outcome := looking.run(100)) is None:
        pauses += 1
    assert outcome
    assert [each.device for each in looking.allocations()[0].devices] == ["g9"]
    assert pauses >= 6
    assert looking.at_selectors > 3 * 100
    assert looking.looks >= looking.at_selectors


def test_a_selector_that_costs_too_much_is_evaluated_once() -> None:
    """Its error is remembered as other answers are."""
    state = state_of(gpus("a"))
    selector = COSTLY.format(1000).replace("7]", ", ".join(map(str, range(7, 90))) + "]")
    claim = make_resource_claim("c", DeviceChoice(device_class="gpu", selectors=(selector,)))
    costs = []
    for _ in range(2):
        looking = search(state, claim)
        with pytest.raises(AllocationError, match="actual cost limit exceeded"):
            looking.run(1 << 20)
        costs.append(looking.at_selectors)
    assert costs[0] > 100_000
    assert costs[1] == 0


def test_a_long_search_can_be_interrupted() -> None:
    """Hundreds of claims are no matter of recursion, and a search is done for as long as one likes."""
    names = [f"d{number}" for number in range(300)]
    state = state_of(gpus(*names))
    looking = search(state, *(make_resource_claim(name) for name in names))
    rounds = 0
    while looking.run(100) is None:
        rounds += 1
    assert rounds > 10
    assert [each.devices[0].device for each in looking.allocations()] == names


RANGE = RequestPolicy(default="2", has_range=True, least="2", most="9", step="3")
FINE = RequestPolicy(default="100m", has_range=True, least="100m", step="100m")
CAPACITIES = [
    pytest.param(None, None, "10", id="everything"),
    pytest.param(None, "3", "3", id="as asked for"),
    pytest.param(RANGE, None, "2", id="default"),
    pytest.param(RANGE, "1", "2", id="at least"),
    pytest.param(RANGE, "3", "5", id="next step"),
    pytest.param(RANGE, "9", None, id="beyond the last step"),
    pytest.param(FINE, "250m", "1", id="steps are whole units"),
    pytest.param(RequestPolicy(values=("1", "4")), "2", "4", id="next value"),
    pytest.param(RequestPolicy(values=("1", "4")), "5", None, id="beyond the last value"),
    pytest.param(RequestPolicy(has_range=True, least="1Ki", step="1Ki"), "1500", "2Ki", id="in the form of the step"),
]


@pytest.mark.parametrize(("policy", "asked", "want"), CAPACITIES)
def test_how_much_of_a_capacity_is_consumed(policy: RequestPolicy | None, asked: str | None, want: str | None) -> None:
    """Rounded up as the policy says; None if the device cannot serve it."""
    device = Device("a", capacity=FrozenDict({"m": DeviceCapacity("10", policy)}))
    taken = consumption(device, {} if asked is None else {"m": asked})
    assert taken == (None if want is None else {"m": want})


def test_capacities_that_cannot_be_counted() -> None:
    """They end the search; a capacity that the device does not have only rules it out."""
    device = Device("a", capacity=FrozenDict({"m": DeviceCapacity("10", RANGE)}))
    assert consumption(device, {"other": "1"}) is None
    assert is_enough(device, {"m": "4"}, {"m": 6 * 10**9})
    assert not is_enough(device, {"m": "4"}, {"m": 3 * 10**9}, {"m": 4 * 10**9})
    with pytest.raises(CapacityError, match=r'capacity "m": .* request 18446744073709551616 exceeds MaxInt64'):
        consumption(device, {"m": "18446744073709551616"})
    with pytest.raises(CapacityError, match='capacity "m": capacity value is negative'):
        consumption(Device("a", capacity=FrozenDict({"m": DeviceCapacity("10")})), {"m": "-1"})
