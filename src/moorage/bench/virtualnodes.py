"""What a virtual kubelet says of its nodes and pods, as Kubernetes JSON. Pure: time comes in as an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

import msgspec

from moorage.core.labelnames import HOSTNAME, ZONE
from moorage.core.values import dataclass

LEASE_NAMESPACE = "kube-node-lease"
HEALTHY = {"MemoryPressure": "KubeletHasSufficientMemory", "DiskPressure": "KubeletHasNoDiskPressure"}
HEALTHY["PIDPressure"] = "KubeletHasSufficientPID"
FINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualNode:
    """A node as its owner describes it. Quantities as in a manifest; allocatable is the capacity unless given."""

    name: str
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "16Gi", "pods": "110"})
    allocatable: Mapping[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    zone: str | None = None
    unschedulable: bool = False


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str
    deletion_timestamp: datetime | None = msgspec.field(default=None, name="deletionTimestamp")
    deletion_grace_period_s: int | None = msgspec.field(default=None, name="deletionGracePeriodSeconds")


class Container(msgspec.Struct, gc=False):
    """The part of a container that its status repeats."""

    name: str
    image: str = ""


class _Spec(msgspec.Struct, gc=False):
    node_name: str = msgspec.field(default="", name="nodeName")
    containers: tuple[Container, ...] = ()


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class KubeletPod(msgspec.Struct, gc=False):
    """What a kubelet reads of a pod."""

    metadata: _Meta
    spec: _Spec
    status: _Status


read_pod = msgspec.json.Decoder(KubeletPod).decode


def remaining_grace_s(pod: KubeletPod, now: datetime) -> float:
    """How long a deleted pod may still run.

    The server cuts the fraction off the end time, so the pod gets up to a second more than that, but never more than
    its grace period from now.
    """
    end = pod.metadata.deletion_timestamp
    if end is None or pod.status.phase in FINAL_PHASES:
        return 0.0
    left_s = (end - now).total_seconds() + 1.0
    return min(max(left_s, 0.0), float(pod.metadata.deletion_grace_period_s or 0))


def node_object(node: VirtualNode, address: str, now: datetime) -> dict[str, Any]:
    """Return the whole Node, status included: the API server takes both in one request."""
    labels = {HOSTNAME: node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if node.zone is not None:
        labels[ZONE] = node.zone
    spec: dict[str, Any] = {"taints": [dict(taint) for taint in node.taints]} if node.taints else {}
    if node.unschedulable:
        spec["unschedulable"] = True
    status = {
        "capacity": dict(node.capacity),
        "allocatable": dict(node.allocatable if node.allocatable is not None else node.capacity),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": node.name}],
        "nodeInfo": {"kubeletVersion": "v1.37.1", "operatingSystem": "linux", "architecture": "amd64"},
        **node_heartbeat(now),
    }
    metadata = {"name": node.name, "labels": {**labels, **node.labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def node_heartbeat(now: datetime) -> dict[str, Any]:
    """Return the conditions of a node that is well."""
    times = {"lastHeartbeatTime": rfc3339(now), "lastTransitionTime": rfc3339(now)}
    well = [{"type": kind, "status": "False", "reason": reason, **times} for kind, reason in HEALTHY.items()]
    return {"conditions": [*well, {"type": "Ready", "status": "True", "reason": "KubeletReady", **times}]}


def lease_object(name: str, interval_s: float, now: datetime) -> dict[str, Any]:
    """Return the Lease by which the node controller sees that the node lives."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": max(1, round(4 * interval_s)), **lease_renewal(now)}
    metadata = {"name": name, "namespace": LEASE_NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def lease_renewal(now: datetime) -> dict[str, str]:
    """Return the field of a lease's spec that says when its holder was last seen."""
    return {"renewTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def running_status(pod: KubeletPod, *, host_ip: str, pod_ip: str, now: datetime) -> dict[str, Any]:
    """Return a strategic merge patch that says that all containers run; it only holds for this very pod."""
    moment = rfc3339(now)
    ready = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": container.image,
            "containerID": f"virtual://{pod.metadata.uid}/{container.name}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": moment}},
        }
        for container in pod.spec.containers
    ]
    status = {
        "phase": "Running",
        "startTime": moment,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in ready],
        "containerStatuses": containers,
    }
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def rfc3339(moment: datetime) -> str:
    """Return a time as Kubernetes writes it, without a fraction."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
