"""Every single change of an input that one could think of, made on the plain objects, without a thought.

Written apart from what it checks: nothing of `moorage.engine.counterfactual` or `moorage.wire.rewriting` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Plain = dict[str, Any]
Change = tuple[str, Callable[[Plain], object]]
_HALVINGS = 12
_RULES = ("nodeSelector", "affinity", "topologySpreadConstraints", "schedulingGates", "volumes")


def single_changes(objects: list[Plain], pod_name: str) -> Iterator[tuple[str, list[Plain]]]:
    """What was changed, and the whole input with it."""
    place, inside = _source(objects, pod_name)
    for text, change in _pod_changes(inside(objects[place]), objects):
        body = deepcopy(objects[place])
        change(inside(body))
        yield text, [*objects[:place], body, *objects[place + 1 :]]
    wanted = inside(objects[place])["spec"].get("nodeSelector", {})
    for number, known in enumerate(objects):
        for text, change in _changes_of(known, objects, wanted):
            body = deepcopy(known)
            change(body)
            yield text, [*objects[:number], body, *objects[number + 1 :]]
        if known["kind"] == "Node":
            yield "another node", [*objects, _another(known)]
    yield "a claim", [*objects, _claim()]


def _source(objects: list[Plain], pod_name: str) -> tuple[int, Callable[[Plain], Plain]]:
    """Where the pod is written down, and how to get from there to the part with metadata and spec."""
    for index, body in enumerate(objects):
        if body["kind"] == "Pod" and body["metadata"]["name"] == pod_name:
            return index, lambda each: each
    owner = pod_name.rpartition("-")[0]
    for index, body in enumerate(objects):
        if "template" in body.get("spec", {}) and body["metadata"]["name"] == owner:
            return index, lambda each: each["spec"]["template"]
    raise LookupError(pod_name)


def _without(*path: str | int) -> Callable[[Plain], object]:
    def change(body: Plain) -> None:
        *steps, last = path
        holder: Any = body
        for step in steps:
            holder = holder[step]
        holder.pop(last, None)

    return change


def _with(value: Any, *path: str | int) -> Callable[[Plain], object]:
    def change(body: Plain) -> None:
        *steps, last = path
        holder: Any = body
        for step in steps:
            holder = holder[step] if isinstance(step, int) else holder.setdefault(step, {})
        holder[last] = value

    return change


def _pod_changes(part: Plain, objects: list[Plain]) -> Iterator[Change]:
    spec = part["spec"]
    for field in _RULES:
        if field in spec:
            yield f"no {field}", _without("spec", field)
    for field in ("nodeSelector", "affinity"):
        for key in spec.get(field, {}):
            yield f"no {field} {key}", _without("spec", field, key)
    for field in ("labels", "annotations"):
        yield f"no {field}", _without("metadata", field)
    for group in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(group, ())):
            yield from _container_changes(container, "spec", group, number)
    taints = [each for body in objects if body["kind"] == "Node" for each in body["spec"].get("taints", ())]
    for key in dict.fromkeys(taint["key"] for taint in taints):
        yield f"tolerates {key}", _with([{"key": key, "operator": "Exists"}], "spec", "tolerations")


def _container_changes(container: Plain, *place: str | int) -> Iterator[Change]:
    if "ports" in container:
        yield "no ports", _without(*place, "ports")
    for resource, text in container["resources"].get("requests", {}).items():
        for halving in range(_HALVINGS):
            less = _halved(text, halving)
            resources = deepcopy(container["resources"])
            resources["requests"][resource] = less
            if "/" in resource and resource in resources.get("limits", {}):
                resources["limits"][resource] = less
            yield f"{less} of {resource}", _with(resources, *place, "resources")


def _halved(text: str, halvings: int) -> str:
    digits = "".join(filter(str.isdigit, text))
    return "0" if halvings == _HALVINGS - 1 else f"{int(digits) >> (halvings + 1)}{text[len(digits) :]}"


def _changes_of(body: Plain, objects: list[Plain], wanted: Plain) -> Iterator[Change]:
    """What could be changed about an object that is not the pod."""
    match body["kind"]:
        case "Node":
            yield "no taints", _without("spec", "taints")
            yield "schedulable", _with({}, "spec")
            for key, value in (*wanted.items(), ("rack", "r1")):
                yield f"label {key}", _with(value, "metadata", "labels", key)
        case "Pod" if body["spec"].get("nodeName"):
            for name in (each["metadata"]["name"] for each in objects if each["kind"] == "Node"):
                yield f"moved to {name}", _with(name, "spec", "nodeName")
        case "ReplicaSet" | "Deployment":
            yield "fewer hosts", _with({"moorage.dev/min-hosts": "1"}, "metadata", "annotations")
        case "PodGroup":
            yield "a smaller gang", _with(1, "spec", "minMember")


def _another(node: Plain) -> Plain:
    body = deepcopy(node)
    body["metadata"]["name"] = body["metadata"]["labels"]["kubernetes.io/hostname"] = "another"
    return {**body, "spec": {}}


def _claim() -> Plain:
    wants = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": "absent", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wants}
