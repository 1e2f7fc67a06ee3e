"""`moorage scheduler` and claims on the real API server; the test plays the volume controllers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import serves
from tests.patience import eventually

SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLASSES, DEVICES = (
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
)


def make(plane: ControlPlane, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content
    made: dict[str, Any] = answer.json()
    if "status" in body:
        name = made["metadata"]["name"]
        answer = plane.request("PUT", f"{path}/{name}/status", {**made, "status": body["status"]})
        assert answer.status == 200, answer.content
        made = answer.json()
    return made


def get(plane: ControlPlane, path: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.request("GET", path).json()
    return found


@contextmanager
def scheduler(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[None]:
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", *arguments]
    command += ["--kubeconfig", str(plane.scheduler_kubeconfig)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with one node and two classes, cleared of storage objects afterwards."""
    plane = empty_control_plane
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"kubernetes.io/hostname": "n1"}
    make(plane, "/api/v1/nodes", {"kind": "Node", "metadata": {"name": "n1", "labels": labels}, "status": status})
    for name, provisioner in (("wait", "disk.example"), ("static", "kubernetes.io/no-provisioner")):
        mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        make(plane, CLASSES, {"kind": "StorageClass", "metadata": {"name": name}, **mode})
    yield plane
    for path in (CLAIMS, VOLUMES, CLASSES, *([DEVICES] if serves(1, 34) else [])):
        for item in get(plane, path)["items"]:
            where = f"{path}/{item['metadata']['name']}"
            plane.request("PATCH", where, {"metadata": {"finalizers": None}})
            plane.request("DELETE", where, {"gracePeriodSeconds": 0})


def make_claim(plane: ControlPlane, name: str, storage_class: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec | {"storageClassName": storage_class},
    }
    return make(plane, CLAIMS, body)


def make_volume(plane: ControlPlane, name: str, claim: dict[str, Any] | None = None) -> None:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "static" if claim is None else claim["spec"]["storageClassName"],
        "hostPath": {"path": "/d"},
    }
    if claim is not None:
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            **{k: claim["metadata"][k] for k in ("namespace", "name", "uid")},
        }
    phase = {"phase": "Available" if claim is None else "Bound"}
    make(plane, VOLUMES, {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": phase})


def make_pod(plane: ControlPlane, name: str, **spec: Any) -> None:
    container = {"name": "c", "image": "registry.example/app:v1"}
    body = {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "moorage", "containers": [container], **spec},
    }
    make(plane, "/api/v1/namespaces/default/pods", body)


def bind_claim(plane: ControlPlane, name: str, volume: str) -> None:
    """What the volume controller does last."""
    patch = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}}
    answer = plane.request("PATCH", f"{CLAIMS}/{name}", patch)
    assert answer.status == 200, answer.content


def selected_node(plane: ControlPlane, name: str) -> str | None:
    found: str | None = get(plane, f"{CLAIMS}/{name}")["metadata"].get("annotations", {}).get(SELECTED_NODE)
    return found


