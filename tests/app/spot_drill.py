"""The spot drill on the real API server: every spot node gets a notice at once, and nobody may notice.

`drill(plane, Size(...))` plays it and returns figures; `python -m tests.app.spot_drill` plays the full one (10 spot
nodes, 100 pods of 20 Deployments) and prints them. kube-controller-manager runs the ReplicaSet and disruption
controllers, `moorage scheduler` and `moorage keeper` are processes of their own, kubelets are played.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import PODS
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletThread, kubelet_thread
from moorage.bench.virtualnodes import VirtualNode
from moorage.engine.keeping import marks

CAPACITY = "node.kubernetes.io/capacity"
NOTICE_TAINT = "aws-node-termination-handler/spot-itn"
NOTICE_S = 120.0
CONTROLLERS = "deployment-controller,replicaset-controller,disruption-controller,garbage-collector-controller"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 500, burst: 1000}
profiles:
- schedulerName: moorage
  plugins: {multiPoint: {enabled: [{name: SpotPlacement, weight: 10}]}}
  pluginConfig: [{name: SpotPlacement, args: {singleReplica: Require}}]
---
apiVersion: moorage.dev/v1alpha1
kind: KeeperConfiguration
returnAfter: 5s
moveAgainAfter: 5s
returnsAtOnce: 10
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the drill is."""

    spot_nodes: int = 10
    apps: int = 20
    replicas: int = 5
    withdrawn: int = 2
    """So many nodes stay after all."""
    restart_keeper: bool = False
    """Kill the keeper in the middle of it and start another one."""

    @property
    def pods(self) -> int:
        """Pods of all Deployments."""
        return self.apps * self.replicas


@dataclass(frozen=True, slots=True)
class Figures:
    """What the drill came to."""

    pods: int
    moved_s: float
    """From the notice until every successor ran elsewhere."""
    returned_s: float
    """From the return of the capacity until every pod was back, `returnAfter` included."""
    least_healthy: int
    """The fewest healthy pods that a Deployment ever had."""
    budgets_broken: int
    made: int
    """Pods that were made in all; a pod that is moved once and returns once makes three."""
    evictions: dict[str, int]
    events: dict[str, int]


