"""NodeClaims, the nodes that Karpenter has ordered: JSON becomes `core.arrivals.NodeClaim`."""

from __future__ import annotations

import msgspec

from moorage.core.arrivals import NodeClaim
from moorage.core.frozen import FrozenDict
from moorage.core.limits import NODE_LABELS, RESOURCE_NAMES, TAINTS
from moorage.core.taints import Taint
from moorage.wire.metadata import MetadataWire, epoch_s
from moorage.wire.node import TaintWire
from moorage.wire.quantities import QuantityWire, frozen_amounts
from moorage.wire.selectors import RequirementWire
from moorage.wire.whole import whole

_IN = "In"


class NodeClaimSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a NodeClaim."""

    requirements: list[RequirementWire] | None = None
    taints: list[TaintWire] | None = None
    startup_taints: list[TaintWire] | None = None


class NodeClaimStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The status of a NodeClaim."""

    node_name: str | None = None
    allocatable: dict[str, QuantityWire] | None = None


class NodeClaimWire(msgspec.Struct, gc=False):
    """A NodeClaim."""

    metadata: MetadataWire
    spec: NodeClaimSpecWire | None = None
    status: NodeClaimStatusWire | None = None


def node_claim(wire: NodeClaimWire) -> NodeClaim:
    """The value of a NodeClaim. Of the requirements, those count that leave one value."""
    metadata, spec = wire.metadata, wire.spec or NodeClaimSpecWire()
    status = wire.status or NodeClaimStatusWire()
    asked = {
        each.key: each.values[0]
        for each in whole(spec.requirements, NODE_LABELS, "spec.requirements") or ()
        if each.operator == _IN and each.values and len(each.values) == 1
    }
    labels = {**asked, **(whole(metadata.labels, NODE_LABELS, "metadata.labels") or {})}
    return NodeClaim(
        name=metadata.name,
        labels=FrozenDict(labels),
        taints=_taints(spec.taints, "spec.taints"),
        startup_taints=_taints(spec.startup_taints, "spec.startupTaints"),
        allocatable=frozen_amounts(
            whole(status.allocatable, RESOURCE_NAMES, "status.allocatable"), "status.allocatable"
        ),
        node=status.node_name or "",
        deleting=metadata.deletion_timestamp is not None,
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
    )


def _taints(wire: list[TaintWire] | None, path: str) -> tuple[Taint, ...]:
    return tuple(Taint(each.key, each.value or "", each.effect) for each in whole(wire, TAINTS, path) or ())
