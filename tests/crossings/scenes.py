"""Small clusters as manifests, and what `moorage simulate` makes of them."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from moorage.cli.simulate import SimulateOptions, answer

Manifest = dict[str, Any]
DRIVER = "gpu.example.com"


def written(folder: Path, *manifests: Iterable[Manifest]) -> Path:
    """A file with these."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*chain(*manifests)]}))
    return path


def simulated(folder: Path, *manifests: Iterable[Manifest]) -> Any:
    """The report as JSON."""
    path = written(folder, *manifests)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        answer(SimulateOptions(files=[str(path)], output_format="json"))
    return json.loads(out.getvalue())


def nodes_of(report: Any) -> dict[str, str | None]:
    """Name of a pod that was to be placed -> its node."""
    return {pod["name"]: pod["node"] for pod in report["pods"]}


def node(name: str, cpu: int, **resources: str) -> Manifest:
    status = {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110", **resources}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": _named(name, labels={"host": name}), "status": status}


def queue(name: str, cpu: int) -> Manifest:
    spec = {"resources": {"cpu": {"quota": str(cpu)}}}
    return {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod(
    name: str,
    on: str | None = None,
    cpu: int = 1,
    *,
    queue: str = "",
    claim: str = "",
    volume: str = "",
    priority: int = 0,
    more: Mapping[str, Any] | None = None,
) -> Manifest:
    """A pod that runs on a node, or waits; `claim` is of the same namespace, `volume` a PersistentVolumeClaim."""
    labels = {"moorage.dev/queue": queue} if queue else {}
    spec: Manifest = {
        "schedulerName": "default-scheduler",
        "priority": priority,
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    if claim:
        spec["resourceClaims"] = [{"name": "device", "resourceClaimName": claim}]
    if volume:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": volume}}]
    metadata = _named(name, **{"labels": labels, **(more or {})})
    if on is None:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    status = {"phase": "Running", "startTime": metadata["creationTimestamp"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": on}, "status": status}


def device_class() -> Manifest:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def devices(on: str, *names: str, model: str = "any") -> Manifest:
    """The slice of a node."""
    found = [{"name": name, "attributes": {"model": {"string": model}}} for name in names]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": found}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-gpus"},
        "spec": spec,
    }


def claim(name: str, *, user: str = "", device: str = "", model: str = "") -> Manifest:
    """A claim for one device, made for the pod `user`; with `device`, `node/name`, it holds that for the pod."""
    exactly: Manifest = {"deviceClassName": "gpu"}
    if model:
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}]
    found: Manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _named(name),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    if user:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": user, "uid": f"uid-{user}", "controller": True}
        found["metadata"]["ownerReferences"] = [owner]
    if device:
        pool, _, held = device.partition("/")
        fields = [{"key": "metadata.name", "operator": "In", "values": [pool]}]
        found["status"] = {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": pool, "device": held}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            },
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"}],
        }
    return found


def local_volume(name: str, on: str) -> Manifest:
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}]
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    status = {"phase": "Available"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": status}


def local_class() -> Manifest:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    return {**head, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}


def volume_claim(name: str) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _named(name), "spec": spec}


def _named(name: str, **more: Any) -> Manifest:
    head = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**head, **more}
