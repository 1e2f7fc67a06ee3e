"""Which rule refuses how many devices of a node, and which ones nearly fit."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.claims import ALL, DeviceChoice, DeviceConstraint, DeviceRequest, DeviceToleration, ResourceClaim
from moorage.core.devicediagnosis import NodeDiagnosis, diagnose
from moorage.core.devicerefusals import HeldBy, Holders, TooMuch, UnmetCondition
from moorage.core.devices import CounterUse, DeviceCapacity, RequestPolicy
from moorage.core.deviceselectors import Looks
from moorage.core.frozen import FrozenDict
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.testing import make_node, make_state
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

GPU = make_device_class("gpu", 'device.driver == "gpu.example.com"')
MODEL = 'device.attributes["gpu.example.com"].model == "h100"'
MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
TAINT = Taint("broken", "", "NoSchedule")


def cluster(*devices: object, **fields: object) -> ClusterState:
    return put(make_state([make_node("n")]), GPU, make_slice("s", node="n", devices=devices, **fields))  # type: ignore[arg-type]


def look(state: ClusterState, claim: ResourceClaim, work: int = 1_000) -> NodeDiagnosis:
    put(state, claim)
    row = state.row_of("n")
    assert row is not None
    return diagnose(state, state.node(row), (claim,), Holders(state), Looks(work))


def choice(*selectors: str, **fields: object) -> DeviceChoice:
    return DeviceChoice(device_class="gpu", selectors=selectors, **fields)  # type: ignore[arg-type]


def test_each_device_counts_once_and_near_misses_say_all() -> None:
    """The first rule counts; a near miss has everything that stands against it, with values."""
    state = cluster(
        make_device("g0", model="a100", capacity={"memory": "40Gi"}),
        make_device("g1", model="h100", capacity={"memory": "40Gi"}),
        make_device("g2", model="h100", capacity={"memory": "80Gi"}, taints=(TAINT,)),
        make_device("g3", model="h100", capacity={"memory": "80Gi"}),
    )
    put(state, make_resource_claim("other", allocation=make_allocation("n/g3")))
    found = look(state, make_resource_claim("c", choice(f"{MODEL} && {MEMORY}"))).requests[0]
    assert found.refused == {
        f"selector #0: {MODEL}": 1,
        f"selector #0: {MEMORY}": 1,
        "taint broken:NoSchedule": 1,
        "in use": 1,
    }
    assert (found.wanted, found.fits, found.lacks) == (1, 0, 1)
    near = {each.name: [refusal.text for refusal in each.refusals] for each in found.nearest}
    assert near == {
        "g1": ["memory 40Gi, wanted 80Gi"],
        "g2": ["tainted broken:NoSchedule"],
        "g3": ["in use by default/other"],
    }
    fixes = {each.name: [refusal.fix for refusal in each.refusals] for each in found.nearest}
    assert fixes["g1"] == [UnmetCondition(0, 1, "40Gi")]
    assert fixes["g2"] == [TAINT]


def test_tolerations_and_missing_attributes() -> None:
    """What is tolerated refuses nothing; a device without an attribute is told so."""
    state = cluster(make_device("g0", taints=(TAINT,)))
    tolerated = choice(tolerations=(DeviceToleration("broken", "Exists"),))
    assert look(state, make_resource_claim("c", tolerated)).requests[0].fits == 1
    optional = 'device.attributes["gpu.example.com"].?model.orValue("") == "h100" && true'
    found = look(state, make_resource_claim("d", choice(optional, tolerations=tolerated.tolerations))).requests[0]
    assert [refusal.text for refusal in found.nearest[0].refusals] == [
        'device.attributes["gpu.example.com"].?model.orValue("") == "h100" does not hold'
    ]


def test_devices_of_other_classes() -> None:
    """The class is named, and its selectors are nothing that a claim could change."""
    state = cluster(make_device("g0"), driver="net.example.com")
    found = look(state, make_resource_claim("c", choice("device.attributes['x'].y == 1"))).requests[0]
    assert found.refused == {"class gpu, selector #0": 1}
    assert [refusal.fix for refusal in found.nearest[0].refusals] == [None]


def test_capacities_and_counters() -> None:
    """What is left, what is wanted, and the claims that hold the rest."""
    shared = replace(make_device("card", capacity={"bandwidth": "10G"}), shared=True)
    state = cluster(shared)
    used = make_allocation("n/card", share_id="1", consumed=FrozenDict({"bandwidth": "8G"}))
    put(state, make_resource_claim("other", allocation=used))
    found = look(state, make_resource_claim("c", choice(capacity=FrozenDict({"bandwidth": "4G"})))).requests[0]
    assert found.refused == {"capacity bandwidth": 1}
    assert found.nearest[0].refusals[0].text == "bandwidth 2G left, wanted 4G"
    assert found.nearest[0].refusals[0].fix == TooMuch("bandwidth", "2G")

    state = cluster(
        make_device("whole", counters={"memory": "80Gi"}),
        make_device("half", counters={"memory": "40Gi"}),
        slice_count=2,
    )
    put(
        state,
        make_slice("c", node="n", slice_count=2, counter_sets=(CounterUse("shared", FrozenDict({"memory": "80Gi"})),)),
    )
    put(state, make_resource_claim("other", allocation=make_allocation("n/half")))
    found = look(state, make_resource_claim("c")).requests[0]
    near = {each.name: each.refusals[0] for each in found.nearest}
    assert near["whole"].text == "counter shared/memory 40Gi left, needs 80Gi"
    assert near["whole"].fix == HeldBy(("default/other",))


def test_a_request_policy() -> None:
    """An amount that no policy allows is told, too."""
    capacity = FrozenDict({"slots": DeviceCapacity("8", RequestPolicy(default="1", values=("1", "2")))})
    state = cluster(replace(make_device("card"), capacity=capacity))
    found = look(state, make_resource_claim("c", choice(capacity=FrozenDict({"slots": "4"})))).requests[0]
    assert found.nearest[0].refusals[0].text == "its request policy does not allow the amount"


def test_all_devices() -> None:
    """Devices of another sort do not matter; one of the right sort that is taken does."""
    state = cluster(make_device("g0", model="h100"), make_device("g1", model="h100"), make_device("g2", model="a100"))
    every = make_resource_claim("c", choice(MODEL, mode=ALL))
    assert look(state, every).requests[0].lacks == 0
    put(state, make_resource_claim("other", allocation=make_allocation("n/g1")))
    found = look(state, every).requests[0]
    assert (found.wanted, found.fits, found.lacks) == (None, 1, 1)
    nothing = make_resource_claim("d", choice('device.attributes["gpu.example.com"].model == "b200"', mode=ALL))
    assert look(state, nothing).requests[0].lacks == 1


def test_constraints_that_keep_devices_apart() -> None:
    """Two devices would do, but not with the same attribute: the constraint is to blame."""
    state = cluster(*(make_device(f"g{number}", bus=bus) for number, bus in enumerate("abc")))
    constraint = DeviceConstraint(match="gpu.example.com/bus")
    found = look(state, make_resource_claim("c", choice(count=2), constraints=(constraint,)))
    assert not found.lacking
    assert [(each.name, number) for each, number in found.apart] == [("c", 0)]


def test_a_device_without_the_attribute_of_a_constraint() -> None:
    """It is refused alone."""
    state = cluster(make_device("g0"))
    claim = make_resource_claim("c", constraints=(DeviceConstraint(match="gpu.example.com/bus"),))
    found = look(state, claim).requests[0]
    assert found.refused == {"matchAttribute gpu.example.com/bus": 1}
    assert found.nearest[0].refusals[0].text == "has no attribute gpu.example.com/bus"


def test_alternatives() -> None:
    """A request lacks devices only if none of its alternatives finds enough."""
    state = cluster(make_device("g0", model="a100"))
    first, second = DeviceChoice("first", "gpu", (MODEL,)), DeviceChoice("second", "gpu")
    poor = make_resource_claim("c", requests=(DeviceRequest("r", alternatives=(first, replace(second, count=2))),))
    assert [each.request for each in look(state, poor).lacking] == ["r/first", "r/second"]
    rich = make_resource_claim("d", requests=(DeviceRequest("r", alternatives=(first, second)),))
    assert look(state, rich).lacking == ()


def test_the_work_is_bounded() -> None:
    """Looking ends when there is no work left, and says so."""
    state = cluster(*(f"g{number}" for number in range(100)))
    expensive = " && ".join(["[1, 2, 3].all(x, [1, 2, 3].all(y, x + y > 0))"] * 20 + ["false"])
    looks = Looks(50)
    claim = make_resource_claim("c", choice(expensive))
    put(state, claim)
    row = state.row_of("n")
    assert row is not None
    found = diagnose(state, state.node(row), (claim,), Holders(state), looks)
    assert not found.complete
    assert sum(found.requests[0].refused.values()) < 50
