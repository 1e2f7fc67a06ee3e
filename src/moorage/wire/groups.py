"""Pod groups: JSON of Kubernetes' own kind and of the coscheduling CRD becomes one value."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.limits import RESOURCE_NAMES
from moorage.core.objects import COSCHEDULING_GROUPS, NATIVE_GROUPS, PodGroup
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire, epoch_s, frozen_annotations, frozen_map
from moorage.wire.quantities import QuantityWire, frozen_amounts
from moorage.wire.whole import whole
from moorage.wire.workloads import JobConditionWire

DEFAULT_NAMESPACE = "default"
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
_PLACED_PHASES = ("Scheduled", "Running", "Finished")


class GangWire(msgspec.Struct, gc=False, rename="camel"):
    """schedulingPolicy.gang."""

    min_count: Int32Wire | None = None


class GroupPolicyWire(msgspec.Struct, gc=False):
    """spec.schedulingPolicy: `basic` or `gang`."""

    gang: GangWire | None = None


class DisruptionModeWire(msgspec.Struct, gc=False):
    """spec.disruptionMode: `single` or `all`."""

    all: dict[str, Any] | None = None


class WorkloadRefWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.workloadRef."""

    name: str | None = None
    workload_name: str | None = None


class TopologyConstraintWire(msgspec.Struct, gc=False):
    """An entry of schedulingConstraints.topology."""

    key: str | None = None


class GroupConstraintsWire(msgspec.Struct, gc=False):
    """spec.schedulingConstraints."""

    topology: list[TopologyConstraintWire] | None = None


class NativeGroupSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a native PodGroup."""

    scheduling_policy: GroupPolicyWire | None = None
    disruption_mode: DisruptionModeWire | None = None
    priority_class_name: str | None = None
    priority: Int32Wire | None = None
    workload_ref: WorkloadRefWire | None = None
    scheduling_constraints: GroupConstraintsWire | None = None


class GroupStatusWire(msgspec.Struct, gc=False):
    """The status of either kind."""

    phase: str | None = None
    conditions: list[JobConditionWire] | None = None


class NativeGroupWire(msgspec.Struct, gc=False):
    """A PodGroup of scheduling.k8s.io."""

    metadata: MetadataWire
    spec: NativeGroupSpecWire | None = None
    status: GroupStatusWire | None = None


class CoschedulingSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of the CRD."""

    min_member: Int32Wire | None = None
    min_resources: dict[str, QuantityWire] | None = None
    schedule_timeout_seconds: Int32Wire | None = None


class CoschedulingGroupWire(msgspec.Struct, gc=False):
    """A PodGroup of scheduling.x-k8s.io."""

    metadata: MetadataWire
    spec: CoschedulingSpecWire | None = None
    status: GroupStatusWire | None = None


def native_group(wire: NativeGroupWire) -> PodGroup:
    """The core value of a native PodGroup."""
    spec, status = wire.spec or NativeGroupSpecWire(), wire.status or GroupStatusWire()
    gang = spec.scheduling_policy and spec.scheduling_policy.gang
    topology = (spec.scheduling_constraints and spec.scheduling_constraints.topology) or ()
    reference = spec.workload_ref or WorkloadRefWire()
    return _group(
        wire.metadata,
        api_group=NATIVE_GROUPS,
        min_count=_minimum(gang.min_count, "spec.schedulingPolicy.gang.minCount") if gang else 0,
        evict_whole=spec.disruption_mode is not None and spec.disruption_mode.all is not None,
        priority=spec.priority,
        priority_class=spec.priority_class_name or "",
        topology_key=(topology[0].key or None) if topology else None,
        workload=reference.workload_name or reference.name or None,
        scheduled=any(c.type == INITIALLY_SCHEDULED and c.status == "True" for c in status.conditions or ()),
    )


def coscheduling_group(wire: CoschedulingGroupWire) -> PodGroup:
    """The core value of a PodGroup of the coscheduling CRD."""
    spec = wire.spec or CoschedulingSpecWire()
    return _group(
        wire.metadata,
        api_group=COSCHEDULING_GROUPS,
        min_count=_minimum(spec.min_member, "spec.minMember"),
        min_resources=frozen_amounts(
            whole(spec.min_resources, RESOURCE_NAMES, "spec.minResources"), "spec.minResources"
        ),
        schedule_timeout_s=spec.schedule_timeout_seconds,
        scheduled=wire.status is not None and wire.status.phase in _PLACED_PHASES,
    )


def _minimum(value: int | None, path: str) -> int:
    """The size of a gang; one without a number is a gang of one."""
    if value is None:
        return 1
    if value < 1:
        raise FieldError(path, value, "is below 1", "write how many members must be placed together")
    return value


def _group(metadata: MetadataWire, **fields: Any) -> PodGroup:
    return PodGroup(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        labels=frozen_map(metadata.labels),
        annotations=frozen_annotations(metadata.annotations),
        deleting=metadata.deletion_timestamp is not None,
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
        generation=metadata.generation or 0,
        resource_version=metadata.resource_version or "",
        **fields,
    )
