"""What drivers publish: devices in slices of pools, taints added by rules, and where a device can be used.

Quantities (capacities, counters) are kept as their texts, which `core.quantity.parse_quantity` has accepted: they are
written back as they were, and equal texts are parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from moorage.core.affinity import NodeTerm
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide
from moorage.core.taints import Taint
from moorage.core.values import dataclass


class PoolId(NamedTuple):
    """Names a pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """Names a device beyond doubt."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version; equal only if written in the same way."""

    text: str


Attribute: TypeAlias = str | int | bool | Version | tuple[str | int | bool | Version, ...] | None
"""The value of an attribute; None for one of a type that is not known. Only single values can be equal."""
Attributes: TypeAlias = FrozenDict[str, Attribute]
NO_ATTRIBUTES: Attributes = FrozenDict()


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Which amounts of a capacity may be consumed: listed values, or a range, and what is taken by default."""

    default: str | None = None
    values: tuple[str, ...] = ()
    """Ascending."""
    has_range: bool = False
    least: str | None = None
    most: str | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """How much a device has of something."""

    value: str
    policy: RequestPolicy | None = None


NO_CAPACITY: FrozenDict[str, DeviceCapacity] = FrozenDict()


@dataclass(frozen=True, slots=True)
class CounterUse:
    """What a device takes of a set of counters of its pool, or what such a set has."""

    name: str
    counters: FrozenDict[str, str] = EMPTY


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes on which devices can be used: one by name, those that terms match, or all."""

    node: str = ""
    terms: tuple[NodeTerm, ...] | None = None
    everywhere: bool = False

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node with this name and these labels is one of them."""
        if self.node:
            return self.node == name
        return self.everywhere or any(term.matches(name, labels) for term in self.terms or ())


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a slice."""

    name: str
    attributes: Attributes = NO_ATTRIBUTES
    """By name; one without a domain belongs to the driver."""
    capacity: FrozenDict[str, DeviceCapacity] = NO_CAPACITY
    counters: tuple[CounterUse, ...] = ()
    """What it takes of the counters of its pool while it is in use."""
    taints: tuple[Taint, ...] = ()
    reach: Reach | None = None
    """Set in slices that leave this to each device."""
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    shared: bool = False
    """Whether several claims may consume its capacity (`allowMultipleAllocations`)."""

    def attribute(self, driver: str, name: str) -> tuple[Attribute, bool]:
        """The value of the attribute with this full name, and whether the device of this driver has it."""
        if name in self.attributes:
            return self.attributes[name], True
        domain, slash, bare = name.partition("/")
        if slash and domain == driver and bare in self.attributes:
            return self.attributes[bare], True
        return None, False


@dataclass(frozen=True, slots=True)
class ResourceSlice(ClusterWide):
    """A part of a pool: devices, or counters that devices of the pool share."""

    name: str
    driver: str = ""
    pool: str = ""
    generation: int = 0
    """Slices of an older generation of their pool do not count."""
    slice_count: int = 0
    """How many slices of this generation the pool has once it is complete."""
    reach: Reach | None = None
    """None where each device has its own, or in slices that say it in a way that is not known."""
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterUse, ...] = ()

    @property
    def pool_id(self) -> PoolId:
        """Its pool."""
        return PoolId(self.driver, self.pool)

    def device_id(self, device: Device) -> DeviceId:
        """The full name of one of its devices."""
        return DeviceId(self.driver, self.pool, device.name)

    @property
    def only_node(self) -> str:
        """The one node that it concerns, by name; empty if it may concern others."""
        return "" if self.reach is None else self.reach.node

    def reaches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it concerns the node with this name and these labels."""
        if self.reach is not None:
            return self.reach.includes(name, labels)
        return self.per_device and any(
            device.reach is not None and device.reach.includes(name, labels) for device in self.devices
        )

    def near_devices(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Where each device says itself which nodes can use it: those that this one can use."""
        if not self.per_device:
            return ()
        near = (each for each in self.devices if each.reach is not None and each.reach.includes(name, labels))
        return tuple(each.name for each in near)


@dataclass(frozen=True, slots=True)
class DeviceTaintRule(ClusterWide):
    """Taints devices of others: those of a driver, a pool, or a single one."""

    name: str
    taint: Taint | None = None
    selects: bool = False
    """Without a selector it applies to no device."""
    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def applies_to(self, device: DeviceId) -> bool:
        """Whether the taint counts as one of this device."""
        return self.may_apply_to(PoolId(device.driver, device.pool)) and self.device in (None, device.device)

    def may_apply_to(self, pool: PoolId) -> bool:
        """Whether the taint may count as one of devices of this pool."""
        return self.selects and self.driver in (None, pool.driver) and self.pool in (None, pool.pool)