def node_of(plane: ControlPlane, name: str) -> str | None:
    node: str | None = get(plane, f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName")
    return node


def uses(name: str) -> list[dict[str, Any]]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def test_a_volume_is_provisioned_for_the_chosen_node(plane: ControlPlane, tmp_path: Path) -> None:
    """The claim gets the node's name; the pod is bound when the claim is, not before."""
    claim = make_claim(plane, "c", "wait")
    make_pod(plane, "p", volumes=uses("c"))
    with scheduler(plane, tmp_path / "log"):
        eventually(lambda: selected_node(plane, "c") == "n1", 30, "the claim names the node")
        assert node_of(plane, "p") is None
        make_volume(plane, "made", claim)
        bind_claim(plane, "c", "made")
        eventually(lambda: node_of(plane, "p") == "n1", 15, "the pod is bound")


def test_a_static_volume_is_reserved_for_the_claim(plane: ControlPlane, tmp_path: Path) -> None:
    """The volume points at the claim as the volume controller would write it."""
    claim = make_claim(plane, "c", "static")
    make_volume(plane, "v")
    make_pod(plane, "p", volumes=uses("c"))
    with scheduler(plane, tmp_path / "log"):
        eventually(lambda: get(plane, f"{VOLUMES}/v")["spec"].get("claimRef"), 30, "the volume points at the claim")
        volume = get(plane, f"{VOLUMES}/v")
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert node_of(plane, "p") is None
        bind_claim(plane, "c", "v")
        eventually(lambda: node_of(plane, "p") == "n1", 15, "the pod is bound")


@pytest.mark.since(1, 34, "ResourceClaims")
def test_a_device_claim_names_its_pods(plane: ControlPlane, tmp_path: Path) -> None:
    """Two pods share an allocated claim; it lists both. A pod whose claim cannot be allocated waits."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpus"}}
    spec = {"devices": {"requests": [request]}}
    result = {"request": "r", "driver": "gpu.example", "pool": "p", "device": "d"}
    allocation = {"devices": {"results": [result]}}
    for name, status in (("gpu", {"allocation": allocation}), ("bare", {})):
        make(plane, DEVICES, {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec, "status": status})
    for name, claim in (("a", "gpu"), ("b", "gpu"), ("c", "bare")):
        make_pod(plane, name, resourceClaims=[{"name": "d", "resourceClaimName": claim}])
    with scheduler(plane, tmp_path / "log"):
        eventually(lambda: node_of(plane, "a") and node_of(plane, "b"), 30, "the pods are bound")
        reserved = get(plane, f"{DEVICES}/gpu")["status"]["reservedFor"]
        assert sorted(consumer["name"] for consumer in reserved) == ["a", "b"]
        assert node_of(plane, "c") is None
        conditions = get(plane, "/api/v1/namespaces/default/pods/c")["status"]["conditions"]
        assert "device class gpus does not exist" in conditions[0]["message"]


def test_a_dry_run_decides_on_pods_whose_claims_nobody_binds(plane: ControlPlane, tmp_path: Path) -> None:
    """Nothing is written, so it waits for no volume controller either; each pod has a volume of its own."""
    make_volume(plane, "v")
    for number in range(2):
        make_claim(plane, f"c{number}", "static")
        make_pod(plane, f"p{number}", volumes=uses(f"c{number}"))
    log = tmp_path / "log"
    with scheduler(plane, log, "--dry-run"):
        eventually(lambda: "no fit" in log.read_text(), 30, "a pod without a volume is told of")
        eventually(lambda: "Attempting to bind" in log.read_text(), 15, "a pod would be bound")
        assert log.read_text().count("Attempting to bind") == 1
        assert not get(plane, f"{VOLUMES}/v")["spec"].get("claimRef")


def test_a_dry_run_evicts_nobody(plane: ControlPlane, tmp_path: Path) -> None:
    """The victim is told of once and keeps its room, however often the watch shows it; nobody else gets that either."""
    pods = "/api/v1/namespaces/default/pods"
    make(plane, PRIORITIES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    try:
        full = {"resources": {"requests": {"cpu": "4"}}, "name": "c", "image": "registry.example/app:v1"}
        make_pod(plane, "victim", nodeName="n1", containers=[full])
        make_pod(plane, "preemptor", priorityClassName="high", containers=[full])
        log = tmp_path / "log"
        with scheduler(plane, log, "--dry-run"):
            eventually(lambda: "Evicting pod" in log.read_text(), 30, "the eviction is told of")
            for number in range(3):
                plane.request("PATCH", f"{pods}/victim", {"metadata": {"annotations": {"beat": str(number)}}})
            make_pod(plane, "late", containers=[full])
            eventually(lambda: "default/late" in log.read_text(), 15, "the late one does not fit")
            assert "Attempting to bind" not in log.read_text()
            plane.request("DELETE", f"{pods}/victim", {"gracePeriodSeconds": 0})
            eventually(lambda: "Attempting to bind" in log.read_text(), 15, "the room is the preemptor's")
        text = log.read_text()
        assert text.count("Evicting pod") == 1
        assert [
            line for line in text.splitlines() if "Attempting to bind" in line and "default/preemptor" not in line
        ] == []
    finally:
        plane.request("DELETE", f"{PRIORITIES}/high", {})
