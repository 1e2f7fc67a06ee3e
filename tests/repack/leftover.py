"""A cluster after most of a trace has ended: real sizes of nodes and pods, random survivors, as Kubernetes objects.

Nodes and pods are drawn from the openb trace. Pods are placed one after the other on the node with the most left, as
kube-scheduler's default does, until none fits; then random ones end until `used` of all GPUs is allocated. Survivors
with equal requests belong to ReplicaSets of at most `_LARGEST` pods, each with a budget that lets one pod go at a time.
A GPU is 1000 of one extended resource, so that every scheduler sees the same.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TRACE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "openb"
GPU = "example.com/gpu-milli"
NAMESPACE = "default"
NODES = 300
USED = 0.45
_LARGEST = 12
_PODS = 110
_REFUSED = 400
"""The cluster is full once so many pods in a row fit nowhere."""

KubeObject = dict[str, Any]


class Leftover(NamedTuple):
    """The objects of a cluster; pods have nodes, and their owners no uid yet."""

    nodes: list[KubeObject]
    owners: list[KubeObject]
    budgets: list[KubeObject]
    pods: list[KubeObject]

    def objects(self) -> list[KubeObject]:
        """All of them, with uids that fit together."""
        uids = {owner["metadata"]["name"]: f"uid-{owner['metadata']['name']}" for owner in self.owners}
        for owner in self.owners:
            owner["metadata"]["uid"] = uids[owner["metadata"]["name"]]
        for pod in self.pods:
            pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
        own(self, uids)
        return [*self.nodes, *self.owners, *self.budgets, *self.pods]


def own(cluster: Leftover, uids: dict[str, str]) -> None:
    """Write the uids of their owners on all pods."""
    for pod in cluster.pods:
        reference = pod["metadata"]["ownerReferences"][0]
        reference["uid"] = uids[reference["name"]]


def leftover(nodes: int = NODES, used: float = USED, seed: int = 1) -> Leftover:
    """The cluster of a seed."""
    lot = random.Random(seed)
    with (TRACE / "nodes.csv").open() as file:
        drawn = lot.sample([*csv.DictReader(file)], nodes)
    with (TRACE / "pods.csv").open() as file:
        tasks = [*csv.DictReader(file)]
    sizes = [(int(n["cpu_milli"]), int(n["memory_mib"]), 1000 * int(n["gpu"]), _PODS) for n in drawn]
    wants = [(int(p["cpu_milli"]), int(p["memory_mib"]), int(p["num_gpu"]) * int(p["gpu_milli"]), 1) for p in tasks]
    placed = [*_filled(np.array(sizes), wants, lot)]
    lot.shuffle(placed)
    all_gpus = sum(size[2] for size in sizes)
    while sum(want[2] for want, _ in placed) > used * all_gpus:
        placed.pop()
    return Leftover(
        [_node(f"node-{i:04d}", size) for i, size in enumerate(sizes)],
        *_workloads(sorted(placed)),
    )


Want = tuple[int, int, int, int]


def _filled(sizes: np.ndarray, wants: list[Want], lot: random.Random) -> Iterator[tuple[Want, int]]:
    """Pods and their nodes, until the cluster is full."""
    left, refused = sizes.copy(), 0
    most = np.maximum(sizes, 1)
    while refused < _REFUSED:
        want = lot.choice(wants)
        fits = (left >= np.array(want)).all(axis=1)
        refused = 0 if fits.any() else refused + 1
        if fits.any():
            share = (left / most)[:, :3].mean(axis=1)
            row = int(np.where(fits, share, -1.0).argmax())
            left[row] -= want
            yield want, row


def _node(name: str, size: Want) -> KubeObject:
    cpu, memory, gpus, pods = size
    have = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(pods), **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"capacity": have, "allocatable": have, "conditions": [{"type": "Ready", "status": "True"}]},
    }


class MadeWorkload(NamedTuple):
    """A ReplicaSet, its budget and its pods."""

    owner: KubeObject
    budget: KubeObject
    pods: list[KubeObject]


def workload(name: str, ask: dict[str, str], homes: list[str], scheduler: str = "default-scheduler") -> MadeWorkload:
    """Equal pods on these nodes; extended resources are limits, too."""
    resources: KubeObject = {"requests": ask}
    if GPU in ask:
        resources["limits"] = {GPU: ask[GPU]}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9", "resources": resources}
    spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
    pods = [_pod(name, number, spec, node) for number, node in enumerate(homes)]
    return MadeWorkload(_replica_set(name, len(homes), spec), _budget(name), pods)


def _workloads(placed: list[tuple[Want, int]]) -> tuple[list[KubeObject], list[KubeObject], list[KubeObject]]:
    found: list[MadeWorkload] = []
    start = 0
    while start < len(placed):
        want = placed[start][0]
        homes = [f"node-{row:04d}" for each, row in placed[start : start + _LARGEST] if each == want]
        found.append(workload(f"w{len(found):04d}", _ask(want), homes))
        start += len(homes)
    pods = [pod for each in found for pod in each.pods]
    return [each.owner for each in found], [each.budget for each in found], pods


def _ask(want: Want) -> dict[str, str]:
    cpu, memory, gpus, _ = want
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi", **({GPU: str(gpus)} if gpus else {})}


def _replica_set(name: str, replicas: int, spec: KubeObject) -> KubeObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def _budget(name: str) -> KubeObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    }


def _pod(owner: str, number: int, spec: KubeObject, node: str) -> KubeObject:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-{number}",
            "namespace": NAMESPACE,
            "labels": {"app": owner},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [reference],
        },
        "spec": {**spec, "nodeName": node},
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
        },
    }
