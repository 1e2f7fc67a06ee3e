"""What CSI drivers publish: JSON becomes CSINode, CSIDriver and CSIStorageCapacity."""

from __future__ import annotations

import msgspec

from moorage.core.limits import CSI_DRIVERS
from moorage.core.volumes import CSIDriver, CSINode, CSIStorageCapacity, NodeDriver
from moorage.wire.metadata import Int32Wire, MetadataWire
from moorage.wire.quantities import QuantityWire, optional_bytes
from moorage.wire.selectors import LabelSelectorWire, label_selector
from moorage.wire.whole import whole

DEFAULT_NAMESPACE = "default"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


class VolumeLimitWire(msgspec.Struct, gc=False):
    """How many volumes a node can hold."""

    count: Int32Wire | None = None


class NodeDriverWire(msgspec.Struct, gc=False, rename={"node_id": "nodeID", "topology_keys": "topologyKeys"}):
    """A driver of a CSINode."""

    name: str = ""
    node_id: str | None = None
    topology_keys: list[str] | None = None
    allocatable: VolumeLimitWire | None = None


class CSINodeSpecWire(msgspec.Struct, gc=False):
    """The spec of a CSINode."""

    drivers: list[NodeDriverWire] | None = None


class CSINodeWire(msgspec.Struct, gc=False):
    """A CSINode."""

    metadata: MetadataWire
    spec: CSINodeSpecWire | None = None


class CSIDriverSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a CSIDriver."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriverWire(msgspec.Struct, gc=False):
    """A CSIDriver."""

    metadata: MetadataWire
    spec: CSIDriverSpecWire | None = None


class StorageCapacityWire(msgspec.Struct, gc=False, rename="camel"):
    """A CSIStorageCapacity, which has no spec."""

    metadata: MetadataWire
    storage_class_name: str | None = None
    node_topology: LabelSelectorWire | None = None
    capacity: QuantityWire = None
    maximum_volume_size: QuantityWire = None


def csi_node(wire: CSINodeWire) -> CSINode:
    """The core value of a CSINode."""
    migrated = (wire.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")
    drivers = wire.spec.drivers if wire.spec else None
    return CSINode(
        name=wire.metadata.name,
        drivers=tuple(_node_driver(driver) for driver in whole(drivers, CSI_DRIVERS, "spec.drivers") or ()),
        migrated_plugins=tuple(sorted({name.strip() for name in migrated.split(",")} - {""})),
    )


def csi_driver(wire: CSIDriverWire) -> CSIDriver:
    """The core value of a CSIDriver."""
    spec = wire.spec or CSIDriverSpecWire()
    return CSIDriver(
        name=wire.metadata.name,
        storage_capacity=bool(spec.storage_capacity),
        attach_required=spec.attach_required is not False,
        prevent_scheduling_if_missing=bool(spec.prevent_pod_scheduling_if_missing),
    )


def csi_storage_capacity(wire: StorageCapacityWire) -> CSIStorageCapacity:
    """The core value of a CSIStorageCapacity."""
    return CSIStorageCapacity(
        namespace=wire.metadata.namespace or DEFAULT_NAMESPACE,
        name=wire.metadata.name,
        storage_class=wire.storage_class_name or "",
        node_topology=None if wire.node_topology is None else label_selector(wire.node_topology, "nodeTopology"),
        capacity_bytes=optional_bytes(wire.capacity, "capacity"),
        maximum_volume_bytes=optional_bytes(wire.maximum_volume_size, "maximumVolumeSize"),
    )


def _node_driver(wire: NodeDriverWire) -> NodeDriver:
    return NodeDriver(
        name=wire.name,
        node_id=wire.node_id or "",
        topology_keys=tuple(wire.topology_keys or ()),
        volume_limit=wire.allocatable.count if wire.allocatable else None,
    )
