"""A placement strategy kept true on the real API server: up, down, and after a node is lost.

`drill(plane, way, folder)` plays it and returns figures; `python -m tests.app.strategy_drill` plays both ways in full
and prints them. kube-controller-manager runs the workloads, kubelets are played, everything of Moorage is a process of
its own:

- `SCHEDULER`: `moorage scheduler` with the plugin PlacementStrategy, and `moorage keeper`; the split must be exact;
- `WEBHOOK`: a stock kube-scheduler, `moorage webhook` and `moorage keeper`; the split must be right within one pod.

After each step the split must be right within 60 s, and stay so. The full course ends with a rollout and with another
strategy for the pods that run, which the keeper has to move under a budget that allows one to be missing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletThread, kubelet_thread
from moorage.bench.virtualnodes import VirtualNode
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy, targets
from moorage.engine.keeping.deletion_costs import COST
from tests.app.spot_drill import Witness, eventually, make_budget, running, witnessing
from tests.app.webhook_process import webhook

STRATEGY = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
ANOTHER = "base=1,weight=2,nodeSelector=node-type:ondemand;weight=1,nodeSelector=node-type:spot"
KEY = STRATEGY_ANNOTATIONS[1]
KINDS = ("ondemand", "spot")
WITHIN_S = 60.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 500, burst: 1000}
profiles:
- schedulerName: moorage
  plugins: {multiPoint: {enabled: [{name: PlacementStrategy}]}}
"""


