"""Claims, volumes, storage classes and attachments: JSON becomes the values of `core.volumes`."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec

from moorage.core.affinity import NodeTerm
from moorage.core.limits import NODE_TERMS, OBJECT_TERM_PARTS
from moorage.core.selectors import Operator, Requirement
from moorage.core.volumebinding import SELECTED_NODE
from moorage.core.volumes import (
    FILESYSTEM,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from moorage.wire.errors import FieldError
from moorage.wire.metadata import MetadataWire, controller_of, epoch_s, frozen_annotations, frozen_map
from moorage.wire.quantities import QuantityWire, storage_bytes
from moorage.wire.selectors import LabelSelectorWire, NodeSelectorWire, canonical, label_selector, node_terms
from moorage.wire.whole import Whole

DEFAULT_NAMESPACE = "default"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
IMMEDIATE, WAIT_FOR_CONSUMER = "Immediate", "WaitForFirstConsumer"

_IDENTITIES = {
    "aws_elastic_block_store": ("awsElasticBlockStore", "volumeID"),
    "gce_persistent_disk": ("gcePersistentDisk", "pdName"),
    "azure_disk": ("azureDisk", "diskURI"),
    "azure_file": ("azureFile", "shareName"),
    "cinder": ("cinder", "volumeID"),
    "vsphere_volume": ("vsphereVolume", "volumePath"),
    "portworx_volume": ("portworxVolume", "volumeID"),
    "local": ("local", "path"),
    "host_path": ("hostPath", "path"),
    "nfs": ("nfs", "path"),
}
"""Struct field -> (field of the spec, its field that identifies the volume)."""


class RequestWire(msgspec.Struct, gc=False):
    """What a claim requests."""

    requests: dict[str, QuantityWire] | None = None


class PhaseWire(msgspec.Struct, gc=False):
    """A status of which only the phase counts."""

    phase: str | None = None


class ClaimSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a PersistentVolumeClaim."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: RequestWire | None = None
    selector: LabelSelectorWire | None = None
    volume_attributes_class_name: str | None = None


class ClaimWire(msgspec.Struct, gc=False):
    """A PersistentVolumeClaim."""

    metadata: MetadataWire
    spec: ClaimSpecWire | None = None
    status: PhaseWire | None = None


class ClaimRefWire(msgspec.Struct, gc=False):
    """A volume's reference to its claim."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class CSISourceWire(msgspec.Struct, gc=False, rename="camel"):
    """A CSI volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool | None = None


class ReachWire(msgspec.Struct, gc=False):
    """The nodes that reach a volume."""

    required: NodeSelectorWire | None = None


class PersistentVolumeSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a PersistentVolume; sources other than CSI stay plain dictionaries."""

    capacity: dict[str, QuantityWire] | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: ClaimRefWire | None = None
    node_affinity: ReachWire | None = None
    csi: CSISourceWire | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    local: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    nfs: dict[str, Any] | None = None


class PersistentVolumeWire(msgspec.Struct, gc=False):
    """A PersistentVolume."""

    metadata: MetadataWire
    spec: PersistentVolumeSpecWire | None = None
    status: PhaseWire | None = None


class TopologyRequirementWire(msgspec.Struct, gc=False):
    """A label and its allowed values."""

    key: str
    values: list[str] | None = None


class TopologyTermWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of allowedTopologies."""

    match_label_expressions: list[TopologyRequirementWire] | None = None


class StorageClassWire(msgspec.Struct, gc=False, rename="camel"):
    """A StorageClass, which has no spec."""

    metadata: MetadataWire
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTermWire] | None = None


class AttachmentSourceWire(msgspec.Struct, gc=False, rename="camel"):
    """What is attached."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpecWire | None = None


class AttachmentSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSourceWire | None = None


class AttachmentStatusWire(msgspec.Struct, gc=False):
    """The status of a VolumeAttachment."""

    attached: bool | None = None


class AttachmentWire(msgspec.Struct, gc=False):
    """A VolumeAttachment."""

    metadata: MetadataWire
    spec: AttachmentSpecWire | None = None
    status: AttachmentStatusWire | None = None


