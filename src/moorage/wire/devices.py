"""What drivers publish: JSON becomes ResourceSlice and DeviceTaintRule.

One struct reads all served versions: `resource.k8s.io/v1beta1` has what describes a device below `basic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moorage.core.devices import (
    NO_ATTRIBUTES,
    NO_CAPACITY,
    Attribute,
    Attributes,
    CounterUse,
    Device,
    DeviceCapacity,
    DeviceTaintRule,
    Reach,
    RequestPolicy,
    ResourceSlice,
    Version,
)
from moorage.core.frozen import FrozenDict
from moorage.core.limits import DEVICE_PARTS, SLICE_DEVICES, SLICE_REQUIREMENTS
from moorage.wire.deviceparts import DeviceTaintWire, device_taint, quantities, quantity, some
from moorage.wire.metadata import Int64Wire, MetadataWire
from moorage.wire.quantities import QuantityWire
from moorage.wire.selectors import NodeSelectorWire, node_terms
from moorage.wire.whole import whole


class PoolWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.pool."""

    name: str | None = None
    generation: Int64Wire | None = None
    resource_slice_count: Int64Wire | None = None


class AttributeWire(msgspec.Struct, gc=False):
    """The value of an attribute: one of these."""

    string: str | None = None
    number: Int64Wire | None = msgspec.field(default=None, name="int")
    truth: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: list[str] | None = None
    numbers: list[Int64Wire] | None = msgspec.field(default=None, name="ints")
    truths: list[bool] | None = msgspec.field(default=None, name="bools")
    versions: list[str] | None = None


class RangeWire(msgspec.Struct, gc=False):
    """A range of amounts."""

    min: QuantityWire = None
    max: QuantityWire = None
    step: QuantityWire = None


class PolicyWire(msgspec.Struct, gc=False, rename="camel"):
    """The policy of a capacity."""

    default: QuantityWire = None
    valid_values: list[QuantityWire] | None = None
    valid_range: RangeWire | None = None


class CapacityWire(msgspec.Struct, gc=False, rename="camel"):
    """A capacity of a device."""

    value: QuantityWire = None
    request_policy: PolicyWire | None = None


class CounterWire(msgspec.Struct, gc=False):
    """A counter."""

    value: QuantityWire = None


class CountersWire(msgspec.Struct, gc=False, rename="camel"):
    """A set of counters, or what a device takes of one."""

    name: str | None = None
    counter_set: str | None = None
    counters: dict[str, CounterWire] | None = None


class DescriptionWire(msgspec.Struct, gc=False, rename="camel"):
    """What is said of a device."""

    attributes: dict[str, AttributeWire] | None = None
    capacity: dict[str, CapacityWire] | None = None
    consumes_counters: list[CountersWire] | None = None
    taints: list[DeviceTaintWire] | None = None
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class DeviceWire(DescriptionWire, gc=False, rename="camel"):
    """A device."""

    name: str | None = None
    basic: DescriptionWire | None = None


class SliceSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a ResourceSlice."""

    driver: str | None = None
    pool: PoolWire | None = None
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[DeviceWire] | None = None
    shared_counters: list[CountersWire] | None = None


class ResourceSliceWire(msgspec.Struct, gc=False):
    """A ResourceSlice."""

    metadata: MetadataWire
    spec: SliceSpecWire | None = None


class RuleSelectorWire(msgspec.Struct, gc=False):
    """Which devices a rule taints."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a DeviceTaintRule."""

    device_selector: RuleSelectorWire | None = None
    taint: DeviceTaintWire | None = None


class DeviceTaintRuleWire(msgspec.Struct, gc=False):
    """A DeviceTaintRule."""

    metadata: MetadataWire
    spec: RuleSpecWire | None = None


def resource_slice(wire: ResourceSliceWire) -> ResourceSlice:
    """The core value of a ResourceSlice."""
    spec = wire.spec or SliceSpecWire()
    pool = spec.pool or PoolWire()
    devices = whole(spec.devices, SLICE_DEVICES, "spec.devices") or ()
    _check_requirements(spec, devices)
    return ResourceSlice(
        name=wire.metadata.name,
        driver=spec.driver or "",
        pool=pool.name or "",
        generation=pool.generation or 0,
        slice_count=pool.resource_slice_count or 0,
        reach=_reach(spec, "spec"),
        per_device=bool(spec.per_device_node_selection),
        devices=tuple(_device(each, f"spec.devices[{index}]") for index, each in enumerate(devices)),
        counter_sets=_counters(spec.shared_counters, "spec.sharedCounters"),
    )


