"""Claims are served as soon as they may be."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest
from moorage.adapters.memory.objects import KubeObject
from moorage.adapters.memory.volumes import DEFAULT_CLASS
from moorage.core.volumebinding import SELECTED_NODE

FAST = manifest("StorageClass", "fast", provisioner="disk.example", volumeBindingMode="Immediate")
WAIT = manifest("StorageClass", "wait", provisioner="disk.example", volumeBindingMode="WaitForFirstConsumer")
LOCAL = manifest("StorageClass", "local", provisioner="kubernetes.io/no-provisioner")
NODE = node_manifest("n1", zone="z1")
CSI_NODE = manifest(
    "CSINode", "n1", spec={"drivers": [{"name": "disk.example", "topologyKeys": ["topology.kubernetes.io/zone"]}]}
)


def claim(storage_class: str | None, size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        body["storageClassName"] = storage_class
    return manifest("PersistentVolumeClaim", "c", "default", spec=body)


def volume(name: str, size: str, storage_class: str = "local", **spec: Any) -> dict[str, Any]:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **spec}
    return manifest("PersistentVolume", name, spec=body)


def on_node(value: str) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def loaded(*objects: KubeObject) -> EmbeddedCluster:
    cluster = EmbeddedCluster(SIMULATION)
    cluster.load([NODE, CSI_NODE, FAST, WAIT, LOCAL, *objects])
    cluster.step()
    return cluster


def volume_of(cluster: EmbeddedCluster) -> str | None:
    """The volume of the claim `c`, checked from both sides; None while it is pending."""
    c = cluster.store.get("PersistentVolumeClaim", "default", "c")
    name = c["spec"].get("volumeName")
    if c["status"]["phase"] != "Bound":
        return None
    bound = cluster.store.get("PersistentVolume", "", name)
    assert bound["status"]["phase"] == "Bound"
    assert bound["spec"]["claimRef"]["uid"] == c["metadata"]["uid"]
    return str(name)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([claim("local")], None, id="nothing fits"),
        pytest.param([claim("local"), volume("big", "9Gi"), volume("snug", "1Gi")], "snug", id="smallest that fits"),
        pytest.param([claim("local", "5Gi"), volume("small", "1Gi")], None, id="too small"),
        pytest.param([claim("local"), volume("v", "1Gi", accessModes=["ReadOnlyMany"])], None, id="access modes"),
        pytest.param([claim("local"), volume("v", "1Gi", volumeMode="Block")], None, id="volume mode"),
        pytest.param([claim("local"), volume("v", "1Gi", "other")], None, id="another class"),
        pytest.param([claim("local", selector={"matchLabels": {"a": "b"}}), volume("v", "1Gi")], None, id="selector"),
        pytest.param([claim("local", volumeName="v"), volume("v", "1Gi")], "v", id="claim names the volume"),
        pytest.param(
            [claim("wait"), volume("v", "1Gi", "wait", claimRef={"namespace": "default", "name": "c"})],
            "v",
            id="volume names the claim",
        ),
        pytest.param([claim("wait")], None, id="waits for a consumer"),
        pytest.param([claim("unknown")], None, id="unknown class"),
    ],
)
def test_binding(objects: list[KubeObject], want: str | None) -> None:
    """The claim gets the volume that it should, or none."""
    assert volume_of(loaded(*objects)) == want


@pytest.mark.parametrize("storage_class", ["fast", None])
def test_provisioning(storage_class: str | None) -> None:
    """A class with a provisioner makes a volume; no class means the default one."""
    fast = {**FAST, "metadata": {"name": "default", "annotations": {DEFAULT_CLASS: "true"}}}
    assert str(volume_of(loaded(claim(storage_class), fast))).startswith("pvc-")


def test_the_chosen_node_ends_the_wait() -> None:
    """The volume is made where the driver can reach it from the node."""
    cluster = loaded(claim("wait"))
    chosen = {"metadata": {"annotations": {SELECTED_NODE: "n1"}}}
    cluster.patch("PersistentVolumeClaim", "default", "c", chosen)
    cluster.step()
    made = cluster.store.get("PersistentVolume", "", str(volume_of(cluster)))
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]


def test_a_static_volume_must_be_reachable_from_the_chosen_node() -> None:
    """Local volumes of other nodes are passed over."""
    far, near = (
        volume("far", "1Gi", "wait", nodeAffinity=on_node("n9")),
        volume("near", "2Gi", "wait", nodeAffinity=on_node("n1")),
    )
    cluster = loaded(claim("wait"), far, near)
    cluster.patch("PersistentVolumeClaim", "default", "c", {"metadata": {"annotations": {SELECTED_NODE: "n1"}}})
    cluster.step()
    assert volume_of(cluster) == "near"


def test_ephemeral_volumes_get_claims_that_go_with_the_pod() -> None:
    """Named `<pod>-<volume>` and owned by the pod."""
    ephemeral = {"volumeClaimTemplate": {"spec": claim("fast")["spec"]}}
    cluster = loaded(pod_manifest("a", volumes=[{"name": "scratch", "ephemeral": ephemeral}]))
    assert cluster.store.get("PersistentVolumeClaim", "default", "a-scratch")["status"]["phase"] == "Bound"
    cluster.delete("Pod", "default", "a")
    cluster.step()
    assert cluster.store.find("PersistentVolumeClaim", "default", "a-scratch") is None
