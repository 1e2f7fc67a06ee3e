"""Narrow structs of a pod: the outer frame, whose parts stay raw bytes, and the parts themselves.

Most events bring a pod whose parts have been seen before, in other pods or in the same one. The frame is therefore
decoded only as deep as the parts that differ from pod to pod; the others are compared as bytes (`templates.py`) and
decoded with the structs of the second half on first sight. Fields are optional: null stands for absent everywhere.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from moorage.wire.metadata import Int32Wire, Int64Wire, TimeWire
from moorage.wire.selectors import LabelSelectorWire, NodeSelectorWire, NodeTermWire

NO_PART = msgspec.Raw()
QuantityWire: TypeAlias = str | int | float | None
AmountsWire: TypeAlias = dict[str, QuantityWire] | None


class PodMetadataWire(msgspec.Struct, gc=False, rename="camel"):
    """The pod's metadata."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    labels: msgspec.Raw = NO_PART
    annotations: msgspec.Raw = NO_PART
    owner_references: msgspec.Raw = NO_PART
    creation_timestamp: TimeWire | None = None
    deletion_timestamp: TimeWire | None = None
    resource_version: str | None = None
    generation: Int64Wire | None = None


class ContainerWire(msgspec.Struct, gc=False, rename="camel"):
    """A main or init container."""

    name: str = ""
    image: str | None = None
    resources: msgspec.Raw = NO_PART
    ports: msgspec.Raw = NO_PART
    restart_policy: str | None = None
    restart_policy_rules: msgspec.Raw = NO_PART


class ClaimSourceWire(msgspec.Struct, gc=False, rename="camel"):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""


class CsiSourceWire(msgspec.Struct, gc=False):
    """volumes[].csi."""

    driver: str = ""


class ImageSourceWire(msgspec.Struct, gc=False):
    """volumes[].image."""

    reference: str | None = None


class EphemeralSourceWire(msgspec.Struct, gc=False):
    """volumes[].ephemeral; that it is there is all that matters."""


class GceDiskWire(msgspec.Struct, gc=False, rename="camel"):
    """volumes[].gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool | None = None


class AwsDiskWire(msgspec.Struct, gc=False):
    """volumes[].awsElasticBlockStore; also .cinder and .portworxVolume, which are named in the same way."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class AzureDiskWire(msgspec.Struct, gc=False):
    """volumes[].azureDisk."""

    disk_uri: str = msgspec.field(name="diskURI", default="")


class IscsiDiskWire(msgspec.Struct, gc=False, rename="camel"):
    """volumes[].iscsi."""

    iqn: str = ""
    read_only: bool | None = None


class RbdDiskWire(msgspec.Struct, gc=False, rename="camel"):
    """volumes[].rbd."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str | None = None
    read_only: bool | None = None


class VolumeWire(msgspec.Struct, gc=False, rename="camel"):
    """A volume, as far as placement depends on its source."""

    name: str = ""
    persistent_volume_claim: ClaimSourceWire | None = None
    ephemeral: EphemeralSourceWire | None = None
    csi: CsiSourceWire | None = None
    image: ImageSourceWire | None = None
    gce_persistent_disk: GceDiskWire | None = None
    aws_elastic_block_store: AwsDiskWire | None = None
    iscsi: IscsiDiskWire | None = None
    rbd: RbdDiskWire | None = None
    azure_disk: AzureDiskWire | None = None
    cinder: AwsDiskWire | None = None
    portworx_volume: AwsDiskWire | None = None


class NamedWire(msgspec.Struct, gc=False):
    """Anything that only has a name: a scheduling gate."""

    name: str = ""


class PodSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The pod's spec."""

    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    volumes: list[VolumeWire] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32Wire | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[NamedWire] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    active_deadline_seconds: Int64Wire | None = None
    resources: msgspec.Raw = NO_PART
    overhead: msgspec.Raw = NO_PART
    node_selector: msgspec.Raw = NO_PART
    affinity: msgspec.Raw = NO_PART
    topology_spread_constraints: msgspec.Raw = NO_PART
    tolerations: msgspec.Raw = NO_PART
    resource_claims: msgspec.Raw = NO_PART
    scheduling_group: msgspec.Raw = NO_PART


class ConditionWire(msgspec.Struct, gc=False, rename="camel"):
    """A condition of a pod or node."""

    type: str
    status: str = "Unknown"
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    """Left as text: it is read of few, and what is wrong with it is no reason to refuse the object."""


class ContainerStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """A container's status, as far as in-place resize needs it."""

    name: str = ""
    allocated_resources: msgspec.Raw = NO_PART
    resources: msgspec.Raw = NO_PART


class PodStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The pod's status."""

    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: TimeWire | None = None
    conditions: list[ConditionWire] | None = None
    container_statuses: list[ContainerStatusWire] | None = None
    init_container_statuses: list[ContainerStatusWire] | None = None
    resource_claim_statuses: msgspec.Raw = NO_PART
    resources: msgspec.Raw = NO_PART
    allocated_resources: msgspec.Raw = NO_PART


class PodWire(msgspec.Struct, gc=False):
    """A pod."""

    metadata: PodMetadataWire
    spec: PodSpecWire
    status: PodStatusWire | None = None


# The parts.


class ResourcesWire(msgspec.Struct, gc=False):
    """`resources` of a container, of a pod, or of a container's status."""

    requests: AmountsWire = None
    limits: AmountsWire = None


class PortWire(msgspec.Struct, gc=False, rename="camel"):
    """A container's port."""

    host_port: Int32Wire | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class RestartRuleWire(msgspec.Struct, gc=False):
    """An entry of restartPolicyRules."""

    action: str = ""


class TolerationWire(msgspec.Struct, gc=False):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PreferredNodeTermWire(msgspec.Struct, gc=False):
    """A preference for nodes."""

    weight: Int32Wire
    preference: NodeTermWire


class NodeAffinityWire(msgspec.Struct, gc=False):
    """affinity.nodeAffinity."""

    required: NodeSelectorWire | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredNodeTermWire] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodTermWire(msgspec.Struct, gc=False, rename="camel"):
    """A pod affinity term."""

    topology_key: str
    label_selector: LabelSelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorWire | None = None


class PreferredPodTermWire(msgspec.Struct, gc=False, rename="camel"):
    """A pod affinity term with a weight."""

    weight: Int32Wire
    pod_affinity_term: PodTermWire


class PodAffinityWire(msgspec.Struct, gc=False):
    """affinity.podAffinity or affinity.podAntiAffinity."""

    required: list[PodTermWire] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredPodTermWire] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class AffinityWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.affinity."""

    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class SpreadWire(msgspec.Struct, gc=False, rename="camel"):
    """A topology spread constraint."""

    max_skew: Int32Wire
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelectorWire | None = None
    match_label_keys: list[str] | None = None
    min_domains: Int32Wire | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PodClaimWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of spec.resourceClaims or status.resourceClaimStatuses."""

    name: str
    resource_claim_name: str | None = None


class SchedulingGroupWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.schedulingGroup."""

    pod_group_name: str | None = None
