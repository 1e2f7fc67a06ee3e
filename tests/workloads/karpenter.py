"""The real Karpenter with its kwok provider: its program and CRDs, one node pool, and what makes nodes ready."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.controlplane.others import documents, module_folder, program
from tests.patience import eventually
from tests.workloads.managers import create

SOURCE, MODULE = "karpenter", "sigs.k8s.io/karpenter"
INSTANCE = "c-4x-amd64-linux"
"""The only kind of machine in the pool: 4 cpu."""
POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/api/v1/nodes"
NOT_READY = "node.kubernetes.io/not-ready"
PATIENCE_S = 300
_LOOK_S = 0.2


@contextmanager
def karpenter(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Karpenter in a process of its own, with one node pool."""
    binary, module = program(SOURCE, "karpenter", f"{MODULE}/kwok"), module_folder(SOURCE, MODULE)
    for document in documents(
        *sorted((module / "kwok/charts/crds").glob("*.yaml")), *(module / "kwok/apis/crds").glob("*.yaml")
    ):
        create(plane, CRDS, document)
    for path in (POOLS, CLAIMS, CLASSES):
        eventually(lambda path=path: plane.request("GET", path).status == 200, PATIENCE_S, path)  # type: ignore[misc]
    create(
        plane,
        CLASSES,
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
    )
    create(plane, POOLS, pool())
    metrics, health = free_ports(2)
    environ = {
        **os.environ,
        "KUBECONFIG": str(plane.admin_kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "SYSTEM_NAMESPACE": "kube-system",
    }
    done = threading.Event()
    kubelet = threading.Thread(target=keep_ready, args=(plane, done))
    log = (folder / "karpenter.log").open("ab")
    with log, subprocess.Popen([str(binary)], env=environ, stdout=log, stderr=log) as child:
        kubelet.start()
        try:
            yield
        finally:
            done.set()
            kubelet.join()
            child.terminate()
            child.wait(30)


def pool() -> dict[str, Any]:
    """A NodePool with one instance type."""
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [INSTANCE]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    spec = {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "Never"}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"}}
    return body | {"spec": {"template": {"spec": spec}, "disruption": disruption}}


def machines(plane: ControlPlane) -> list[dict[str, Any]]:
    """The nodes that Karpenter has added."""
    nodes = plane.request("GET", NODES).json()["items"]
    return [node for node in nodes if node["spec"].get("providerID", "").startswith("kwok://")]


def keep_ready(plane: ControlPlane, done: threading.Event) -> None:
    """What kwok does, and on real machines the kubelet: nodes become ready."""
    while not done.wait(_LOOK_S):
        for node in machines(plane):
            path = f"{NODES}/{node['metadata']['name']}"
            conditions = node["status"].get("conditions", [])
            if not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
                plane.request("PUT", f"{path}/status", node | {"status": node["status"] | {"conditions": ready}})
                continue
            taints = node["spec"].get("taints", [])
            kept = [each for each in taints if each["key"] != NOT_READY]
            if kept != taints:
                plane.request("PUT", path, node | {"spec": node["spec"] | {"taints": kept}})