def persistent_volume_claim(wire: ClaimWire) -> PersistentVolumeClaim:
    """The core value of a PersistentVolumeClaim; its class may stand in an annotation, which wins."""
    metadata, spec = wire.metadata, wire.spec or ClaimSpecWire()
    annotations = frozen_annotations(metadata.annotations)
    return PersistentVolumeClaim(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        labels=frozen_map(metadata.labels),
        annotations=annotations,
        owner=controller_of(metadata.owner_references),
        volume=spec.volume_name or None,
        bind_completed=BIND_COMPLETED in annotations,
        storage_class=annotations.get(CLASS_ANNOTATION, spec.storage_class_name),
        access_modes=_modes(spec.access_modes),
        volume_mode=spec.volume_mode or FILESYSTEM,
        request_bytes=storage_bytes((spec.resources or RequestWire()).requests, "spec.resources.requests"),
        selector=None if spec.selector is None else label_selector(spec.selector, "spec.selector"),
        attributes_class=spec.volume_attributes_class_name or None,
        phase=(wire.status and wire.status.phase) or "Pending",
        selected_node=annotations.get(SELECTED_NODE) or None,
        deleting=metadata.deletion_timestamp is not None,
        resource_version=metadata.resource_version or "",
    )


def persistent_volume(wire: PersistentVolumeWire) -> PersistentVolume:
    """The core value of a PersistentVolume."""
    metadata, spec = wire.metadata, wire.spec or PersistentVolumeSpecWire()
    annotations = frozen_annotations(metadata.annotations)
    required = spec.node_affinity and spec.node_affinity.required
    claim = spec.claim_ref
    return PersistentVolume(
        name=metadata.name,
        uid=metadata.uid or "",
        labels=frozen_map(metadata.labels),
        annotations=annotations,
        capacity_bytes=storage_bytes(spec.capacity, "spec.capacity"),
        access_modes=_modes(spec.access_modes),
        volume_mode=spec.volume_mode or FILESYSTEM,
        storage_class=annotations.get(CLASS_ANNOTATION, spec.storage_class_name or ""),
        attributes_class=spec.volume_attributes_class_name or None,
        claim=ClaimRef(claim.namespace or "", claim.name or "", claim.uid or "") if claim else None,
        node_terms=node_terms(required, "spec.nodeAffinity.required") if required else None,
        source=_source(spec),
        phase=(wire.status and wire.status.phase) or "Pending",
        deleting=metadata.deletion_timestamp is not None,
        resource_version=metadata.resource_version or "",
    )


def storage_class(wire: StorageClassWire) -> StorageClass:
    """The core value of a StorageClass."""
    mode = wire.volume_binding_mode or IMMEDIATE
    if mode not in (IMMEDIATE, WAIT_FOR_CONSUMER):
        raise FieldError("volumeBindingMode", mode, "is unknown", f"write {IMMEDIATE} or {WAIT_FOR_CONSUMER}")
    annotations = wire.metadata.annotations or {}
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner or "",
        wait_for_consumer=mode == WAIT_FOR_CONSUMER,
        allowed_topologies=_topologies(wire.allowed_topologies),
        default=any(annotations.get(key) == "true" for key in DEFAULT_CLASS),
        created_s=epoch_s(wire.metadata.creation_timestamp) or 0.0,
    )


def volume_attachment(wire: AttachmentWire) -> VolumeAttachment:
    """The core value of a VolumeAttachment."""
    spec = wire.spec or AttachmentSpecWire()
    source = spec.source or AttachmentSourceWire()
    return VolumeAttachment(
        name=wire.metadata.name,
        driver=spec.attacher,
        node=spec.node_name,
        volume=source.persistent_volume_name or None,
        inline=_source(source.inline_volume_spec) if source.inline_volume_spec else None,
        attached=bool(wire.status and wire.status.attached),
        deleting=wire.metadata.deletion_timestamp is not None,
    )


def _source(spec: PersistentVolumeSpecWire) -> VolumeSource | None:
    if spec.csi:
        return VolumeSource("csi", spec.csi.driver, spec.csi.volume_handle, bool(spec.csi.read_only))
    for field, (kind, identity) in _IDENTITIES.items():
        source = getattr(spec, field)
        if source is not None:
            return VolumeSource(kind, "", str(source.get(identity, "")), source.get("readOnly") is True)
    return None


def _modes(modes: list[str] | None) -> tuple[str, ...]:
    """There are four of them; the API server does not mind how often each is written."""
    return tuple(dict.fromkeys(modes)) if modes else ()


def _topologies(wires: list[TopologyTermWire] | None) -> tuple[NodeTerm, ...]:
    cutter, path = Whole(OBJECT_TERM_PARTS), "allowedTopologies"
    return tuple(_topology_term(wire, path, cutter) for wire in cutter.cut(wires, NODE_TERMS, path))


def _topology_term(wire: TopologyTermWire, path: str, cutter: Whole) -> NodeTerm:
    expressions = wire.match_label_expressions or ()
    counted = takewhile(lambda e: cutter.part(len(e.values or ()), path), expressions)
    return NodeTerm(canonical(Requirement(e.key, Operator.IN, tuple(sorted(set(e.values or ())))) for e in counted))