def device_taint_rule(wire: DeviceTaintRuleWire) -> DeviceTaintRule:
    """The core value of a DeviceTaintRule."""
    spec = wire.spec or RuleSpecWire()
    chosen = spec.device_selector or RuleSelectorWire()
    return DeviceTaintRule(
        name=wire.metadata.name,
        taint=None if spec.taint is None else device_taint(spec.taint),
        selects=spec.device_selector is not None,
        driver=chosen.driver,
        pool=chosen.pool,
        device=chosen.device,
    )


def _check_requirements(spec: SliceSpecWire, devices: Sequence[DeviceWire]) -> None:
    """Every node that is asked about is held against all of them."""
    selectors = [spec.node_selector, *((wire.basic or wire).node_selector for wire in devices)]
    terms = [term for each in selectors if each is not None for term in each.node_selector_terms or ()]
    requirements = [each for term in terms for each in (*(term.match_expressions or ()), *(term.match_fields or ()))]
    whole(requirements, SLICE_REQUIREMENTS, "spec (all node selectors together)")


def _reach(wire: SliceSpecWire | DescriptionWire, path: str) -> Reach | None:
    if wire.node_name:
        return Reach(node=wire.node_name)
    if wire.all_nodes:
        return Reach(everywhere=True)
    if wire.node_selector is not None:
        return Reach(terms=node_terms(wire.node_selector, f"{path}.nodeSelector"))
    return None


def _device(wire: DeviceWire, path: str) -> Device:
    told: DescriptionWire = wire if wire.basic is None else wire.basic
    return Device(
        name=wire.name or "",
        attributes=_attributes(told.attributes, f"{path}.attributes"),
        capacity=_capacity(told.capacity, f"{path}.capacity"),
        counters=_counters(told.consumes_counters, f"{path}.consumesCounters"),
        taints=tuple(map(device_taint, some(told.taints, f"{path}.taints"))),
        reach=_reach(told, path),
        binds_to_node=bool(told.binds_to_node),
        binding_conditions=tuple(some(told.binding_conditions, f"{path}.bindingConditions")),
        binding_failure_conditions=tuple(some(told.binding_failure_conditions, f"{path}.bindingFailureConditions")),
        shared=bool(told.allow_multiple_allocations),
    )


def _attributes(wires: Mapping[str, AttributeWire] | None, path: str) -> Attributes:
    if not wires:
        return NO_ATTRIBUTES
    whole(wires, DEVICE_PARTS, path)
    return FrozenDict({name: _attribute(wire, f"{path}.{name}") for name, wire in wires.items()})


def _attribute(wire: AttributeWire, path: str) -> Attribute:
    if wire.version is not None:
        return Version(wire.version)
    for value in (wire.string, wire.number, wire.truth):
        if value is not None:
            return value
    if wire.versions is not None:
        return tuple(map(Version, some(wire.versions, path)))
    lists: tuple[Sequence[str | int | bool] | None, ...] = (wire.strings, wire.numbers, wire.truths)
    return next((tuple(some(each, path)) for each in lists if each is not None), None)


def _capacity(wires: Mapping[str, CapacityWire] | None, path: str) -> FrozenDict[str, DeviceCapacity]:
    if not wires:
        return NO_CAPACITY
    whole(wires, DEVICE_PARTS, path)
    return FrozenDict(
        {
            name: DeviceCapacity(
                quantity(wire.value, f"{path}.{name}.value"), _policy(wire.request_policy, f"{path}.{name}")
            )
            for name, wire in wires.items()
        }
    )


def _policy(wire: PolicyWire | None, path: str) -> RequestPolicy | None:
    if wire is None:
        return None
    path, bounds = f"{path}.requestPolicy", wire.valid_range or RangeWire()
    return RequestPolicy(
        default=_optional(wire.default, f"{path}.default"),
        values=tuple(quantity(each, f"{path}.validValues") for each in some(wire.valid_values, f"{path}.validValues")),
        has_range=wire.valid_range is not None,
        least=_optional(bounds.min, f"{path}.validRange.min"),
        most=_optional(bounds.max, f"{path}.validRange.max"),
        step=_optional(bounds.step, f"{path}.validRange.step"),
    )


def _optional(value: QuantityWire, path: str) -> str | None:
    return None if value is None else quantity(value, path)


def _counters(wires: list[CountersWire] | None, path: str) -> tuple[CounterUse, ...]:
    return tuple(
        CounterUse(
            wire.name or wire.counter_set or "",
            quantities(
                {name: counter.value for name, counter in (wire.counters or {}).items()}, f"{path}[{index}].counters"
            ),
        )
        for index, wire in enumerate(some(wires, path))
    )
