"""A cluster with scattered pods on the real API server: kubelets are played, everything else is real.

Pods are created on their nodes, with the ReplicaSets that own them; only then kube-controller-manager is started, so
that it finds everything in order. A witness sees every change of every pod, and so every budget that is broken.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletThread, kubelet_thread
from moorage.bench.virtualnodes import VirtualNode
from tests.app.spot_drill import Witness, witnessing
from tests.repack.leftover import NAMESPACE, Leftover, own

CONTROLLERS = "replicaset-controller,disruption-controller,garbage-collector-controller"
PACKING = {
    "scoringStrategy": {
        "type": "MostAllocated",
        "resources": [
            {"name": "cpu", "weight": 1},
            {"name": "memory", "weight": 1},
            {"name": "example.com/gpu-milli", "weight": 3},
        ],
    }
}
"""Arguments of NodeResourcesFit for a scheduler that packs."""
_WORKERS = 6
_TRIES = 5


def packing(scheduler: str) -> dict[str, Any]:
    """A configuration with a profile that packs, for kube-scheduler and Moorage alike."""
    disabled = [{"name": "NodeResourcesBalancedAllocation"}]
    profile = {
        "schedulerName": scheduler,
        "plugins": {"score": {"disabled": disabled}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": PACKING}],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 500, "burst": 1000},
        "profiles": [profile],
    }


class Harbour:
    """A cluster that was filled."""

    def __init__(self, plane: ControlPlane, kubelet: KubeletThread, witness: Witness) -> None:
        self.plane = plane
        self.kubelet = kubelet
        self.witness = witness
        self.replicas: dict[str, int] = {}
        self._known: set[str] = set()
        """Pods of the start."""

    def fill(self, cluster: Leftover) -> None:
        """Create everything and wait until every pod runs and every budget lets one go."""
        self.kubelet.add_nodes(_virtual(node) for node in cluster.nodes)
        uids = {}
        for made in self._all(cluster.owners, "/apis/apps/v1/namespaces/{}/replicasets"):
            uids[made["metadata"]["name"]] = made["metadata"]["uid"]
            self.replicas[made["metadata"]["name"]] = made["spec"]["replicas"]
        own(cluster, uids)
        self._all(cluster.pods, "/api/v1/namespaces/{}/pods")
        self._all(cluster.budgets, "/apis/policy/v1/namespaces/{}/poddisruptionbudgets")
        self.wait(lambda: self.healthy() == len(cluster.pods), 600, "every pod runs")
        self.plane.start_controller_manager(f"--controllers={CONTROLLERS}")
        self.wait(self._budgets_allow, 300, "every budget lets one go")
        assert self.healthy() == len(cluster.pods)
        self.witness.begin()
        self._known = {*self.witness.pods}

    def _all(self, bodies: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(_WORKERS) as pool:
            return [*pool.map(lambda body: self._create(path.format(NAMESPACE), body), bodies)]

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object; on a busy machine the server may answer too late, and have it nevertheless."""
        for _ in range(_TRIES):
            with suppress(OSError):
                answer = self.plane.request("POST", path, body)
                if answer.status == HTTPStatus.CONFLICT:
                    answer = self.plane.request("GET", f"{path}/{body['metadata']['name']}")
                assert answer.status in (HTTPStatus.OK, HTTPStatus.CREATED), answer.content
                made: dict[str, Any] = answer.json()
                return made
        raise AssertionError(f"the API server does not answer: {path}")

    def _budgets_allow(self) -> bool:
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
        items = self.plane.request("GET", path).json()["items"]
        return all(each.get("status", {}).get("disruptionsAllowed", 0) >= 1 for each in items)

    # --- what is seen ---

    def healthy(self) -> int:
        """Pods that run."""
        return sum(self.witness.where().values())

    def in_use(self) -> int:
        """Nodes with pods that run."""
        return len(+self.witness.where())

    def pending(self) -> int:
        """Pods without a node."""
        pods = [*self.witness.pods.values()]
        return sum(not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"] for pod in pods)

    @property
    def moved(self) -> int:
        """Pods that were created since the start: as many were evicted."""
        return len(self.witness.made - self._known)

    def broken(self) -> list[str]:
        """Workloads that had fewer healthy pods than their budget allows, at any moment."""
        least: Counter[str] = self.witness.least
        return [app for app, replicas in self.replicas.items() if least[app] < replicas - 1]

    def wait(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        """Until something holds."""
        began_s = time.monotonic()
        while not condition():
            took_s = time.monotonic() - began_s
            assert took_s < within_s, f"not within {within_s} s: {what}; {self.healthy()} pods on {self.in_use()} nodes"
            time.sleep(0.1)

    def rest(self, quiet_s: float, within_s: float) -> tuple[float, bool]:
        """Until no pod has come for a while: how long it took, without that while, and whether it ever came to that."""
        began_s = time.monotonic()
        seen, since_s = -1, began_s
        while time.monotonic() - since_s < quiet_s:
            if time.monotonic() - began_s > within_s:
                return within_s, False
            if self.moved != seen:
                seen, since_s = self.moved, time.monotonic()
            time.sleep(0.5)
        return since_s - began_s, True


def _virtual(node: dict[str, Any]) -> VirtualNode:
    return VirtualNode(
        name=node["metadata"]["name"], capacity=node["status"]["allocatable"], labels=node["metadata"]["labels"]
    )


@contextmanager
def harbour(plane: ControlPlane) -> Iterator[Harbour]:
    """With its witness and kubelets, for the length of the block."""
    with witnessing(plane) as witness, kubelet_thread(plane.admin_kubeconfig) as kubelet:
        yield Harbour(plane, kubelet, witness)
