"""What the API server adds to an object on its way in, as far as a scheduler can see it.

Pure functions from dictionaries to dictionaries: arguments are never written to, what is given is kept, and doing it
twice is the same as doing it once (objects printed by kubectl have been through it already).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from moorage.adapters.memory.labelkeys import merge_label_keys
from moorage.adapters.memory.objects import CLUSTER_SCOPED, NOTHING, KubeObject, metadata_of, spec_of, status_of
from moorage.core.objects import NAMESPACE_NAME_LABEL
from moorage.core.values import dataclass

SYSTEM_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
POD_LEVEL_RESOURCES = ("cpu", "memory")

_BIRTH_STATUS: Mapping[str, Mapping[str, Any]] = {
    "Pod": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "PersistentVolume": {"phase": "Pending"},
    "Namespace": {"phase": "Active"},
}
"""Status of a new object; other kinds keep what they are created with (nodes register with theirs)."""
_STATUS_WIPED = frozenset(
    {
        *_BIRTH_STATUS, "CronJob", "DaemonSet", "Deployment", "Job", "PodDisruptionBudget", "ReplicaSet",
        "ReplicationController", "StatefulSet",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes that admission looks up, by name."""

    priority: Mapping[str, KubeObject] = field(default_factory=dict)
    runtime: Mapping[str, KubeObject] = field(default_factory=dict)

    def default_priority_class(self) -> KubeObject | None:
        """The class marked as global default; of several the one with the lowest value."""
        marked = [c for c in self.priority.values() if c.get("globalDefault")]
        return min(marked, key=lambda c: int(c.get("value") or 0), default=None)


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object after admission, and what the API server would have refused it for."""

    object: KubeObject
    problems: tuple[str, ...] = ()


def default_object(obj: KubeObject, classes: Classes) -> Admitted:
    """The object as the API server would store it, status kept; pods also pass priority and runtime admission."""
    obj = default_namespace(obj)
    match obj.get("kind"):
        case "Pod":
            return admit_pod(obj, classes)
        case "Node":
            return Admitted(_default_allocatable(obj))
        case "Namespace":
            name = metadata_of(obj).get("name")
            return Admitted(_with_metadata(_default_phase(obj), labels={NAMESPACE_NAME_LABEL: name}))
        case "ReplicationController":
            return Admitted(_default_selector(obj))
    return Admitted(_default_phase(obj))


def at_birth(obj: KubeObject) -> KubeObject:
    """The object with the status that a newly created one has, whatever its author wrote there."""
    kind = str(obj.get("kind"))
    if kind not in _STATUS_WIPED:
        return obj
    status = dict(_BIRTH_STATUS.get(kind, NOTHING))
    if kind == "Pod" and spec_of(obj).get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**obj, "status": status}


def default_namespace(obj: KubeObject) -> KubeObject:
    """The object with the namespace `default` where its kind has one and none is given; without one otherwise."""
    metadata = metadata_of(obj)
    if obj.get("kind") in CLUSTER_SCOPED:
        if "namespace" not in metadata:
            return obj
        return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "namespace"}}
    return obj if metadata.get("namespace") else {**obj, "metadata": {**metadata, "namespace": "default"}}


def admit_pod(pod: KubeObject, classes: Classes) -> Admitted:
    """A pod with everything defaulted that decides where it may run."""
    problems: list[str] = []
    spec = dict(spec_of(pod))
    for name, value in (("schedulerName", "default-scheduler"), ("restartPolicy", "Always")):
        if not spec.get(name):
            spec[name] = value
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    _default_containers(spec)
    _default_pod_requests(spec)
    _resolve_priority(spec, classes, problems)
    _apply_runtime_class(spec, classes, problems)
    merge_label_keys(spec, metadata_of(pod).get("labels") or {})
    return Admitted(_default_phase({**pod, "spec": spec}), tuple(problems))


def _default_containers(spec: dict[str, Any]) -> None:
    """Requests from limits and, with host networking, host ports from container ports."""
    steps: list[Callable[[Mapping[str, Any]], Mapping[str, Any]]] = [_default_requests]
    if spec.get("hostNetwork"):
        steps.append(_default_host_ports)
    for part in ("containers", "initContainers"):
        given: Sequence[Mapping[str, Any]] = spec.get(part) or ()
        defaulted = list(given)
        for step in steps:
            defaulted = [step(container) for container in defaulted]
        if any(new is not old for new, old in zip(defaulted, given, strict=True)):
            spec[part] = defaulted


def _default_requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = container.get("resources") or NOTHING
    limits, requests = resources.get("limits") or NOTHING, resources.get("requests") or NOTHING
    if all(name in requests for name in limits):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _default_host_ports(container: Mapping[str, Any]) -> Mapping[str, Any]:
    ports: Sequence[Mapping[str, Any]] = container.get("ports") or ()
    if all(port.get("hostPort") for port in ports):
        return container
    return {**container, "ports": [{**p, "hostPort": p.get("hostPort") or p.get("containerPort")} for p in ports]}


def _default_pod_requests(spec: dict[str, Any]) -> None:
    """Pod-level requests from pod-level limits, for resources that no container requests.

    Where containers do request the resource, their sum counts anyway, so it need not be written down.
    """
    resources = spec.get("resources") or NOTHING
    limits, requests = resources.get("limits") or NOTHING, resources.get("requests") or NOTHING
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    of_containers = {name for c in containers for name in (c.get("resources") or NOTHING).get("requests") or ()}
    missing = {
        name: limit
        for name, limit in limits.items()
        if name not in requests
        and name not in of_containers
        and (name in POD_LEVEL_RESOURCES or name.startswith("hugepages-"))
    }
    if missing:
        spec["resources"] = {**resources, "requests": {**requests, **missing}}


def _resolve_priority(spec: dict[str, Any], classes: Classes, problems: list[str]) -> None:
    name = spec.get("priorityClassName")
    found = classes.priority.get(name) if name else classes.default_priority_class()
    if name in SYSTEM_PRIORITY_CLASSES:
        value = SYSTEM_PRIORITY_CLASSES[name]
    elif found is not None:
        value = int(found.get("value") or 0)
        if spec.get("priority") is None:
            spec["priorityClassName"] = metadata_of(found).get("name")
    else:
        value = 0
        if name and spec.get("priority") is None:
            problems.append(f"no PriorityClass with name {name} was found")
    if spec.get("priority") is None:
        spec["priority"] = value
        if not spec.get("preemptionPolicy"):
            spec["preemptionPolicy"] = (found or NOTHING).get("preemptionPolicy") or "PreemptLowerPriority"


def _apply_runtime_class(spec: dict[str, Any], classes: Classes, problems: list[str]) -> None:
    """Overhead, node selector and tolerations of the pod's RuntimeClass."""
    name = spec.get("runtimeClassName")
    if not name:
        return
    runtime = classes.runtime.get(name)
    if runtime is None:
        problems.append(f'RuntimeClass "{name}" not found')
        return
    overhead = (runtime.get("overhead") or NOTHING).get("podFixed")
    if overhead and not spec.get("overhead"):
        spec["overhead"] = overhead
    scheduling = runtime.get("scheduling") or NOTHING
    wanted, given = scheduling.get("nodeSelector") or NOTHING, spec.get("nodeSelector") or NOTHING
    clash = sorted(label for label in wanted if given.get(label, wanted[label]) != wanted[label])
    if clash:
        problems.append(
            f'conflict: runtimeClass.scheduling.nodeSelector[{clash[0]}] = "{wanted[clash[0]]}"; '
            f'pod.spec.nodeSelector[{clash[0]}] = "{given[clash[0]]}"'
        )
    if wanted:
        spec["nodeSelector"] = {**wanted, **given}
    present = list(spec.get("tolerations") or ())
    added = [t for t in scheduling.get("tolerations") or () if t not in present]
    if added:
        spec["tolerations"] = present + added


def _default_phase(obj: KubeObject) -> KubeObject:
    birth, status = _BIRTH_STATUS.get(str(obj.get("kind"))), status_of(obj)
    if birth is None or status.get("phase"):
        return obj
    return {**obj, "status": {**status, **birth}}


def _default_allocatable(node: KubeObject) -> KubeObject:
    status = status_of(node)
    if status.get("allocatable") is not None or not status.get("capacity"):
        return node
    return {**node, "status": {**status, "allocatable": status["capacity"]}}


def _default_selector(controller: KubeObject) -> KubeObject:
    spec = spec_of(controller)
    labels = metadata_of(spec.get("template") or NOTHING).get("labels")
    if not labels or spec.get("selector"):
        return controller
    return {**controller, "spec": {**spec, "selector": labels}}


def _with_metadata(obj: KubeObject, labels: Mapping[str, Any]) -> KubeObject:
    metadata = metadata_of(obj)
    return {**obj, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}
