"""The one table of the kinds that Moorage reads: where the API server serves them, and how they become core values.

The table says which kinds are watched in a cluster and which are read from files. Everything that cannot be decoded
raises `WireError`, whose text is one line with kind, name, field, value and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_type_hints

import msgspec

from moorage.core.arrivals import NODE_CLAIM
from moorage.core.gangowners import GangOwner
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.prices import PriceList
from moorage.core.provisioning import PROVISIONING_REQUEST
from moorage.core.queues import KAI_QUEUE, QUEUE, VOLCANO_QUEUE
from moorage.core.values import dataclass
from moorage.wire import (
    claims,
    csi,
    devices,
    groups,
    nodeclaims,
    policies,
    prices,
    provisioning,
    queues,
    storage,
    topology,
    workloads,
)
from moorage.wire.errors import REFUSALS, FieldError, builtin_json, explain
from moorage.wire.gangowners import read_owner
from moorage.wire.node import decode_node, node_from_builtin
from moorage.wire.pod import decode_pod, pod_from_builtin
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadrows import ROWS, WorkloadRow

Wire = TypeVar("Wire", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of one API group."""

    name: str
    group: str
    """Empty for the core group."""
    versions: tuple[str, ...]
    """Versions that can be read, the best one first."""
    plural: str
    namespaced: bool
    decode: Callable[[bytes], Any]
    """JSON of one object -> core value."""
    from_builtin: Callable[[Mapping[str, Any]], Any]
    """Object of plain types -> core value."""
    id: str = ""
    """What events call it: the name, and for a second group with the same name `name.group`."""
    value: type = object
    """What its objects become."""
    served: bool = True
    """Whether API servers may have such objects. What none has comes from files, or from wherever else."""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.name)

    @property
    def api_versions(self) -> tuple[str, ...]:
        """The values of `apiVersion` that can be read, the best one first."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)

    def path(self, version: str | None = None) -> str:
        """Where the API server lists and watches all objects of this kind."""
        version = version or self.versions[0]
        return f"/apis/{self.group}/{version}/{self.plural}" if self.group else f"/api/{version}/{self.plural}"


def _kind(
    name: str,
    api_version: str,
    plural: str,
    wire: type[Wire],
    convert: Callable[[Wire], Any],
    *,
    namespaced: bool = True,
    older: tuple[str, ...] = (),
    id: str = "",  # noqa: A002 (the name of the field that it fills)
) -> Kind:
    """A kind that is read whole, with one struct."""
    group, _, version = api_version.rpartition("/")
    decoder = msgspec.json.Decoder(wire)

    def decode(data: bytes) -> Any:
        try:
            return convert(decoder.decode(data))
        except (*REFUSALS, FieldError) as error:
            raise explain(name, data, error) from None

    def from_builtin(body: Mapping[str, Any]) -> Any:
        return decode(builtin_json(name, body))

    value = get_type_hints(convert)["return"]
    return Kind(name, group, (version, *older), plural, namespaced, decode, from_builtin, id, value)


def _device_kind(
    name: str, plural: str, wire: type[Wire], convert: Callable[[Wire], Any], *, namespaced: bool = True
) -> Kind:
    """A kind of dynamic resource allocation, of which older servers have older versions only."""
    older = ("v1beta2", "v1beta1")
    return _kind(name, "resource.k8s.io/v1", plural, wire, convert, namespaced=namespaced, older=older)


def _topology_kind(api_version: str, *older: str, id: str = "") -> Kind:  # noqa: A002 (as in `_kind`)
    """A Topology, which looks alike in several groups."""
    wire, convert = topology.TopologyWire, topology.topology
    return _kind("Topology", api_version, "topologies", wire, convert, namespaced=False, older=older, id=id)


def workload_kind(row: WorkloadRow) -> Kind:
    """A workload whose pods are a gang, by its row of the table."""

    def decode(data: bytes) -> GangOwner:
        return read_owner(row, data)

    def from_builtin(body: Mapping[str, Any]) -> GangOwner:
        return read_owner(row, builtin_json(row.kind, body))

    return Kind(row.kind, row.group, row.versions, row.plural, True, decode, from_builtin, row.id, GangOwner)


POD = Kind("Pod", "", ("v1",), "pods", True, decode_pod, pod_from_builtin, value=Pod)
NODE = Kind("Node", "", ("v1",), "nodes", False, decode_node, node_from_builtin, value=Node)

_STORAGE = "storage.k8s.io/v1"

KINDS: tuple[Kind, ...] = (
    NODE,
    POD,
    _kind("Namespace", "v1", "namespaces", policies.NamespaceWire, policies.namespace, namespaced=False),
    _kind("Service", "v1", "services", policies.ServiceWire, policies.service),
    _kind(
        "ReplicationController",
        "v1",
        "replicationcontrollers",
        workloads.ReplicationControllerWire,
        workloads.replication_controller,
    ),
    _kind("Deployment", "apps/v1", "deployments", workloads.ScaledWire, workloads.deployment),
    _kind("ReplicaSet", "apps/v1", "replicasets", workloads.ScaledWire, workloads.replica_set),
    _kind("StatefulSet", "apps/v1", "statefulsets", workloads.ScaledWire, workloads.stateful_set),
    _kind("DaemonSet", "apps/v1", "daemonsets", workloads.ScaledWire, workloads.daemon_set),
    _kind("Job", "batch/v1", "jobs", workloads.JobWire, workloads.job),
    _kind("CronJob", "batch/v1", "cronjobs", workloads.CronJobWire, workloads.cron_job),
    _kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", storage.ClaimWire, storage.persistent_volume_claim),
    _kind(
        "PersistentVolume",
        "v1",
        "persistentvolumes",
        storage.PersistentVolumeWire,
        storage.persistent_volume,
        namespaced=False,
    ),
    _kind(
        "StorageClass", _STORAGE, "storageclasses", storage.StorageClassWire, storage.storage_class, namespaced=False
    ),
    _kind("CSINode", _STORAGE, "csinodes", csi.CSINodeWire, csi.csi_node, namespaced=False),
    _kind("CSIDriver", _STORAGE, "csidrivers", csi.CSIDriverWire, csi.csi_driver, namespaced=False),
    _kind("CSIStorageCapacity", _STORAGE, "csistoragecapacities", csi.StorageCapacityWire, csi.csi_storage_capacity),
    _kind(
        "VolumeAttachment",
        _STORAGE,
        "volumeattachments",
        storage.AttachmentWire,
        storage.volume_attachment,
        namespaced=False,
    ),
    _device_kind("DeviceClass", "deviceclasses", claims.DeviceClassWire, claims.device_class, namespaced=False),
    _device_kind(
        "DeviceTaintRule",
        "devicetaintrules",
        devices.DeviceTaintRuleWire,
        devices.device_taint_rule,
        namespaced=False,
    ),
    _device_kind(
        "ResourceSlice", "resourceslices", devices.ResourceSliceWire, devices.resource_slice, namespaced=False
    ),
    _device_kind(
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        claims.ResourceClaimTemplateWire,
        claims.resource_claim_template,
    ),
    _device_kind("ResourceClaim", "resourceclaims", claims.ResourceClaimWire, claims.resource_claim),
    _kind(
        "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", policies.BudgetWire, policies.pod_disruption_budget
    ),
    _kind(
        "PriorityClass",
        "scheduling.k8s.io/v1",
        "priorityclasses",
        policies.PriorityClassWire,
        policies.priority_class,
        namespaced=False,
    ),
    _kind(
        "RuntimeClass",
        "node.k8s.io/v1",
        "runtimeclasses",
        policies.RuntimeClassWire,
        policies.runtime_class,
        namespaced=False,
    ),
    _kind("PodGroup", "scheduling.k8s.io/v1beta1", "podgroups", groups.NativeGroupWire, groups.native_group),
    _kind(
        "PodGroup",
        "scheduling.x-k8s.io/v1alpha1",
        "podgroups",
        groups.CoschedulingGroupWire,
        groups.coscheduling_group,
        id="PodGroup.scheduling.x-k8s.io",
    ),
    _kind(
        "PodGroup",
        "scheduling.run.ai/v2alpha2",
        "podgroups",
        groups.KaiGroupWire,
        groups.kai_group,
        id="PodGroup.scheduling.run.ai",
    ),
    _kind(
        "PodGroup",
        "scheduling.volcano.sh/v1beta1",
        "podgroups",
        groups.VolcanoGroupWire,
        groups.volcano_group,
        id="PodGroup.scheduling.volcano.sh",
    ),
    _kind("PodGang", "scheduler.grove.io/v1alpha1", "podgangs", groups.PodGangWire, groups.pod_gang),
    *map(workload_kind, ROWS),
    _kind(
        PROVISIONING_REQUEST,
        "autoscaling.x-k8s.io/v1",
        "provisioningrequests",
        provisioning.ProvisioningRequestWire,
        provisioning.provisioning_request,
        older=("v1beta1",),
    ),
    _kind(
        NODE_CLAIM, "karpenter.sh/v1", "nodeclaims", nodeclaims.NodeClaimWire, nodeclaims.node_claim, namespaced=False
    ),
    _topology_kind("moorage.dev/v1alpha1"),
    _topology_kind("kueue.x-k8s.io/v1beta2", "v1beta1", "v1alpha1", id="Topology.kueue.x-k8s.io"),
    _topology_kind("kai.scheduler/v1alpha1", id="Topology.kai.scheduler"),
    _kind(
        "HyperNode",
        "topology.volcano.sh/v1alpha1",
        "hypernodes",
        topology.HyperNodeWire,
        topology.hyper_node,
        namespaced=False,
    ),
    _kind(
        "PlacementPolicy",
        "moorage.dev/v1alpha1",
        "placementpolicies",
        policies.PlacementPolicyWire,
        policies.placement_policy,
    ),
    _kind(QUEUE, "moorage.dev/v1alpha1", "queues", queues.QueueWire, queues.queue, namespaced=False),
    _kind(
        QUEUE, "scheduling.run.ai/v2", "queues", queues.KaiQueueWire, queues.kai_queue, namespaced=False, id=KAI_QUEUE
    ),
    _kind(
        QUEUE,
        "scheduling.volcano.sh/v1beta1",
        "queues",
        queues.VolcanoQueueWire,
        queues.volcano_queue,
        namespaced=False,
        id=VOLCANO_QUEUE,
    ),
    Kind(
        "PriceList",
        "moorage.dev",
        ("v1alpha1",),
        "pricelists",
        False,
        prices.decode_price_list,
        prices.price_list_from_builtin,
        value=PriceList,
        served=False,
    ),
)
"""Every kind that Moorage reads; cluster-wide things that others refer to stand before them where that is easy."""

_BY_API = {(api_version, kind.name): kind for kind in KINDS for api_version in kind.api_versions}
BY_ID: dict[str, Kind] = {kind.id: kind for kind in KINDS}


def find_kind(api_version: str, name: str) -> Kind | None:
    """The kind of an object with this `apiVersion` and `kind`, None if it is not read."""
    return _BY_API.get((api_version, name))


def readable_versions(name: str) -> tuple[str, ...]:
    """Every `apiVersion` under which a kind of this name is read; empty if no group has one."""
    return tuple(version for kind in KINDS if kind.name == name for version in kind.api_versions)


def pod_kind(table: TemplateTable) -> Kind:
    """`POD`, whose pods share their templates through the table; for decoding many pods."""
    return replace(
        POD,
        decode=lambda data: decode_pod(data, table),
        from_builtin=lambda body: pod_from_builtin(body, table),
    )