class Way(StrEnum):
    """Who places the pods."""

    SCHEDULER = "scheduler"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Course:
    """How long the drill is."""

    replicas: tuple[int, ...] = (6, 20, 7, 3)
    stays_s: float = 5.0
    """So long after a step the split must not change any more."""
    finale: int = 0
    """At the end, scale to so many, change the template, and change the strategy; 0: no such steps."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step came to."""

    what: str
    target: tuple[int, ...]
    actual: tuple[int, ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What the drill came to."""

    way: str
    steps: list[Step] = field(default_factory=list)
    cost_writes: int = 0
    evictions: int = 0
    pods_made: int = 0


class Drill:
    """One drill on its way."""

    def __init__(self, plane: ControlPlane, way: Way, course: Course, kubelet: KubeletThread, witness: Witness) -> None:
        self.plane = plane
        self.way = way
        self.course = course
        self.kubelet = kubelet
        self.witness = witness
        self.strategy = parse_strategy(STRATEGY)
        self.steps: list[Step] = []

    def set_the_stage(self) -> None:
        """Nodes, and a Deployment without pods."""
        names = [f"{kind}-{number}" for kind in KINDS for number in range(4)]
        self.kubelet.add_nodes(_node(name) for name in names)
        for path, body in ((DEPLOYMENTS, _deployment("web", self.way)), (BUDGETS, make_budget("web"))):
            answer = self.plane.request("POST", path, body)
            assert answer.status == 201, answer.content

    def play(self) -> None:
        """Every step in turn."""
        for replicas in self.course.replicas:
            self.scale(replicas)
        self.lose_a_node()
        if self.course.finale:
            self.scale(self.course.finale)
            self.roll_out()
            self.change_the_strategy()

    def scale(self, replicas: int) -> None:
        """Ask for so many pods."""
        self._patch({"spec": {"replicas": replicas}})
        self._settle(f"scaled to {replicas}", replicas)

    def lose_a_node(self) -> None:
        """Delete the object of the spot node that has most pods."""
        where = self.witness.where()
        name = max((node for node in where if node.startswith("spot-")), key=lambda node: where[node])
        self.kubelet.remove_nodes([name])
        self._settle(f"node lost with {where[name]} of its pods", sum(where.values()), lost=name)

    def roll_out(self) -> None:
        """Change the template: every pod is replaced."""
        replicas = sum(self.witness.where().values())
        old = {*self.witness.pods}
        self._patch({"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}})
        self._settle("rolled out", replicas, old=old)

    def change_the_strategy(self) -> None:
        """The pods that run have to move, one at a time."""
        replicas = sum(self.witness.where().values())
        eventually(self._budget_allows_one, WITHIN_S, lambda: "the budget allows one")
        self.witness.begin()
        self.strategy = parse_strategy(ANOTHER)
        self._patch({"metadata": {"annotations": {KEY: ANOTHER}}})
        self._settle("changed to 2 to 1", replicas, exact=True)
        assert self.witness.least["web"] >= replicas - 1, "more than one was missing"

    def _budget_allows_one(self) -> bool:
        budget = self.plane.request("GET", f"{BUDGETS}/web").json()
        return bool(budget.get("status", {}).get("disruptionsAllowed") == 1)

    def split(self, lost: str = "") -> tuple[int, ...]:
        """Healthy pods by kind of node; those on a node that was lost are not."""
        where = self.witness.where()
        where.pop(lost, None)
        return tuple(sum(n for node, n in where.items() if node.startswith(kind)) for kind in KINDS)

    def _settle(
        self, what: str, replicas: int, *, lost: str = "", old: AbstractSet[str] = frozenset(), exact: bool = False
    ) -> None:
        """Wait for the split to be right, and see that it stays so, with no pod too many and none of the old ones."""
        most_off = 0 if exact or self.way is Way.SCHEDULER else 1
        target = targets(self.strategy, replicas)

        def right() -> bool:
            close = _is_close(self.split(lost), target, most_off)
            return close and self._live() == replicas and old.isdisjoint(self.witness.pods)

        took_s = eventually(right, WITHIN_S, lambda: f"{what}: {self.split(lost)}, wanted {target}, {self._told()}")
        end_s = time.monotonic() + self.course.stays_s
        while time.monotonic() < end_s:
            assert right(), f"{what}: it was right and is {self.split(lost)}, wanted {target}"
            time.sleep(0.05)
        self.steps.append(Step(what, target, self.split(lost), round(took_s, 1)))

    def _live(self) -> int:
        return sum("deletionTimestamp" not in pod["metadata"] for pod in [*self.witness.pods.values()])

    def _told(self) -> dict[str, Any]:
        return {
            pod["metadata"]["name"]: (pod["spec"].get("nodeName"), pod["metadata"].get("annotations", {}).get(COST))
            for pod in [*self.witness.pods.values()]
        }

    def _patch(self, patch: dict[str, Any]) -> None:
        answer = self.plane.request("PATCH", f"{DEPLOYMENTS}/web", patch)
        assert answer.status == 200, answer.content


def _is_close(split: tuple[int, ...], target: tuple[int, ...], most_off: int) -> bool:
    off = max(abs(has - wants) for has, wants in zip(split, target, strict=True))
    return sum(split) == sum(target) and off <= most_off


def _node(name: str) -> VirtualNode:
    labels = {"node-type": name.partition("-")[0]}
    return VirtualNode(name=name, capacity={"cpu": "8", "memory": "32Gi", "pods": "110"}, labels=labels)


def _deployment(name: str, way: Way) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": "250m"}}}
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    if way is Way.SCHEDULER:
        spec["schedulerName"] = "moorage"
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {KEY: STRATEGY}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def drill(plane: ControlPlane, way: Way, folder: Path, course: Course | None = None) -> Figures:
    """Play it; AssertionError where something does not happen in time, or does not stay."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    with ExitStack() as stack:
        witness = stack.enter_context(witnessing(plane))
        kubelet = stack.enter_context(kubelet_thread(plane.admin_kubeconfig))
        if way is Way.SCHEDULER:
            stack.enter_context(running(plane, folder, "scheduler", "--config", str(config), "--secure-port", "0"))
        else:
            plane.start_scheduler()
            stack.enter_context(webhook(plane, folder / "webhook"))
        keeper = ("keeper", "--config", str(config), "--metrics-listen", "", "--health-listen", "")
        stack.enter_context(running(plane, folder, *keeper))
        play = Drill(plane, way, course or Course(), kubelet, witness)
        eventually(lambda: "keeping" in (folder / "keeper.log").read_text(), 60, lambda: "the keeper keeps")
        play.set_the_stage()
        play.play()
        log = (folder / "keeper.log").read_text()
        return Figures(way.value, play.steps, log.count("the deletion cost"), log.count("evict pod"), len(witness.made))


def main() -> None:
    """Play both ways in full and print the figures as JSON."""
    chosen = [Way(word) for word in sys.argv[1:]] or [*Way]
    for way in chosen:
        with tempfile.TemporaryDirectory() as folder, ControlPlane.start() as plane:
            plane.start_controller_manager()
            figures = drill(plane, way, Path(folder), Course(finale=10))
            sys.stdout.write(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
