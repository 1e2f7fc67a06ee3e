"""Claims for devices: JSON becomes ResourceClaim, ResourceClaimTemplate and DeviceClass.

One struct reads all served versions: `resource.k8s.io/v1beta1` has what a request asks for in the request itself, later
versions below `exactly`, and all of them may offer alternatives in `firstAvailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

import msgspec

from moorage.core.claims import (
    DELETE_PROTECTION,
    EXACT_COUNT,
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
    ResourceClaim,
    ResourceClaimTemplate,
)
from moorage.core.limits import DEVICE_REQUESTS
from moorage.wire.deviceparts import (
    DeviceConfigWire,
    DeviceSelectorWire,
    DeviceTolerationWire,
    device_configs,
    device_tolerations,
    expressions,
    quantities,
    some,
)
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int64Wire, MetadataWire, TimeWire, controller_of, epoch_s, frozen_annotations
from moorage.wire.quantities import QuantityWire
from moorage.wire.selectors import NodeSelectorWire, node_terms
from moorage.wire.whole import whole

DEFAULT_NAMESPACE = "default"
_REQUESTS = "spec.devices.requests"
_ALLOCATION = "status.allocation"


class CapacityRequestWire(msgspec.Struct, gc=False):
    """How much of which capacities is needed."""

    requests: dict[str, QuantityWire] | None = None


class DeviceChoiceWire(msgspec.Struct, gc=False, rename="camel"):
    """Devices of one sort."""

    name: str | None = None
    device_class_name: str | None = None
    selectors: list[DeviceSelectorWire] | None = None
    allocation_mode: str | None = None
    count: Int64Wire | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceTolerationWire] | None = None
    capacity: CapacityRequestWire | None = None


class DeviceRequestWire(DeviceChoiceWire, gc=False, rename="camel"):
    """A request of a claim."""

    exactly: DeviceChoiceWire | None = None
    first_available: list[DeviceChoiceWire] | None = None


class ConstraintWire(msgspec.Struct, gc=False, rename="camel"):
    """A constraint of a claim."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DevicesWire(msgspec.Struct, gc=False):
    """spec.devices."""

    requests: list[DeviceRequestWire] | None = None
    constraints: list[ConstraintWire] | None = None
    config: list[DeviceConfigWire] | None = None


class ResourceClaimSpecWire(msgspec.Struct, gc=False):
    """The spec of a ResourceClaim."""

    devices: DevicesWire | None = None


class AllocatedDeviceWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of status.allocation.devices.results."""

    request: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceTolerationWire] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityWire] | None = None


class AllocatedDevicesWire(msgspec.Struct, gc=False):
    """status.allocation.devices."""

    results: list[AllocatedDeviceWire] | None = None
    config: list[DeviceConfigWire] | None = None


class AllocationWire(msgspec.Struct, gc=False, rename="camel"):
    """status.allocation."""

    devices: AllocatedDevicesWire | None = None
    node_selector: NodeSelectorWire | None = None
    allocation_timestamp: TimeWire | None = None


class ConsumerWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of status.reservedFor."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str | None = None


class DeviceConditionWire(msgspec.Struct, gc=False):
    """A condition of an allocated device."""

    type: str = ""
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class DeviceStatusWire(msgspec.Struct, gc=False):
    """An entry of status.devices."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    conditions: list[DeviceConditionWire] | None = None


class ResourceClaimStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The status of a ResourceClaim."""

    allocation: AllocationWire | None = None
    reserved_for: list[ConsumerWire] | None = None
    devices: list[DeviceStatusWire] | None = None


class ClaimMetadataWire(MetadataWire, gc=False, rename="camel"):
    """The metadata of a ResourceClaim."""

    finalizers: list[str] | None = None


class ResourceClaimWire(msgspec.Struct, gc=False):
    """A ResourceClaim."""

    metadata: ClaimMetadataWire
    spec: ResourceClaimSpecWire | None = None
    status: ResourceClaimStatusWire | None = None


class TemplateSpecWire(msgspec.Struct, gc=False):
    """The spec of a ResourceClaimTemplate."""

    metadata: ClaimMetadataWire | None = None
    spec: ResourceClaimSpecWire | None = None


class ResourceClaimTemplateWire(msgspec.Struct, gc=False):
    """A ResourceClaimTemplate."""

    metadata: MetadataWire
    spec: TemplateSpecWire | None = None


class DeviceClassSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a DeviceClass."""

    extended_resource_name: str | None = None
    selectors: list[DeviceSelectorWire] | None = None
    config: list[DeviceConfigWire] | None = None


class DeviceClassWire(msgspec.Struct, gc=False):
    """A DeviceClass."""

    metadata: MetadataWire
    spec: DeviceClassSpecWire | None = None


def resource_claim(wire: ResourceClaimWire) -> ResourceClaim:
    """The core value of a ResourceClaim."""
    metadata, status = wire.metadata, wire.status or ResourceClaimStatusWire()
    devices = (wire.spec and wire.spec.devices) or DevicesWire()
    return ResourceClaim(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        annotations=frozen_annotations(metadata.annotations),
        owner=controller_of(metadata.owner_references),
        requests=_requests(devices.requests or ()),
        constraints=tuple(map(_constraint, some(devices.constraints, "spec.devices.constraints"))),
        config=device_configs(devices.config, "spec.devices.config"),
        allocation=None if status.allocation is None else _allocation(status.allocation),
        reserved_for=tuple(
            ClaimConsumer(each.resource, each.name, each.uid, each.api_group or "")
            for each in status.reserved_for or ()
        ),
        devices=tuple(map(_device_status, some(status.devices, "status.devices"))),
        deleting=metadata.deletion_timestamp is not None,
        protected=DELETE_PROTECTION in (metadata.finalizers or ()),
        resource_version=metadata.resource_version or "",
    )


