"""GPUs for the benchmarks, as Kubernetes JSON: slices of nodes with eight each, and claims for one each.

A claim asks for a model by attribute and for memory by capacity; half of the devices have too little of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moorage.core.commands import Command, PatchObject
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.echo import Echo
from moorage.core.events import Event, ObjectSeen
from moorage.core.pods import Pod
from moorage.wire.kinds import BY_ID, find_kind
from moorage.wire.patches import plain

DEVICES = 8
"""Of a node."""
SERVED = DEVICES // 2
"""How many claims the devices of a node can serve."""
_DRIVER, _CLASS = "gpu.example.com", "gpu"
_SELECTOR = (
    f'device.attributes["{_DRIVER}"].model == "a100" && '
    f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)


def device_objects(nodes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The class and the slices of so many nodes, each with the path where it is created."""
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    yield _object("DeviceClass", {"name": _CLASS}, {"selectors": selectors})
    for number in range(nodes):
        node = f"node-{number}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": [*_devices(node)]}
        yield _object("ResourceSlice", {"name": f"{node}-gpus"}, spec)


def _devices(node: str) -> Iterator[dict[str, Any]]:
    for number in range(DEVICES):
        text = {"model": "a100", "uuid": f"GPU-{node}-{number}", "architecture": "Ampere"}
        attributes: dict[str, Any] = {name: {"string": value} for name, value in text.items()}
        attributes |= {"driverVersion": {"version": "550.54.15"}, "index": {"int": number}}
        memory = "80Gi" if number % 2 else "20Gi"
        yield {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def device_claims(namespace: str, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Claims for one device each, with the path where they are created."""
    exactly = {
        "deviceClassName": _CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": _SELECTOR}}],
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return (_object(RESOURCE_CLAIM, {"name": name, "namespace": namespace}, spec) for name in names)


def _object(kind: str, metadata: dict[str, str], spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    namespace = metadata.get("namespace")
    parent = f"namespaces/{namespace}/" if namespace else ""
    group, _, plural = BY_ID[kind].path().rpartition("/")
    version = BY_ID[kind].api_versions[0]
    return f"{group}/{parent}{plural}", {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def seen(objects: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Event]:
    """The events that show them."""
    for _, body in objects:
        kind = find_kind(body["apiVersion"], body["kind"])
        if kind is not None:
            value = kind.from_builtin(body)
            yield ObjectSeen(kind.id, value.key, value)


class ClaimEcho(Echo):
    """An echo that also shows what is written to the claims of its pods, which have been made with `device_claims`."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        super().__init__(pods)
        keys = [(pod.namespace, name) for pod in self.pods.values() for name in pod.template.claims]
        made = (next(device_claims(namespace, [name])) for namespace, name in keys)
        self.claims = {f"{namespace}/{name}": body for (namespace, name), (_, body) in zip(keys, made, strict=True)}
        """Key -> the claim as it was last shown."""

    def _shown(self, command: Command) -> list[Event]:
        if not isinstance(command, PatchObject):
            return super()._shown(command)
        body = self.claims[f"{command.namespace}/{command.name}"]
        for part, written in plain(command.patch).items():
            body[part] = {**body.get(part, {}), **written}
        return [*seen([("", body)])]
