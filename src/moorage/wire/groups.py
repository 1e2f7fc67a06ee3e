"""Pod groups: JSON of Kubernetes' own kind, of the coscheduling CRD, of KAI, Volcano and Grove becomes one value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from moorage.core.limits import RESOURCE_NAMES, SUB_GROUPS
from moorage.core.objects import COSCHEDULING_GROUPS, GROVE_GROUPS, KAI_GROUPS, NATIVE_GROUPS, VOLCANO_GROUPS, PodGroup
from moorage.core.topologyasks import NOTHING_ASKED, SUBGROUP_LABELS, SliceAsk, SubGroup, TopologyAsk
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire, epoch_s, frozen_annotations, frozen_map
from moorage.wire.quantities import QuantityWire, frozen_amounts
from moorage.wire.topology import ask_of, subgroups_of, volcano_ask
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


class LevelsWire(msgspec.Struct, gc=False, rename="camel"):
    """topologyConstraint of KAI."""

    topology: str | None = None
    required_topology_level: str | None = None
    preferred_topology_level: str | None = None


class KaiSubGroupWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.subGroups[] of KAI."""

    name: str
    parent: str | None = None
    min_member: Int32Wire | None = None
    topology_constraint: LevelsWire | None = None


class KaiSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of KAI's PodGroup."""

    min_member: Int32Wire | None = None
    priority_class_name: str | None = None
    topology_constraint: LevelsWire | None = None
    sub_groups: list[KaiSubGroupWire] | None = None


class KaiGroupWire(msgspec.Struct, gc=False):
    """A PodGroup of scheduling.run.ai."""

    metadata: MetadataWire
    spec: KaiSpecWire | None = None


class NetworkTopologyWire(msgspec.Struct, gc=False, rename="camel"):
    """networkTopology of Volcano."""

    mode: str | None = None
    highest_tier_allowed: Int32Wire | None = None
    highest_tier_name: str | None = None


class SubGroupSelectorWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.subGroupPolicy[].labelSelector of Volcano."""

    match_labels: dict[str, str] | None = None


class VolcanoSubGroupWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.subGroupPolicy[] of Volcano."""

    name: str = ""
    sub_group_size: Int32Wire | None = None
    label_selector: SubGroupSelectorWire | None = None
    network_topology: NetworkTopologyWire | None = None


class VolcanoSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of Volcano's PodGroup."""

    min_member: Int32Wire | None = None
    min_task_member: dict[str, Int32Wire] | None = None
    min_resources: dict[str, QuantityWire] | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopologyWire | None = None
    sub_group_policy: list[VolcanoSubGroupWire] | None = None


class VolcanoGroupWire(msgspec.Struct, gc=False):
    """A PodGroup of scheduling.volcano.sh."""

    metadata: MetadataWire
    spec: VolcanoSpecWire | None = None


class PackWire(msgspec.Struct, gc=False):
    """packConstraint of Grove: levels by their label keys."""

    required: str | None = None
    preferred: str | None = None


class PackedWire(msgspec.Struct, gc=False, rename="camel"):
    """topologyConstraint of Grove."""

    pack_constraint: PackWire | None = None


class CliqueWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.podgroups[] of Grove."""

    name: str
    min_replicas: Int32Wire | None = None
    topology_constraint: PackedWire | None = None


class PodGangSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a PodGang."""

    podgroups: list[CliqueWire] | None = None
    priority_class_name: str | None = None
    topology_constraint: PackedWire | None = None


class PodGangWire(msgspec.Struct, gc=False):
    """A PodGang of scheduler.grove.io."""

    metadata: MetadataWire
    spec: PodGangSpecWire | None = None


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
        **_asked(wire.metadata),
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
        **_asked(wire.metadata),
        scheduled=wire.status is not None and wire.status.phase in _PLACED_PHASES,
    )


def kai_group(wire: KaiGroupWire) -> PodGroup:
    """The core value of a PodGroup of KAI."""
    spec = wire.spec or KaiSpecWire()
    whole(spec.sub_groups, SUB_GROUPS, "spec.subGroups")
    subgroups = tuple(
        SubGroup(each.name, each.parent or "", each.min_member, _levels(each.topology_constraint) or NOTHING_ASKED)
        for each in spec.sub_groups or ()
    )
    return _group(
        wire.metadata,
        api_group=KAI_GROUPS,
        min_count=_minimum(spec.min_member, "spec.minMember"),
        priority_class=spec.priority_class_name or "",
        topology=_levels(spec.topology_constraint) or ask_of(wire.metadata.annotations or {}),
        subgroups=subgroups,
    )