def resource_claim_template(wire: ResourceClaimTemplateWire) -> ResourceClaimTemplate:
    """The core value of a ResourceClaimTemplate."""
    spec = wire.spec or TemplateSpecWire()
    namespace = wire.metadata.namespace or DEFAULT_NAMESPACE
    made = ResourceClaimWire(spec.metadata or ClaimMetadataWire(), spec.spec)
    made.metadata.namespace = namespace
    return ResourceClaimTemplate(namespace, wire.metadata.name, resource_claim(made))


def device_class(wire: DeviceClassWire) -> DeviceClass:
    """The core value of a DeviceClass."""
    spec = wire.spec or DeviceClassSpecWire()
    return DeviceClass(
        name=wire.metadata.name,
        extended_resource=spec.extended_resource_name or None,
        created_s=epoch_s(wire.metadata.creation_timestamp) or 0.0,
        selectors=expressions(spec.selectors, "spec.selectors"),
        config=device_configs(spec.config, "spec.config"),
    )


def _requests(wires: Sequence[DeviceRequestWire]) -> tuple[DeviceRequest, ...]:
    whole(wires, DEVICE_REQUESTS, _REQUESTS)
    choices = chain.from_iterable(wire.first_available or (wire,) for wire in wires)
    whole(tuple(islice(choices, DEVICE_REQUESTS + 1)), DEVICE_REQUESTS, f"{_REQUESTS} with alternatives")
    return tuple(_request(wire, f"{_REQUESTS}[{index}]") for index, wire in enumerate(wires))


def _request(wire: DeviceRequestWire, path: str) -> DeviceRequest:
    exactly: DeviceChoiceWire | None = wire.exactly
    if exactly is None and wire.device_class_name is not None:
        exactly = wire
    return DeviceRequest(
        name=wire.name or "",
        exactly=None if exactly is None else _choice(exactly, path if exactly is wire else f"{path}.exactly", ""),
        alternatives=tuple(
            _choice(each, f"{path}.firstAvailable[{index}]", each.name or "")
            for index, each in enumerate(wire.first_available or ())
        ),
    )


def _choice(wire: DeviceChoiceWire, path: str, name: str) -> DeviceChoice:
    mode = wire.allocation_mode or EXACT_COUNT
    if wire.count is not None and wire.count < 0:
        raise FieldError(f"{path}.count", wire.count, "is negative", "write 1 or more")
    return DeviceChoice(
        name=name,
        device_class=wire.device_class_name or "",
        selectors=expressions(wire.selectors, f"{path}.selectors"),
        mode=mode,
        count=wire.count or (1 if mode == EXACT_COUNT else 0),
        admin_access=bool(wire.admin_access),
        tolerations=device_tolerations(wire.tolerations, f"{path}.tolerations"),
        capacity=quantities((wire.capacity or CapacityRequestWire()).requests, f"{path}.capacity.requests"),
    )


def _constraint(wire: ConstraintWire) -> DeviceConstraint:
    names = tuple(some(wire.requests, "spec.devices.constraints.requests"))
    return DeviceConstraint(names, wire.match_attribute or "", wire.distinct_attribute or "")


def _allocation(wire: AllocationWire) -> Allocation:
    devices, selector, path = wire.devices or AllocatedDevicesWire(), wire.node_selector, f"{_ALLOCATION}.devices"
    config: tuple[DeviceConfig, ...] = device_configs(devices.config, f"{path}.config")
    return Allocation(
        devices=tuple(map(_allocated_device, some(devices.results, f"{path}.results"))),
        config=config,
        node_terms=node_terms(selector, f"{_ALLOCATION}.nodeSelector") if selector else None,
        allocated_s=epoch_s(wire.allocation_timestamp),
    )


def _allocated_device(wire: AllocatedDeviceWire) -> AllocatedDevice:
    path = f"{_ALLOCATION}.devices.results"
    return AllocatedDevice(
        request=wire.request or "",
        driver=wire.driver or "",
        pool=wire.pool or "",
        device=wire.device or "",
        admin_access=bool(wire.admin_access),
        tolerations=device_tolerations(wire.tolerations, f"{path}.tolerations"),
        binding_conditions=tuple(some(wire.binding_conditions, f"{path}.bindingConditions")),
        binding_failure_conditions=tuple(some(wire.binding_failure_conditions, f"{path}.bindingFailureConditions")),
        share_id=wire.share_id or "",
        consumed=quantities(wire.consumed_capacity, f"{path}.consumedCapacity"),
    )


def _device_status(wire: DeviceStatusWire) -> DeviceStatus:
    conditions = tuple(
        DeviceCondition(each.type, each.status or "", each.reason or "", each.message or "")
        for each in some(wire.conditions, "status.devices.conditions")
    )
    return DeviceStatus(wire.driver or "", wire.pool or "", wire.device or "", conditions)
