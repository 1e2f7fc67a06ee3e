"""A cluster in the making: what capabilities add to, one after the other.

A few workloads are there from the start; a capability marks some of them and gives their pods what it is about. Two
capabilities that have marked the same workload meet in the same pods.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.crossings.bodies import BLOCK, NAMESPACE, RACK, SCHEDULER, ZONE, Body, body, node, pod_spec

SCALED = ("Deployment", "ReplicaSet", "StatefulSet")
SHARE = 0.65
"""Of the workloads that a capability could mark."""


@dataclass
class Workload:
    """Pods that are alike, and who makes them."""

    name: str
    size: int
    at_s: float
    kind: str = "ReplicaSet"
    namespace: str = NAMESPACE
    template: Body = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    """Of the owner."""
    claims: list[Body] = field(default_factory=list)
    """volumeClaimTemplates of a StatefulSet."""
    marks: list[str] = field(default_factory=list)
    """The capabilities that it has."""
    least: int = 0
    """Of a gang: how many must be together."""
    each: list[Callable[[Body, int], None]] = field(default_factory=list)
    """What is done to every pod that nobody owns, by its number."""
    finish: list[Callable[[], None]] = field(default_factory=list)
    """What is done when all capabilities are there: sizes and namespaces are known then."""

    @property
    def labels(self) -> dict[str, str]:
        """Of the pods."""
        found: dict[str, str] = self.template["metadata"]["labels"]
        return found

    @property
    def notes(self) -> dict[str, str]:
        """Annotations of the pods."""
        found: dict[str, str] = self.template["metadata"]["annotations"]
        return found

    @property
    def spec(self) -> Body:
        """Of the pods."""
        found: Body = self.template["spec"]
        return found

    def bodies(self) -> list[Body]:
        """The objects that make up the workload."""
        if self.kind == "Pod":
            return [self._pod(number) for number in range(self.size)]
        spec: Body = {"selector": {"matchLabels": {"app": self.name}}, "template": deepcopy(self.template)}
        if self.kind == "Job":
            spec = {"parallelism": self.size, "completions": self.size, "template": deepcopy(self.template)}
            spec["template"]["spec"]["restartPolicy"] = "Never"
        else:
            spec["replicas"] = self.size
        if self.kind == "StatefulSet":
            spec |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
            if self.claims:
                spec["volumeClaimTemplates"] = deepcopy(self.claims)
        version = "batch/v1" if self.kind == "Job" else "apps/v1"
        metadata = {"labels": {"app": self.name}, "annotations": dict(self.annotations)}
        return [body(version, self.kind, self.name, self.namespace, metadata=metadata, spec=spec)]

    def _pod(self, number: int) -> Body:
        template = deepcopy(self.template)
        name = f"{self.name}-{number}"
        made = body("v1", "Pod", name, self.namespace, metadata=template["metadata"], spec=template["spec"])
        for change in self.each:
            change(made, number)
        return made


class Sketch:
    """Everything a world will consist of."""

    def __init__(self, draw: Random) -> None:
        self.nodes: list[Body] = []
        self.objects: list[Body] = []
        self.workloads: list[Workload] = []
        self.script: list[Body] = []
        self.enabled: list[Body] = []
        """Plugins of the profile, at all their points."""
        self.disabled: list[str] = []
        self.arguments: dict[str, Body] = {}
        self.documents: list[Body] = []
        """Other documents of the configuration."""
        self.extenders: list[Body] = []
        self.finish: list[Callable[[], None]] = []
        self.terms: dict[str, Any] = {"start_s": 0.5, "stop_s": draw.choice([0.0, 1.0, 1.0, 4.0]), "late_s": 0.0}
        self.configure("GangScheduling", reserveAfterSeconds=20, reserveForSeconds=30)
        self._begin(draw)

    def _begin(self, draw: Random) -> None:
        for number in range(draw.randint(2, 4)):
            labels = {ZONE: f"z{number % 2}", BLOCK: "b0", RACK: f"r{number // 2}"}
            self.nodes.append(node(f"n{number}", cpu=draw.choice([2, 4, 4]), labels=labels))
        at_s = 0.0
        for number in range(draw.randint(4, 6)):
            name = f"w{number}"
            template: Body = {"metadata": {"labels": {"app": name}, "annotations": {}}, "spec": pod_spec("1")}
            if draw.random() < 0.3:
                template["spec"] = pod_spec("2")
            self.workloads.append(Workload(name, draw.randint(1, 5), at_s, template=template))
            at_s += draw.choice([0.0, 0.3, 15.0, 15.0, 500.0])

    def mark(
        self,
        name: str,
        draw: Random,
        wanted: Callable[[Workload], bool] = lambda _: True,
        *,
        most: int = 99,
        share: float = SHARE,
    ) -> list[Workload]:
        """Workloads that a capability is for, at least one where there is any; they carry its mark from now on."""
        able = [each for each in self.workloads if wanted(each)]
        chosen = [each for each in able if draw.random() < share] or able[-1:]
        for each in chosen[:most]:
            each.marks.append(name)
        return chosen[:most]

    def plugin(self, name: str, **arguments: Any) -> None:
        """Enable a plugin of the profile, with arguments."""
        if not any(each["name"] == name for each in self.enabled):
            self.enabled.append({"name": name})
        self.configure(name, **arguments)

    def configure(self, name: str, **arguments: Any) -> None:
        """Arguments of a plugin."""
        if arguments:
            self.arguments.setdefault(name, {}).update(arguments)

    def deed(self, at_s: float, do: str, **what: Any) -> None:
        """Something that happens."""
        self.script.append({"at": round(at_s, 3), "do": do, **what})

    def document(self, kind: str, **about: Any) -> None:
        """A document of the configuration, or more about one that is there."""
        for each in self.documents:
            if each["kind"] == kind:
                each.update(about)
                return
        self.documents.append({"apiVersion": "moorage.dev/v1alpha1", "kind": kind, **about})

    def complete(self) -> None:
        """All capabilities are there: make what depends on several of them, and let the workloads arrive."""
        for change in [*self.finish, *(each for workload in self.workloads for each in workload.finish)]:
            change()
        arrivals = [
            {"at": each.at_s, "do": "create", "object": made} for each in self.workloads for made in each.bodies()
        ]
        self.script = sorted([*arrivals, *self.script], key=lambda deed: float(deed["at"]))

    @property
    def last_s(self) -> float:
        """When the last workload arrives."""
        return max((each.at_s for each in self.workloads), default=0.0)

    def some_time(self, draw: Random) -> float:
        """A moment after which something is still to come."""
        return round(draw.uniform(1.0, self.last_s + 30.0), 1)

    def configuration(self) -> list[Body]:
        """The documents of the configuration."""
        points: Body = {"enabled": self.enabled, "disabled": [{"name": name} for name in self.disabled]}
        arguments = [{"name": name, "args": given} for name, given in self.arguments.items()]
        profile = {"schedulerName": SCHEDULER, "plugins": {"multiPoint": points}, "pluginConfig": arguments}
        head: Body = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }
        if self.extenders:
            head["extenders"] = self.extenders
        return [head, *self.documents]