def _levels(wire: LevelsWire | None) -> TopologyAsk | None:
    if wire is None:
        return None
    return TopologyAsk(
        required=wire.required_topology_level or "",
        preferred=wire.preferred_topology_level or "",
        topology=wire.topology or "",
    )


def volcano_group(wire: VolcanoGroupWire) -> PodGroup:
    """The core value of a PodGroup of Volcano.

    A policy of sub-groups with a size is read as slices of that many members: of the task that it selects, else of all.
    """
    spec = wire.spec or VolcanoSpecWire()
    ask = _network(spec.network_topology)
    tasks = {name: SubGroup(name, least=least) for name, least in sorted(_tasks(spec).items())}
    for policy in whole(spec.sub_group_policy, SUB_GROUPS, "spec.subGroupPolicy") or ():
        slices, role = _slices(policy), _role(policy)
        if slices and role:
            tasks[role] = replace(tasks.get(role) or SubGroup(role), ask=TopologyAsk(slices=slices))
        elif slices:
            ask = replace(ask or NOTHING_ASKED, slices=(*(() if ask is None else ask.slices), *slices))
    return _group(
        wire.metadata,
        api_group=VOLCANO_GROUPS,
        min_count=_minimum(spec.min_member, "spec.minMember"),
        min_resources=frozen_amounts(
            whole(spec.min_resources, RESOURCE_NAMES, "spec.minResources"), "spec.minResources"
        ),
        priority_class=spec.priority_class_name or "",
        topology=ask,
        subgroups=tuple(tasks.values()),
    )


def _tasks(spec: VolcanoSpecWire) -> dict[str, int]:
    return whole(spec.min_task_member, SUB_GROUPS, "spec.minTaskMember") or {}


def _slices(policy: VolcanoSubGroupWire) -> tuple[SliceAsk, ...]:
    """The slices of a policy; none if it says nothing about how many, or how close."""
    found = _network(policy.network_topology)
    if found is None or not policy.sub_group_size:
        return ()
    return (SliceAsk(found.required or found.preferred, policy.sub_group_size, soft=not found.required),)


def _role(policy: VolcanoSubGroupWire) -> str:
    """The task that a policy is about; empty if it is about all."""
    labels = (policy.label_selector and policy.label_selector.match_labels) or {}
    return next((labels[key] for key in SUBGROUP_LABELS if labels.get(key)), "")


def pod_gang(wire: PodGangWire) -> PodGroup:
    """The core value of a PodGang of Grove; its pod groups are the sub-groups."""
    spec = wire.spec or PodGangSpecWire()
    cliques = whole(spec.podgroups, SUB_GROUPS, "spec.podgroups") or ()
    least = [_minimum(each.min_replicas, f"spec.podgroups[{i}].minReplicas") for i, each in enumerate(cliques)]
    return _group(
        wire.metadata,
        api_group=GROVE_GROUPS,
        min_count=sum(least) or 1,
        priority_class=spec.priority_class_name or "",
        topology=_packed(spec.topology_constraint) or ask_of(wire.metadata.annotations or {}),
        subgroups=tuple(
            SubGroup(each.name, least=number, ask=_packed(each.topology_constraint) or NOTHING_ASKED)
            for each, number in zip(cliques, least, strict=True)
        ),
    )


def _packed(wire: PackedWire | None) -> TopologyAsk | None:
    pack = wire and wire.pack_constraint
    return TopologyAsk(required=pack.required or "", preferred=pack.preferred or "") if pack else None


def _network(wire: NetworkTopologyWire | None) -> TopologyAsk | None:
    return None if wire is None else volcano_ask(wire.mode, wire.highest_tier_allowed, wire.highest_tier_name)


def _asked(metadata: MetadataWire) -> dict[str, Any]:
    """What annotations say about levels and sub-groups; what cannot be understood keeps the gang waiting."""
    annotations = metadata.annotations or {}
    ask = ask_of(annotations)
    subgroups, mistake = subgroups_of(annotations)
    if mistake:
        ask = replace(ask or NOTHING_ASKED, mistake=mistake)
    return {"topology": ask, "subgroups": subgroups}


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
