"""Dynamic resources: JSON becomes ResourceClaim and DeviceClass.

One struct reads all served versions: `resource.k8s.io/v1beta1` names a request's class directly, later versions below
`exactly`, and all of them may offer alternatives in `firstAvailable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from moorage.core.claims import ClaimConsumer, DeviceClass, ResourceClaim
from moorage.core.limits import DEVICE_REQUESTS
from moorage.wire.metadata import MetadataWire, controller_of, epoch_s, frozen_annotations
from moorage.wire.selectors import NodeSelectorWire, node_terms
from moorage.wire.whole import whole

DEFAULT_NAMESPACE = "default"


class DeviceChoiceWire(msgspec.Struct, gc=False, rename="camel"):
    """What names a class inside a request."""

    device_class_name: str | None = None


class DeviceRequestWire(msgspec.Struct, gc=False, rename="camel"):
    """A request of a claim."""

    device_class_name: str | None = None
    exactly: DeviceChoiceWire | None = None
    first_available: list[DeviceChoiceWire] | None = None


class DevicesWire(msgspec.Struct, gc=False):
    """spec.devices."""

    requests: list[DeviceRequestWire] | None = None


class ResourceClaimSpecWire(msgspec.Struct, gc=False):
    """The spec of a ResourceClaim."""

    devices: DevicesWire | None = None


class AllocationWire(msgspec.Struct, gc=False, rename="camel"):
    """status.allocation."""

    node_selector: NodeSelectorWire | None = None


class ConsumerWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of status.reservedFor."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str | None = None


class ResourceClaimStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The status of a ResourceClaim."""

    allocation: AllocationWire | None = None
    reserved_for: list[ConsumerWire] | None = None


class ResourceClaimWire(msgspec.Struct, gc=False):
    """A ResourceClaim."""

    metadata: MetadataWire
    spec: ResourceClaimSpecWire | None = None
    status: ResourceClaimStatusWire | None = None


class DeviceClassSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a DeviceClass."""

    extended_resource_name: str | None = None


class DeviceClassWire(msgspec.Struct, gc=False):
    """A DeviceClass."""

    metadata: MetadataWire
    spec: DeviceClassSpecWire | None = None


def resource_claim(wire: ResourceClaimWire) -> ResourceClaim:
    """The core value of a ResourceClaim."""
    metadata, status = wire.metadata, wire.status or ResourceClaimStatusWire()
    selector = status.allocation and status.allocation.node_selector
    requests = (wire.spec and wire.spec.devices and wire.spec.devices.requests) or ()
    return ResourceClaim(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        annotations=frozen_annotations(metadata.annotations),
        owner=controller_of(metadata.owner_references),
        device_classes=_device_classes(requests),
        allocated=status.allocation is not None,
        node_terms=node_terms(selector, "status.allocation.nodeSelector") if selector else None,
        reserved_for=tuple(
            ClaimConsumer(each.resource, each.name, each.uid, each.api_group or "")
            for each in status.reserved_for or ()
        ),
        deleting=metadata.deletion_timestamp is not None,
        resource_version=metadata.resource_version or "",
    )


def device_class(wire: DeviceClassWire) -> DeviceClass:
    """The core value of a DeviceClass."""
    return DeviceClass(
        name=wire.metadata.name,
        extended_resource=(wire.spec and wire.spec.extended_resource_name) or None,
        created_s=epoch_s(wire.metadata.creation_timestamp) or 0.0,
    )


def _device_classes(requests: Sequence[DeviceRequestWire]) -> tuple[str, ...]:
    names = chain.from_iterable(map(_classes, whole(requests, DEVICE_REQUESTS, "spec.devices.requests")))
    return whole(tuple(islice(names, DEVICE_REQUESTS + 1)), DEVICE_REQUESTS, "spec.devices.requests with alternatives")


def _classes(request: DeviceRequestWire) -> Iterator[str]:
    choices = chain((request.exactly,), request.first_available or ())
    names = chain((request.device_class_name,), (choice.device_class_name for choice in choices if choice))
    return filter(None, names)
