"""Pods with claims from the first decision to the bind, with the simulator's volume controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.inputs import read_cluster
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules, simulate
from moorage.wire.manifests import parse_manifests

WAIT = manifest("StorageClass", "wait", provisioner="disk.example", volumeBindingMode="WaitForFirstConsumer")
LOCAL = manifest(
    "StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
)
NODES = [node_manifest(f"n{number}") for number in (1, 2, 3)]


def run(objects: Iterable[Any]) -> SimulationOutcome:
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    profiles = build_profiles(Configuration(profiles=(ProfileConfiguration("moorage"),)), Registry(BUILTIN))
    return simulate(
        read_cluster(parse_manifests("c.json", msgspec.json.encode(body))),
        SimulationRules(profiles, answers_to_all=True),
    )


def claim(name: str, storage_class: str, size: str = "1Gi") -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": storage_class,
    }
    return manifest("PersistentVolumeClaim", name, "default", spec=spec)


def local_volume(name: str, node: str) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return manifest("PersistentVolume", name, spec=spec, status={"phase": "Available"})


def pod_with(name: str, *claims: str) -> dict[str, Any]:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": each}} for i, each in enumerate(claims)]
    body = pod_manifest(name)
    return {**body, "spec": {**body["spec"], "volumes": volumes}}


def places(outcome: SimulationOutcome) -> dict[str, str | None]:
    return {story.name: story.node for story in outcome.pods}


def test_pods_share_out_local_volumes() -> None:
    """Two volumes, three pods: each volume goes to one pod, and the third says what it lacks."""
    objects = [LOCAL, *NODES, local_volume("v1", "n1"), local_volume("v2", "n2")]
    names = ["a", "b", "c"]
    objects += [claim(f"c-{name}", "local") for name in names]
    objects += [pod_with(name, f"c-{name}") for name in names]
    outcome = run(objects)
    assert sorted(filter(None, places(outcome).values())) == ["n1", "n2"]
    (waiting,) = (story for story in outcome.pods if story.node is None)
    assert (waiting.message or "").startswith(
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    )


def test_pods_that_share_a_new_claim_end_on_one_node() -> None:
    """The claim is provisioned for the node of the first one; nobody is bound before it is."""
    drivers = [
        manifest(
            "CSINode", f"n{n}", spec={"drivers": [{"name": "disk.example", "topologyKeys": ["kubernetes.io/hostname"]}]}
        )
        for n in (1, 2, 3)
    ]
    pods = [pod_with("a", "shared"), pod_with("b", "shared")]
    found = places(run([WAIT, *NODES, *drivers, claim("shared", "wait"), *pods]))
    assert found["a"] is not None
    assert found["a"] == found["b"]


def test_a_claim_that_nobody_can_serve_keeps_its_pod_waiting() -> None:
    """The first refusal names the claim; its tail is kube-scheduler's."""
    outcome = run([*NODES, pod_with("a", "missing")])
    (story,) = outcome.pods
    assert story.node is None
    assert story.message == '0/3 nodes are available: persistentvolumeclaim "missing" not found. not found'


def test_device_claims_are_reserved_before_the_pod_is_bound() -> None:
    """An allocated claim takes its pod to its node; one that asks for devices of an unknown class keeps it waiting."""
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
    allocated = manifest(
        "ResourceClaim",
        "gpu",
        "default",
        apiVersion="resource.k8s.io/v1",
        spec={},
        status={"allocation": {"nodeSelector": selector}},
    )
    gpu = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    bare = manifest("ResourceClaim", "bare", "default", apiVersion="resource.k8s.io/v1", spec=gpu)
    pods = []
    for name, wanted in (("a", "gpu"), ("b", "gpu"), ("c", "bare")):
        body = pod_manifest(name)
        pods.append({**body, "spec": {**body["spec"], "resourceClaims": [{"name": "d", "resourceClaimName": wanted}]}})
    outcome = run([*NODES, allocated, bare, *pods])
    assert places(outcome) == {"a": "n2", "b": "n2", "c": None}
    (waiting,) = (story for story in outcome.pods if story.name == "c")
    assert "request r: device class gpu does not exist" in (waiting.message or "")