class Witness:
    """Sees every change of every pod, and remembers the worst moment of each Deployment."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.made: set[str] = set()
        self.least: Counter[str] = Counter()
        self.watching = False
        self._ready: Counter[str] = Counter()

    def replaced(self, objects: list[dict[str, Any]]) -> None:
        for obj in objects:
            self.upserted(obj)

    def upserted(self, obj: dict[str, Any]) -> None:
        self._put(obj["metadata"]["uid"], obj)

    def deleted(self, meta: ObjectMeta) -> None:
        self._put(meta.uid or "", None)

    def begin(self) -> None:
        """From now on every dip counts."""
        self.least = Counter(self._ready)
        self.watching = True

    def where(self) -> Counter[str]:
        """Node -> healthy pods."""
        return Counter(pod["spec"]["nodeName"] for pod in [*self.pods.values()] if _is_healthy(pod))

    def _put(self, uid: str, pod: dict[str, Any] | None) -> None:
        before = self.pods.pop(uid, None)
        if pod is not None:
            self.pods[uid] = pod
            self.made.add(uid)
        app = (pod or before or {}).get("metadata", {}).get("labels", {}).get("app", "")
        change = (pod is not None and _is_healthy(pod)) - (before is not None and _is_healthy(before))
        self._ready[app] += change
        if self.watching:
            self.least[app] = min(self.least[app], self._ready[app])


def _is_healthy(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


@contextmanager
def witnessing(plane: ControlPlane) -> Iterator[Witness]:
    """A witness on a watch of its own, in a thread."""
    witness, loop = Witness(), asyncio.new_event_loop()

    async def watch() -> None:
        async with KubeClient(load_credentials(str(plane.admin_kubeconfig))) as client:
            await Reflector(client, PODS, witness, parse=msgspec.json.decode, jitter=random.random).run()

    task = loop.create_task(watch())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])), daemon=True)
    thread.start()
    try:
        yield witness
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@contextmanager
def running(plane: ControlPlane, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Moorage as a process of its own; its log is in `folder`."""
    command = [sys.executable, "-m", "moorage", *arguments, "--kubeconfig", str(plane.admin_kubeconfig)]
    with (folder / f"{arguments[0]}.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(20)


def eventually(condition: Callable[[], bool], within_s: float, what: Callable[[], str]) -> float:
    """Wait for something; how long it took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, f"not within {within_s} s: {what()}"
        time.sleep(0.05)
    return time.monotonic() - began_s


class Drill:
    """One drill on its way."""

    def __init__(self, plane: ControlPlane, size: Size, kubelet: KubeletThread, witness: Witness) -> None:
        self.plane = plane
        self.size = size
        self.kubelet = kubelet
        self.witness = witness
        self.spot = [f"spot-{number:02}" for number in range(size.spot_nodes)]
        self.staying = self.spot[: size.withdrawn]
        self.going = self.spot[size.withdrawn :]

    def set_the_stage(self) -> None:
        """Nodes, Deployments and budgets; everybody runs on spot capacity, but for the one that must not."""
        on_demand = [f"od-{number}" for number in range(max(2, self.size.spot_nodes // 2))]
        self.kubelet.add_nodes(_node(name, "on-demand", "16") for name in on_demand)
        self.kubelet.add_nodes(_node(name, "spot", "4") for name in self.spot)
        for name, replicas in [*((f"app-{n:02}", self.size.replicas) for n in range(self.size.apps)), ("single", 1)]:
            self._create("/apis/apps/v1/namespaces/default/deployments", _deployment(name, replicas))
            self._create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", make_budget(name))
        self._wait_for(lambda: self.on_spot() == self.size.pods and self.elsewhere() == 1, 90, "everybody runs")
        self._wait_for(self._budgets_allow_one, 30, "every budget allows one")
        self.witness.begin()

    def notices(self, restart: Callable[[], None]) -> float:
        """All at once, some twice; until everybody runs elsewhere."""
        began_s = time.monotonic()
        with ThreadPoolExecutor(self.size.spot_nodes) as pool:
            list(pool.map(lambda name: self._taint(name, "first"), self.spot))
        self._wait_for(lambda: all(self._node(name)["spec"].get("unschedulable") for name in self.spot), 30, "cordons")
        for name in self.spot[-3:]:
            self._taint(name, "again")
            self._announce(name, "True")
        restart()
        self._wait_for(lambda: self.elsewhere() == self.size.pods + 1, NOTICE_S, "everybody has left")
        return time.monotonic() - began_s

    def withdrawal(self) -> None:
        """Some nodes stay after all: the keeper frees what it cordoned."""
        for name in self.staying:
            self._announce(name, "False")
            self._patch_node(name, {"spec": {"taints": None}})
        self._wait_for(lambda: all(_is_free(self._node(name)) for name in self.staying), 30, "freed nodes")
        assert all(self._node(name)["spec"].get("unschedulable") for name in self.going), "the others stay cordoned"

    def spot_return(self) -> float:
        """The machines go, others come, and all pods return."""
        self.kubelet.remove_nodes(self.going)
        self.kubelet.add_nodes(_node(name, "spot", "4") for name in self.going)
        return self._wait_for(lambda: self.on_spot() == self.size.pods, 180, "all pods are back on spot nodes")

    def on_spot(self) -> int:
        """Healthy pods on spot nodes."""
        return sum(number for node, number in self.witness.where().items() if node.startswith("spot-"))

    def elsewhere(self) -> int:
        """Healthy pods on other nodes."""
        return sum(number for node, number in self.witness.where().items() if not node.startswith("spot-"))

    def events(self) -> dict[str, int]:
        """Reason -> events of the keeper."""
        items = self.plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
        return dict(Counter(each["reason"] for each in items if each.get("reportingController") == "moorage-keeper"))

    def _budgets_allow_one(self) -> bool:
        budgets = self.plane.request("GET", "/apis/policy/v1/namespaces/default/poddisruptionbudgets").json()["items"]
        return all(each.get("status", {}).get("disruptionsAllowed") == 1 for each in budgets)

    def _wait_for(self, condition: Callable[[], bool], within_s: float, what: str) -> float:
        return eventually(condition, within_s, lambda: f"{what}; now {sorted(self.witness.where().items())}")

    def _create(self, path: str, body: dict[str, Any]) -> None:
        answer = self.plane.request("POST", path, body)
        assert answer.status == 201, answer.content

    def _node(self, name: str) -> dict[str, Any]:
        node: dict[str, Any] = self.plane.request("GET", f"/api/v1/nodes/{name}").json()
        return node

    def _taint(self, name: str, value: str) -> None:
        taint = {"key": NOTICE_TAINT, "value": value, "effect": "NoSchedule"}
        self._patch_node(name, {"spec": {"taints": [taint]}})

    def _patch_node(self, name: str, patch: dict[str, Any]) -> None:
        answer = self.plane.request("PATCH", f"/api/v1/nodes/{name}", patch)
        assert answer.status == 200, answer.content

    def _announce(self, name: str, status: str) -> None:
        """The same notice in Azure's words."""
        condition = {"type": "PreemptScheduled", "status": status, "reason": "Preempt"}
        others = [each for each in self._node(name)["status"]["conditions"] if each["type"] != condition["type"]]
        patch = {"status": {"conditions": [*others, condition]}}
        answer = self.plane.request("PATCH", f"/api/v1/nodes/{name}/status", patch)
        assert answer.status == 200, answer.content


def _node(name: str, capacity: str, cpu: str) -> VirtualNode:
    return VirtualNode(name=name, capacity={"cpu": cpu, "memory": "32Gi", "pods": "110"}, labels={CAPACITY: capacity})


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": "250m"}}}
    spec = {"schedulerName": "moorage", "terminationGracePeriodSeconds": 3, "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def make_budget(name: str) -> dict[str, Any]:
    """A budget that allows one pod of the app to be missing."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def _is_free(node: dict[str, Any]) -> bool:
    annotations = node["metadata"].get("annotations", {})
    return not node["spec"].get("unschedulable") and not {marks.CORDONED, marks.NOTICE} & set(annotations)


def _evictions(log: str) -> dict[str, int]:
    return dict(
        Counter(cause for line in log.splitlines() for cause in ("fallback", "return") if f"({cause});" in line)
    )


def drill(plane: ControlPlane, size: Size, folder: Path) -> Figures:
    """Play it; AssertionError where something does not happen in time."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    keeper = ("keeper", "--config", str(config), "--metrics-listen", "", "--health-listen", "")
    with ExitStack() as stack:
        witness = stack.enter_context(witnessing(plane))
        kubelet = stack.enter_context(kubelet_thread(plane.admin_kubeconfig))
        stack.enter_context(running(plane, folder, "scheduler", "--config", str(config), "--secure-port", "0"))
        process = stack.enter_context(running(plane, folder, *keeper))
        play = Drill(plane, size, kubelet, witness)

        def restart() -> None:
            if size.restart_keeper:
                process.kill()
                process.wait(20)
                stack.enter_context(running(plane, folder, *keeper))

        play.set_the_stage()
        moved_s = play.notices(restart)
        play.withdrawal()
        returned_s = play.spot_return()
        least = {app: number for app, number in witness.least.items() if app.startswith("app-")}
        return Figures(
            pods=size.pods,
            moved_s=round(moved_s, 1),
            returned_s=round(returned_s, 1),
            least_healthy=min(least.values()),
            budgets_broken=sum(number < size.replicas - 1 for number in least.values()),
            made=len(witness.made),
            evictions=_evictions((folder / "keeper.log").read_text()),
            events=play.events(),
        )


def main() -> None:
    """Play the full drill and print its figures as JSON."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start() as plane:
        plane.start_controller_manager(f"--controllers={CONTROLLERS}")
        sys.stdout.write(json.dumps(asdict(drill(plane, Size(), Path(folder))), indent=2) + "\n")


if __name__ == "__main__":
    main()
