"""What the API server holds at one moment, as JSON, and what can be read from it. Shares no code with Moorage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

_SUFFIXES = {"m": 0.001, "": 1.0, "Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3}
_READY = "Ready"


@dataclass(frozen=True, slots=True)
class Scene:
    """The nodes and the workloads of a cell, its pods and what was said about them."""

    nodes: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()

    def living(self) -> Iterator[Object]:
        """Pods that are not on their way out and have not ended."""
        return (pod for pod in self.pods if not is_leaving(pod) and phase(pod) not in {"Succeeded", "Failed"})

    def waiting(self) -> list[Object]:
        """Living pods without a node."""
        return [pod for pod in self.living() if not node_of(pod)]

    def of(self, app: str) -> list[Object]:
        """The living pods of a workload."""
        return [pod for pod in self.living() if app_of(pod) == app]

    def on(self, node: str) -> list[Object]:
        """What takes room on a node, pods that are leaving included."""
        return [pod for pod in self.pods if node_of(pod) == node and phase(pod) not in {"Succeeded", "Failed"}]

    def deployment(self, app: str) -> Object:
        """A workload by its name."""
        return next(each for each in self.deployments if name_of(each) == app)

    def node(self, name: str) -> Object | None:
        """A node by its name."""
        return next((node for node in self.nodes if name_of(node) == name), None)

    def print(self) -> frozenset[tuple[str, str, bool, bool]]:
        """What changes whenever something happens to pods."""
        return frozenset((pod["metadata"]["uid"], node_of(pod), is_leaving(pod), is_ready(pod)) for pod in self.pods)

    def said_of(self, pod: Object) -> str:
        """Its condition PodScheduled and its events, in one text."""
        notes = [e.get("note") or "" for e in self.events if (e.get("regarding") or {}).get("name") == name_of(pod)]
        return "\n".join([answer_of(pod), *notes])


def name_of(item: Object) -> str:
    """Its name."""
    return str(item["metadata"]["name"])


def app_of(pod: Object) -> str:
    """The workload that a pod belongs to, by its label."""
    return str((pod["metadata"].get("labels") or {}).get("app", ""))


def node_of(pod: Object) -> str:
    """Its node, or nothing."""
    return str(pod["spec"].get("nodeName") or "")


def phase(pod: Object) -> str:
    """Pending, Running, ..."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_leaving(pod: Object) -> bool:
    """Whether it was deleted and is still there."""
    return "deletionTimestamp" in pod["metadata"]


def is_ready(item: Object) -> bool:
    """Whether a pod or a node says so itself."""
    return _condition(item, _READY).get("status") == "True"


def answer_of(pod: Object) -> str:
    """Why it waits, as its condition says; nothing while nobody has said it."""
    found = _condition(pod, "PodScheduled")
    return str(found.get("message") or "") if found.get("status") == "False" else ""


def annotation(item: Object, *keys: str) -> str | None:
    """The first of these annotations that is there."""
    there: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return next((there[key] for key in keys if key in there), None)


def label(item: Object, key: str) -> str | None:
    """A label."""
    return (item["metadata"].get("labels") or {}).get(key)


def is_whole(deployment: Object) -> bool:
    """Whether all its pods are of the newest revision and available, as `kubectl rollout status` sees it."""
    want, status = deployment["spec"]["replicas"], deployment.get("status") or {}
    counts = (status.get("replicas", 0), status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return status.get("observedGeneration", 0) >= deployment["metadata"]["generation"] and set(counts) == {want}


def takes(node: Object, pod: Object) -> bool:
    """Whether a node lets the pod in at all, whatever runs there: cordon, readiness, taints, node selector."""
    spec = node["spec"]
    if spec.get("unschedulable") or not is_ready(node):
        return False
    if any(not _tolerates(pod, taint) for taint in spec.get("taints") or () if taint["effect"] != "PreferNoSchedule"):
        return False
    return all(label(node, key) == value for key, value in (pod["spec"].get("nodeSelector") or {}).items())


def free(node: Object, scene: Scene, resource: str = "cpu") -> float:
    """What is left of a resource on a node."""
    used = sum(request(pod, resource) for pod in scene.on(name_of(node)))
    return amount(node["status"]["allocatable"].get(resource, "0")) - used


def fits(pod: Object, node: Object, scene: Scene) -> bool:
    """Whether a pod could be there beside what is there."""
    return takes(node, pod) and all(
        request(pod, resource) <= free(node, scene, resource) + 1e-9 for resource in ("cpu", "memory")
    )


def request(pod: Object, resource: str) -> float:
    """What a pod asks for of a resource."""
    containers = pod["spec"]["containers"]
    return sum(amount(((one.get("resources") or {}).get("requests") or {}).get(resource, "0")) for one in containers)


def amount(text: str) -> float:
    """A quantity as a number."""
    digits = "".join(itertools.takewhile(lambda letter: letter.isdigit() or letter == ".", text))
    return float(digits) * _SUFFIXES[text[len(digits) :]]


def _condition(item: Object, kind: str) -> Mapping[str, Any]:
    there = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in there if one["type"] == kind), {})


def _tolerates(pod: Object, taint: Mapping[str, str]) -> bool:
    return any(
        one.get("effect") in {None, "", taint["effect"]}
        and (not one.get("key") or one["key"] == taint["key"])
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in pod["spec"].get("tolerations") or ()
    )
