"""Claims for devices, and classes of devices: what is asked for, and what was allocated."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.affinity import NodeTerm
from moorage.core.devices import DeviceId
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide, Namespaced
from moorage.core.pods import Owner
from moorage.core.resourcenames import IMPLICIT_EXTENDED_RESOURCE
from moorage.core.taints import Toleration
from moorage.core.values import dataclass

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
EXACT_COUNT, ALL = "ExactCount", "All"
CLAIM_DEVICES = 32
"""How many devices a claim can hold; the API server stores no more."""


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """A consumer for which a claim is reserved, normally a pod (`resource` is `pods`, `api_group` empty)."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToleration(Toleration):
    """A toleration of taints of devices."""

    seconds: int | None = None
    """For how long NoExecute is tolerated; of no effect here, but part of what is allocated."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Devices of one sort: what a request asks for, or one of the alternatives that it offers."""

    name: str = ""
    """Of an alternative."""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    """CEL expressions, all of which must hold; empty for a selector of a type that is not known."""
    mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: FrozenDict[str, str] = EMPTY
    """How much of which capacities is needed."""

    @property
    def is_single(self) -> bool:
        """Whether it is one whole device for itself, and no alternative to others."""
        return self.count == 1 and self.mode == EXACT_COUNT and not (self.name or self.admin_access or self.capacity)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: exactly one sort of devices, or the first of several that is available."""

    name: str = ""
    exactly: DeviceChoice | None = None
    alternatives: tuple[DeviceChoice, ...] = ()

    @property
    def choices(self) -> tuple[DeviceChoice, ...]:
        """The alternatives, or the one sort of devices that it asks for."""
        return self.alternatives or (self.exactly or DeviceChoice(),)


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """What must hold for the devices of some requests together; without names, of all requests."""

    requests: tuple[str, ...] = ()
    """`request`, or `request/alternative`."""
    match: str = ""
    """They have the same value of this attribute."""
    distinct: str = ""
    """They have different values of this attribute."""


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Configuration that a driver gets with the devices of some requests; without names, of all requests."""

    driver: str = ""
    parameters: str = ""
    """Compact JSON with sorted keys; empty where there is none."""
    requests: tuple[str, ...] = ()
    source: str = ""
    """In an allocation: FromClass or FromClaim."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim holds."""

    request: str
    """`request`, or `request/alternative`."""
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = ""
    """Of a shared device: names this share of it."""
    consumed: FrozenDict[str, str] = EMPTY
    """Of a shared device: how much of its capacities this share takes."""

    @property
    def id(self) -> DeviceId:
        """The device."""
        return DeviceId(self.driver, self.pool, self.device)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim holds."""

    devices: tuple[AllocatedDevice, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    """The nodes where the devices can be used; alternatives. None: all nodes."""
    allocated_s: float | None = None
    """When; None for allocations of schedulers that do not say."""

    @property
    def awaits_drivers(self) -> bool:
        """Whether drivers have to make devices ready before a pod may be bound."""
        return any(device.binding_conditions for device in self.devices)


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """What a driver says of an allocated device."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """All that a driver says of an allocated device."""

    driver: str
    pool: str
    device: str
    conditions: tuple[DeviceCondition, ...] = ()

    def condition(self, name: str) -> DeviceCondition | None:
        """The condition of this type."""
        return next((each for each in self.conditions if each.type == name), None)


@dataclass(frozen=True, slots=True)
class ResourceClaim(Namespaced):
    """A claim for devices."""

    namespace: str
    name: str
    uid: str = ""
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    """A claim made from a template belongs to its pod."""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()
    deleting: bool = False
    protected: bool = False
    """Whether it has the finalizer that keeps it from vanishing while it holds devices (`DELETE_PROTECTION`)."""
    resource_version: str = ""

    def reserved_for_uid(self, uid: str) -> bool:
        """Whether the pod of this uid already has its reservation."""
        return any(consumer.uid == uid for consumer in self.reserved_for)

    def freed(self) -> ResourceClaim:
        """The claim once its devices were given back."""
        return replace(self, allocation=None, reserved_for=(), devices=())


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate(Namespaced):
    """What the claims of pods are made from; controllers read it, schedulers the claims."""

    namespace: str
    name: str
    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class DeviceClass(ClusterWide):
    """A class of devices; some can be asked for like an extended resource."""

    name: str
    extended_resource: str | None = None
    created_s: float = 0.0
    selectors: tuple[str, ...] = ()
    """As those of a request."""
    config: tuple[DeviceConfig, ...] = ()

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The names under which containers can request devices of this class."""
        implicit = IMPLICIT_EXTENDED_RESOURCE + self.name
        return (implicit,) if self.extended_resource is None else (self.extended_resource, implicit)
