"""Nodes and pods in a line each, and questions about them."""

from __future__ import annotations

from typing import Any

from tests.contract.cluster import Cluster, Manifest

SCHEDULER = "moorage"


def a_node(
    name: str, *, cpu: str = "4", pods: str = "110", labels: dict[str, str] | None = None, **spec: Any
) -> Manifest:
    """A node that is ready; `spec` are fields of its spec."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, *, cpu: str = "1", scheduler: str = SCHEDULER, port: int | None = None, **spec: Any) -> Manifest:
    """A pod with one container; `spec` are fields of its spec."""
    container: Manifest = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": cpu}}}
    if port is not None:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def a_priority_class(name: str, value: int) -> Manifest:
    """A priority whose pods wait for room, but make none."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "Never",
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Manifest:
    return {"key": key, "value": value, "effect": effect}


def node_in(labels: dict[str, list[str]]) -> Manifest:
    """Required node affinity: each label must have one of the values."""
    expressions = [{"key": key, "operator": "In", "values": values} for key, values in labels.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def node_of(cluster: Cluster, pod: str) -> str | None:
    """Where the pod is bound, None if it is not."""
    found = cluster.find("Pod", pod)
    return None if found is None else found["spec"].get("nodeName") or None


def placements(cluster: Cluster) -> dict[str, str]:
    """Pod -> node, of all pods that are bound."""
    pods = cluster.list("Pod")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def scheduled_condition(cluster: Cluster, pod: str) -> Manifest:
    """The condition PodScheduled, empty if there is none."""
    found = cluster.find("Pod", pod) or {}
    conditions: list[Manifest] = (found.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


def refusal(cluster: Cluster, pod: str) -> str:
    """What an unschedulable pod says about the nodes; what could be done about it by preemption is left out."""
    condition = scheduled_condition(cluster, pod)
    if condition.get("reason") != "Unschedulable":
        return ""
    message: str = condition["message"]
    return message.partition(" preemption:")[0]


def events_of(cluster: Cluster, pod: str, reason: str) -> list[Manifest]:
    """The events of this reason about a pod."""
    return [e for e in cluster.list("Event") if e["regarding"]["name"] == pod and e["reason"] == reason]


def eventually_on(cluster: Cluster, pod: str, node: str) -> None:
    """Wait until the pod is bound, which must be to this node."""
    cluster.eventually(lambda: node_of(cluster, pod), f"{pod} is bound")
    assert node_of(cluster, pod) == node


def eventually_refused(cluster: Cluster, pod: str, want: str) -> None:
    """Wait until the pod is unschedulable for this reason."""
    said: list[str] = []

    def says_so() -> bool:
        said[:] = [refusal(cluster, pod)]
        return said == [want]

    try:
        cluster.eventually(says_so, f"{pod} is unschedulable")
    except AssertionError as error:
        raise AssertionError(f"{error}: it says {said}, want {want!r}") from None
    assert node_of(cluster, pod) is None
