"""Short ways to write the objects that demos and tests are full of. All return plain dictionaries, not yet stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.core.labelnames import HOSTNAME, ZONE

API_VERSIONS = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "ReplicaSet": "apps/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
    "StatefulSet": "apps/v1",
    "StorageClass": "storage.k8s.io/v1",
}
"""API versions of the kinds outside `v1`."""


def manifest(kind: str, name: str, namespace: str | None = None, /, **parts: Any) -> dict[str, Any]:
    """An object of any kind; `labels` and `annotations` go to its metadata, other parts to the top."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    for part in ("labels", "annotations", "ownerReferences", "uid", "finalizers"):
        if part in parts:
            metadata[part] = parts.pop(part)
    return {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **parts}


def node_manifest(
    name: str,
    *,
    zone: str | None = None,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: list[Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """A node with a hostname label and, if given, a zone."""
    all_labels = {HOSTNAME: name, **(labels or {})}
    if zone is not None:
        all_labels[ZONE] = zone
    spec: dict[str, Any] = {"taints": taints} if taints else {}
    status = {"capacity": {"cpu": cpu, "memory": memory, "pods": pods}}
    return manifest("Node", name, labels=all_labels, spec=spec, status=status)


def pod_spec(*, cpu: str | None = "100m", memory: str | None = "128Mi", **parts: Any) -> dict[str, Any]:
    """A pod's spec with one container that requests this much; other parts as in Kubernetes."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {"containers": [container], **parts}


def pod_manifest(
    name: str,
    namespace: str = "default",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod; keywords are those of `pod_spec`."""
    meta = {key: dict(value) for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return manifest("Pod", name, namespace, spec=pod_spec(**spec), **meta)


def workload_manifest(
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    own: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A controller of any kind; `own` is merged into its spec, the other keywords make its pods' spec.

    `labels` are the pods' (by default `app: <name>`), `annotations` the controller's own.
    """
    pod_labels = dict(labels or {"app": name})
    template = {"metadata": {"labels": pod_labels}, "spec": pod_spec(**spec)}
    body: dict[str, Any] = {"template": template, **(own or {})}
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        body["selector"] = {"matchLabels": pod_labels}
    if kind in ("Job", "CronJob"):
        template["spec"] = {"restartPolicy": "Never", **template["spec"]}
    if kind == "CronJob":
        job_parts = {key: value for key, value in body.items() if key not in ("schedule", "suspend")}
        schedule = body.get("schedule", "*/5 * * * *")
        body = {"schedule": schedule, "jobTemplate": {"spec": job_parts}, "suspend": bool(body.get("suspend"))}
    meta = {"annotations": dict(annotations)} if annotations else {}
    return manifest(kind, name, namespace, spec=body, **meta)
