"""Nodes: Kubernetes JSON becomes `moorage.core.nodes.Node`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from moorage.core.frozen import FrozenDict
from moorage.core.images import normalized_image
from moorage.core.limits import FEATURES, IMAGE_NAMES, NODE_CONDITIONS, NODE_IMAGES, NODE_LABELS, TAINTS, Cutter
from moorage.core.nodes import Node, NodeImage
from moorage.core.pods import Condition
from moorage.core.taints import Taint
from moorage.wire.amounts import parse_amounts
from moorage.wire.errors import MISSING, REFUSALS, FieldError, builtin_json, explain
from moorage.wire.metadata import Int64Wire, MetadataWire, epoch_s, frozen_annotations, frozen_map
from moorage.wire.podspec import AmountsWire, ConditionWire

KIND = "Node"


class TaintWire(msgspec.Struct, gc=False):
    """A taint."""

    key: str
    effect: str
    value: str | None = None


class NodeSpecWire(msgspec.Struct, gc=False):
    """The node's spec."""

    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class NodeImageWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of status.images."""

    names: list[str] | None = None
    size_bytes: Int64Wire | None = None


class NodeStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The node's status."""

    capacity: AmountsWire = None
    allocatable: AmountsWire = None
    conditions: list[ConditionWire] | None = None
    images: list[NodeImageWire] | None = None
    declared_features: list[str] | None = None


class NodeWire(msgspec.Struct, gc=False):
    """A node."""

    metadata: MetadataWire
    spec: NodeSpecWire | None = None
    status: NodeStatusWire | None = None


_DECODER = msgspec.json.Decoder(NodeWire)
_NO_SPEC = NodeSpecWire()
_NO_STATUS = NodeStatusWire()


def decode_node(data: bytes) -> Node:
    """The node that this JSON describes; raises `WireError` if it describes none."""
    try:
        return node_of(_DECODER.decode(data))
    except (*REFUSALS, FieldError) as error:
        raise explain(KIND, data, error) from None


def node_from_builtin(obj: Mapping[str, Any]) -> Node:
    """The same for an object of plain types (dict, list, str, int, ...), as YAML and the embedded cluster give it."""
    return decode_node(builtin_json(KIND, obj))


def node_of(wire: NodeWire) -> Node:
    """The node of a decoded struct. Raises `FieldError`."""
    metadata, spec, status = wire.metadata, wire.spec or _NO_SPEC, wire.status or _NO_STATUS
    if not metadata.name:
        raise FieldError("metadata.name", MISSING, "is missing", "give the node a name")
    cutter = Cutter()
    return Node(
        name=metadata.name,
        uid=metadata.uid or metadata.name,
        labels=frozen_map(cutter.cut_map(metadata.labels, NODE_LABELS, "metadata.labels")),
        annotations=frozen_annotations(metadata.annotations),
        taints=tuple(
            Taint(taint.key, taint.value or "", taint.effect)
            for taint in cutter.cut(spec.taints, TAINTS, "spec.taints")
        ),
        unschedulable=bool(spec.unschedulable),
        allocatable=_allocatable(status, cutter),
        images=tuple(
            NodeImage(
                tuple(map(normalized_image, cutter.cut(image.names, IMAGE_NAMES, "status.images[].names"))),
                image.size_bytes or 0,
            )
            for image in cutter.cut(status.images, NODE_IMAGES, "status.images")
        ),
        features=tuple(sorted(set(cutter.cut(status.declared_features, FEATURES, "status.declaredFeatures")))),
        ready=_is_ready(status),
        conditions=_true_conditions(cutter.cut(status.conditions, NODE_CONDITIONS, "status.conditions")),
        deleting=metadata.deletion_timestamp is not None,
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
        resource_version=metadata.resource_version or "",
        excess=tuple(cutter.excess),
    )


def _allocatable(status: NodeStatusWire, cutter: Cutter) -> FrozenDict[str, int]:
    """The allocatable amounts; where none are given the capacity, as the API server fills them in."""
    path, offered = "status.allocatable", status.allocatable
    if offered is None:
        path, offered = "status.capacity", status.capacity
    return FrozenDict(parse_amounts(cutter.resources(offered, path), path))


def _is_ready(status: NodeStatusWire) -> bool:
    """Whether the node says that it is ready; one that says nothing counts as ready."""
    return all(condition.status == "True" for condition in status.conditions or () if condition.type == "Ready")


def _true_conditions(wires: Sequence[ConditionWire]) -> tuple[Condition, ...]:
    """What is the case beside being ready; a healthy node says nothing here."""
    return tuple(
        Condition(condition.type, condition.status, condition.reason or "", condition.message or "")
        for condition in wires
        if condition.status == "True" and condition.type != "Ready"
    )
