"""Objects of a random cluster, as JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

SCHEDULER = "moorage"
NAMESPACE = "default"
GPU = "nvidia.com/gpu"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BLOCK, RACK = "example.com/block", "example.com/rack"
DRIVER = "gpu.example.com"
LOCAL, PROVISIONED = "local", "disks"
RUN_SECONDS = "moorage.dev/run-seconds"


def body(api_version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Body:
    """Any object; `metadata` of the parts is merged into its own."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def node(
    name: str, *, cpu: int = 4, labels: dict[str, str] | None = None, amounts: dict[str, str] | None = None
) -> Body:
    """A node; amounts by name beside cpu, memory and pods."""
    offered = {"cpu": str(cpu), "memory": "16Gi", "pods": "20", **(amounts or {})}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": offered, "allocatable": offered, "conditions": conditions}
    return body("v1", "Node", name, metadata={"labels": {HOST: name, **(labels or {})}}, spec={}, status=status)


def pod_spec(cpu: str = "1", **amounts: str) -> Body:
    """What a container asks for, in the spec of a pod."""
    requests = {"cpu": cpu, "memory": "256Mi", **amounts}
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    }


def ask(template: Body, resource: str, amount: str) -> None:
    """Have a pod ask for an amount."""
    resources = template["spec"]["containers"][0]["resources"]
    resources["requests"][resource] = amount
    if "/" in resource:
        resources.setdefault("limits", {})[resource] = amount


def queue(name: str, shares: dict[str, Any]) -> Body:
    """A Queue; shares by resource."""
    return body("moorage.dev/v1alpha1", "Queue", name, spec={"resources": shares})


def budget(name: str, labels: dict[str, str], namespace: str = NAMESPACE, **bound: Any) -> Body:
    """A PodDisruptionBudget."""
    return body(
        "policy/v1", "PodDisruptionBudget", name, namespace, spec={"selector": {"matchLabels": labels}, **bound}
    )


def slice_of(node_name: str, devices: list[Body]) -> Body:
    """The ResourceSlice of a node."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": devices}
    return body("resource.k8s.io/v1", "ResourceSlice", f"{node_name}-devices", spec=spec)


def device_class(name: str, *, model: str = "", extended: str = "") -> Body:
    """A DeviceClass of our driver's devices, perhaps of one model, perhaps with an extended resource."""
    expression = f'device.driver == "{DRIVER}"'
    if model:
        expression += f' && device.attributes["{DRIVER}"].model == "{model}"'
    spec: Body = {"selectors": [{"cel": {"expression": expression}}]}
    if extended:
        spec["extendedResourceName"] = extended
    return body("resource.k8s.io/v1", "DeviceClass", name, spec=spec)


def claim_spec(class_name: str, count: int = 1) -> Body:
    """The spec of a ResourceClaim."""
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "d", "exactly": exactly}]}}


def claim_template(name: str, class_name: str, count: int, namespace: str = NAMESPACE) -> Body:
    """A ResourceClaimTemplate."""
    spec = {"spec": claim_spec(class_name, count)}
    return body("resource.k8s.io/v1", "ResourceClaimTemplate", name, namespace, spec=spec)


def storage_class(name: str, provisioner: str, *, late: bool = True) -> Body:
    """A StorageClass."""
    mode = "WaitForFirstConsumer" if late else "Immediate"
    return body("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, volumeBindingMode=mode)


def local_volume(name: str, node_name: str) -> Body:
    """A PersistentVolume that only one node can use."""
    wanted = [{"key": HOST, "operator": "In", "values": [node_name]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": LOCAL,
        "persistentVolumeReclaimPolicy": "Delete",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}},
    }
    return body("v1", "PersistentVolume", name, spec=spec)


def volume_claim(name: str, class_name: str, namespace: str = NAMESPACE) -> Body:
    """A PersistentVolumeClaim."""
    return body("v1", "PersistentVolumeClaim", name, namespace, spec=volume_claim_spec(class_name))


def volume_claim_spec(class_name: str) -> Body:
    """The spec of one."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}},
    }
