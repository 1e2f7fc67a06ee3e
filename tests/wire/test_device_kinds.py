"""Claims, classes, slices and taint rules become core values, in every version that servers have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.claims import (
    ALL,
    AllocatedDevice,
    Allocation,
    ClaimConsumer,
    DeviceChoice,
    DeviceClass,
    DeviceCondition,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DeviceStatus,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimTemplate,
)
from moorage.core.devices import (
    CounterUse,
    Device,
    DeviceCapacity,
    DeviceId,
    DeviceTaintRule,
    Reach,
    RequestPolicy,
    ResourceSlice,
    Version,
)
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Owner
from moorage.core.selectors import Operator, Requirement
from moorage.core.taints import Taint
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID

ZONE_A = NodeTerm((Requirement("zone", Operator.IN, ("a",)),))
ZONE_A_WIRE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
CEL = {"cel": {"expression": "device.driver == 'd'"}}
EXPRESSION = "device.driver == 'd'"
CHOICE = {
    "deviceClassName": "gpu",
    "selectors": [CEL, {}],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": True,
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "capacity": {"requests": {"memory": "40Gi", "cores": 0.5}},
}
WANT_CHOICE = DeviceChoice(
    device_class="gpu",
    selectors=(EXPRESSION, ""),
    count=2,
    admin_access=True,
    tolerations=(DeviceToleration("k", "Exists", "", "NoExecute", 5),),
    capacity=FrozenDict({"memory": "40Gi", "cores": "0.5"}),
)
OPAQUE = {"opaque": {"driver": "d", "parameters": {"b": [1, None], "a": {"y": 2.5, "x": "ö"}}}}
PARAMETERS = '{"a":{"x":"ö","y":2.5},"b":[1,null]}'
DEVICE: dict[str, Any] = {
    "attributes": {
        "model": {"string": "a100"},
        "d/index": {"int": 3},
        "nvlink": {"bool": False},
        "driver": {"version": "1.2.3"},
        "list": {"strings": ["a"]},
        "versions": {"versions": ["1.0.0"]},
        "later": {"colour": "red"},
    },
    "capacity": {
        "memory": {"value": "80Gi"},
        "cores": {
            "value": 8,
            "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "8", "step": "1"}},
        },
        "slots": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    },
    "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "40Gi"}}}],
    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    "nodeSelector": ZONE_A_WIRE,
    "bindsToNode": True,
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["broken"],
    "allowMultipleAllocations": True,
}
WANT_DEVICE = Device(
    "gpu-0",
    attributes=FrozenDict(
        {
            "model": "a100",
            "d/index": 3,
            "nvlink": False,
            "driver": Version("1.2.3"),
            "list": ("a",),
            "versions": (Version("1.0.0"),),
            "later": None,
        }
    ),
    capacity=FrozenDict(
        {
            "memory": DeviceCapacity("80Gi"),
            "cores": DeviceCapacity("8", RequestPolicy("1", (), True, "1", "8", "1")),
            "slots": DeviceCapacity("4", RequestPolicy("1", ("1", "2"))),
        }
    ),
    counters=(CounterUse("s", FrozenDict({"memory": "40Gi"})),),
    taints=(Taint("k", "v", "NoSchedule"),),
    reach=Reach(terms=(ZONE_A,)),
    binds_to_node=True,
    binding_conditions=("ready",),
    binding_failure_conditions=("broken",),
    shared=True,
)
POOL = {"name": "p", "generation": 4, "resourceSliceCount": 2}


def body(kind: str, version: str = "v1", metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    api_version = f"resource.k8s.io/{version}"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **(metadata or {})}, **fields}


def claim(requests: list[Any], version: str = "v1") -> dict[str, Any]:
    return body("ResourceClaim", version, spec={"devices": {"requests": requests}})


OBJECTS = [
    pytest.param(
        body(
            "ResourceClaim",
            metadata={
                "namespace": "n",
                "uid": "u",
                "finalizers": ["f", "resource.kubernetes.io/delete-protection"],
                "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pu", "apiVersion": "v1", "controller": True}],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "resourceVersion": "7",
            },
            spec={
                "devices": {
                    "requests": [
                        {"name": "one", "exactly": CHOICE},
                        {
                            "name": "other",
                            "firstAvailable": [
                                {"name": "big", "deviceClassName": "gpu", "allocationMode": "All"},
                                {"name": "small", "deviceClassName": "mig"},
                            ],
                        },
                    ],
                    "constraints": [{"requests": ["one"], "matchAttribute": "d/numa"}, {"distinctAttribute": "d/i"}],
                    "config": [{"requests": ["one"], **OPAQUE}],
                }
            },
            status={
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "request": "one",
                                "driver": "d",
                                "pool": "p",
                                "device": "gpu-0",
                                "adminAccess": True,
                                "tolerations": CHOICE["tolerations"],
                                "bindingConditions": ["ready"],
                                "bindingFailureConditions": ["broken"],
                                "shareID": "s",
                                "consumedCapacity": {"memory": "40Gi"},
                            }
                        ],
                        "config": [{"source": "FromClass", **OPAQUE}],
                    },
                    "nodeSelector": ZONE_A_WIRE,
                    "allocationTimestamp": "1970-01-01T00:00:05Z",
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}],
                "devices": [
                    {
                        "driver": "d",
                        "pool": "p",
                        "device": "gpu-0",
                        "conditions": [{"type": "ready", "status": "True", "reason": "r", "message": "m"}],
                        "data": {"any": "thing"},
                    }
                ],
            },
        ),
        ResourceClaim(
            "n",
            "x",
            "u",
            owner=Owner("Pod", "p", "pu", "v1"),
            requests=(
                DeviceRequest("one", WANT_CHOICE),
                DeviceRequest(
                    "other",
                    alternatives=(
                        DeviceChoice("big", "gpu", mode=ALL, count=0),
                        DeviceChoice("small", "mig"),
                    ),
                ),
            ),
            constraints=(DeviceConstraint(("one",), match="d/numa"), DeviceConstraint(distinct="d/i")),
            config=(DeviceConfig("d", PARAMETERS, ("one",)),),
            allocation=Allocation(
                (
                    AllocatedDevice(
                        "one",
                        "d",
                        "p",
                        "gpu-0",
                        True,
                        WANT_CHOICE.tolerations,
                        ("ready",),
                        ("broken",),
                        "s",
                        FrozenDict({"memory": "40Gi"}),
                    ),
                ),
                (DeviceConfig("d", PARAMETERS, source="FromClass"),),
                (ZONE_A,),
                5.0,
            ),
            reserved_for=(ClaimConsumer("pods", "p", "pu"),),
            devices=(DeviceStatus("d", "p", "gpu-0", (DeviceCondition("ready", "True", "r", "m"),)),),
            deleting=True,
            protected=True,
            resource_version="7",
        ),
        id="ResourceClaim",
    ),
    pytest.param(
        claim([{"name": "one", **CHOICE}, {"name": "other", "firstAvailable": [{"deviceClassName": "a"}]}], "v1beta1"),
        ResourceClaim(
            "default",
            "x",
            requests=(
                DeviceRequest("one", WANT_CHOICE),
                DeviceRequest("other", alternatives=(DeviceChoice(device_class="a"),)),
            ),
        ),
        id="ResourceClaim, v1beta1",
    ),
    pytest.param(
        claim([{"name": "one", "exactly": {"deviceClassName": ""}}, {"name": "unknown"}], "v1beta2"),
        ResourceClaim("default", "x", requests=(DeviceRequest("one", DeviceChoice()), DeviceRequest("unknown"))),
        id="ResourceClaim with requests of an unknown type",
    ),
    pytest.param(
        body("ResourceClaim", status={"allocation": {}}),
        ResourceClaim("default", "x", allocation=Allocation()),
        id="ResourceClaim allocated for all nodes",
    ),
    pytest.param(
        body(
            "ResourceClaimTemplate",
            metadata={"namespace": "n"},
            spec={
                "metadata": {"annotations": {"a": "b"}},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            },
        ),
        ResourceClaimTemplate(
            "n",
            "x",
            ResourceClaim(
                "n",
                "",
                annotations=FrozenDict({"a": "b"}),
                requests=(DeviceRequest("r", DeviceChoice(device_class="gpu")),),
            ),
        ),
        id="ResourceClaimTemplate",
    ),
    pytest.param(
        body(
            "DeviceClass",
            metadata={"creationTimestamp": "1970-01-01T00:00:09Z"},
            spec={"extendedResourceName": "example.com/gpu", "selectors": [CEL], "config": [OPAQUE]},
        ),
        DeviceClass("x", "example.com/gpu", 9.0, (EXPRESSION,), (DeviceConfig("d", PARAMETERS),)),
        id="DeviceClass",
    ),
    pytest.param(
        body(
            "ResourceSlice",
            spec={
                "driver": "d",
                "pool": POOL,
                "perDeviceNodeSelection": True,
                "devices": [{"name": "gpu-0", **DEVICE}],
            },
        ),
        ResourceSlice("x", "d", "p", 4, 2, per_device=True, devices=(WANT_DEVICE,)),
        id="ResourceSlice",
    ),
    pytest.param(
        body(
            "ResourceSlice",
            "v1beta1",
            spec={"driver": "d", "pool": POOL, "nodeName": "n1", "devices": [{"name": "gpu-0", "basic": DEVICE}]},
        ),
        ResourceSlice("x", "d", "p", 4, 2, Reach("n1"), devices=(WANT_DEVICE,)),
        id="ResourceSlice, v1beta1",
    ),
    pytest.param(
        body(
            "ResourceSlice",
            "v1beta2",
            spec={
                "driver": "d",
                "pool": POOL,
                "allNodes": True,
                "sharedCounters": [{"name": "s", "counters": {"memory": {"value": "80Gi"}}}],
            },
        ),
        ResourceSlice(
            "x",
            "d",
            "p",
            4,
            2,
            Reach(everywhere=True),
            counter_sets=(CounterUse("s", FrozenDict({"memory": "80Gi"})),),
        ),
        id="ResourceSlice of counters",
    ),
    pytest.param(
        body(
            "DeviceTaintRule",
            spec={"deviceSelector": {"driver": "d", "pool": "p"}, "taint": {"key": "k", "effect": "NoExecute"}},
        ),
        DeviceTaintRule("x", Taint("k", "", "NoExecute"), selects=True, driver="d", pool="p"),
        id="DeviceTaintRule",
    ),
    pytest.param(
        body("DeviceTaintRule", spec={"taint": {"key": "k", "effect": "None"}}),
        DeviceTaintRule("x", Taint("k", "", "None")),
        id="DeviceTaintRule without a selector",
    ),
]


@pytest.mark.parametrize(("obj", "want"), OBJECTS)
def test_device_objects_become_core_values(obj: dict[str, Any], want: Any) -> None:
    """JSON and plain objects give the same hashable value, whatever the version."""
    kind = BY_ID[obj["kind"]]
    assert obj["apiVersion"] in kind.api_versions
    got = kind.from_builtin(obj)
    assert got == want
    assert kind.decode(msgspec.json.encode(obj)) == want
    assert hash(got) == hash(want)


def slice_of(**device: Any) -> dict[str, Any]:
    return body("ResourceSlice", spec={"devices": [{"name": "a"}, {"name": "b", **device}]})


@pytest.mark.parametrize(
    ("obj", "want_start"),
    [
        pytest.param(
            slice_of(capacity={"memory": {"value": "80Qi"}}),
            "ResourceSlice x: spec.devices[1].capacity.memory.value: '80Qi' is not a quantity; write",
            id="capacity",
        ),
        pytest.param(
            slice_of(capacity={"m": {"value": 1, "requestPolicy": {"validRange": {"step": "x"}}}}),
            "ResourceSlice x: spec.devices[1].capacity.m.requestPolicy.validRange.step: 'x' is not a quantity",
            id="policy",
        ),
        pytest.param(
            slice_of(consumesCounters=[{"counterSet": "s", "counters": {"m": {"value": "-"}}}]),
            "ResourceSlice x: spec.devices[1].consumesCounters[0].counters.m: '-' is not a quantity",
            id="counter",
        ),
        pytest.param(
            slice_of(attributes={f"a{n}": {"int": n} for n in range(65)}),
            "ResourceSlice x: spec.devices[1].attributes has 65 entries; an object with more than 64 is not read",
            id="too many attributes",
        ),
        pytest.param(
            body("ResourceSlice", spec={"devices": [{"name": f"d{n}"} for n in range(257)]}),
            "ResourceSlice x: spec.devices has 257 entries; an object with more than 256 is not read",
            id="too many devices",
        ),
        pytest.param(
            claim([{"firstAvailable": [{"deviceClassName": "a"}] * 100}] * 3),
            "ResourceClaim x: spec.devices.requests with alternatives has 257 entries",
            id="too many alternatives",
        ),
        pytest.param(
            claim([{"exactly": {"capacity": {"requests": {"memory": [1]}}}}]),
            "ResourceClaim x: spec.devices.requests[0].exactly.capacity.requests.memory: [1] does not fit",
            id="capacity of a request",
        ),
        pytest.param(
            claim([{"exactly": {"deviceClassName": "a", "count": -1}}]),
            "ResourceClaim x: spec.devices.requests[0].exactly.count: -1 is negative; write 1 or more",
            id="count",
        ),
        pytest.param(
            claim([{"firstAvailable": [{"deviceClassName": "a"}, {"deviceClassName": "a", "count": -3}]}]),
            "ResourceClaim x: spec.devices.requests[0].firstAvailable[1].count: -3 is negative; write 1 or more",
            id="count of an alternative",
        ),
        pytest.param(
            body("DeviceClass", spec={"selectors": [CEL, {"cel": {"expression": "x" * 16_385}}]}),
            "DeviceClass x: spec.selectors[1].cel.expression: 16385 characters are too many",
            id="expression",
        ),
        pytest.param(
            body("DeviceClass", spec={"config": [{"opaque": {"parameters": {"a": "x" * 16_385}}}]}),
            "DeviceClass x: spec.config[0].opaque.parameters: 16393 characters are too many",
            id="parameters",
        ),
    ],
)
def test_a_device_object_that_cannot_be_read_is_one_line(obj: dict[str, Any], want_start: str) -> None:
    """Kind, name, field, value, remedy."""
    with pytest.raises(WireError) as caught:
        BY_ID[obj["kind"]].from_builtin(obj)
    assert str(caught.value).startswith(want_start)
    assert "\n" not in str(caught.value)


def test_a_count_of_0_is_1() -> None:
    """API servers take it for a count that is not given."""
    value = BY_ID["ResourceClaim"].from_builtin(claim([{"exactly": {"deviceClassName": "a", "count": 0}}]))
    assert value.requests[0].exactly.count == 1


def test_what_an_api_server_accepts_at_most_is_read() -> None:
    """32 requests with 8 alternatives each, expressions and parameters of 10 KiB."""
    selectors = [{"cel": {"expression": "x" * 10_240}}]
    choices = [{"name": f"c{n}", "deviceClassName": "a", "selectors": selectors} for n in range(8)]
    value = BY_ID["ResourceClaim"].from_builtin(
        claim([{"name": f"r{n}", "firstAvailable": choices} for n in range(32)])
    )
    assert sum(len(request.alternatives) for request in value.requests) == 256


@pytest.mark.parametrize(
    ("reach", "want"),
    [
        pytest.param(Reach("n1"), ["n1"], id="name"),
        pytest.param(Reach(terms=(ZONE_A,)), ["n2"], id="selector"),
        pytest.param(Reach(everywhere=True), ["n1", "n2"], id="all"),
        pytest.param(Reach(), [], id="unknown"),
    ],
)
def test_where_devices_can_be_used(reach: Reach, want: list[str]) -> None:
    """A slice says it, or each of its devices."""
    nodes = {"n1": {"zone": "b"}, "n2": {"zone": "a"}}
    whole = ResourceSlice("s", reach=reach)
    each = ResourceSlice("s", per_device=True, devices=(Device("a"), Device("b", reach=reach)))
    for part in (whole, each):
        assert [name for name, labels in nodes.items() if part.reaches(name, labels)] == want


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        pytest.param(DeviceTaintRule("r"), False, id="no selector"),
        pytest.param(DeviceTaintRule("r", selects=True), True, id="empty selector"),
        pytest.param(DeviceTaintRule("r", selects=True, driver="d", pool="p", device="g"), True, id="this device"),
        pytest.param(DeviceTaintRule("r", selects=True, driver="e"), False, id="other driver"),
        pytest.param(DeviceTaintRule("r", selects=True, pool="q"), False, id="other pool"),
    ],
)
def test_which_devices_a_rule_taints(rule: DeviceTaintRule, want: bool) -> None:
    """All that is given must match."""
    assert rule.applies_to(DeviceId("d", "p", "g")) is want


@pytest.mark.parametrize(
    ("name", "want"),
    [("d/model", ("a100", True)), ("model", ("a100", True)), ("d/index", (3, True)), ("e/model", (None, False))],
)
def test_attributes_are_found_by_full_name(name: str, want: tuple[Any, bool]) -> None:
    """A name without domain belongs to the driver."""
    assert WANT_DEVICE.attribute("d", name) == want
