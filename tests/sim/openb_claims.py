"""The published trace with claims: devices in ResourceSlices with consumable capacity, shares of them in claims.

The converter of the yardstick writes the conventions that have annotations or extended resources. This one makes the
same world for dynamic resource allocation:

    python -m tests.sim.openb_claims WORLD.json CLAIMS.json     # a list in the words of KAI -> one with claims
    python -m tests.sim.openb_claims --answer ANSWER.json       # adds the devices of claims to pods, for the scoring
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DRIVER, CLASS, CAPACITY = "gpu.example.com", "gpu", "milli"
_WHOLE = 1000


def claiming(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same nodes and pods, with slices, a class and claims in place of KAI's annotations and `nvidia.com/gpu`."""
    made: dict[str, dict[str, Any]] = {"class": _device_class()}
    objects: list[dict[str, Any]] = []
    for item in items:
        if item["kind"] == "Node":
            made[item["metadata"]["name"]] = _slice(item)
            objects.append(_without_gpus(item))
        else:
            objects.append(_claiming_pod(item, made))
    return [*made.values(), *objects]


def indices(claim: Mapping[str, Any]) -> list[int]:
    """The devices that a claim holds, by their numbers on the node."""
    results = ((claim.get("allocation") or {}).get("devices") or {}).get("results", ())
    return sorted(int(each["device"].removeprefix("gpu-")) for each in results)


def devices_by_pod(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
    """Name of a pod -> the devices that its claim holds; claims are as `simulate -o json` prints them."""
    return {consumer: indices(claim) for claim in claims.values() for consumer in _consumers(claim)}


def _consumers(claim: Mapping[str, Any]) -> list[str]:
    return [each["name"] if isinstance(each, Mapping) else str(each) for each in claim.get("reservedFor") or ()]


def _device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return _object("resource.k8s.io/v1", "DeviceClass", CLASS, {"selectors": [selector]})


def _slice(node: Mapping[str, Any]) -> dict[str, Any]:
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    capacity = {CAPACITY: {"value": str(_WHOLE)}}
    attributes = {"model": {"string": labels["nvidia.com/gpu.product"]}}
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": capacity,
            "attributes": attributes,
        }
        for number in range(int(labels["nvidia.com/gpu.count"]))
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return _object("resource.k8s.io/v1", "ResourceSlice", f"{name}-gpus", spec)


def _without_gpus(node: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {name: text for name, text in node["status"]["allocatable"].items() if name != "nvidia.com/gpu"}
    return {**node, "status": {**node["status"], "capacity": amounts, "allocatable": amounts}}


def _claiming_pod(pod: Mapping[str, Any], made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    annotations = dict(pod["metadata"].get("annotations", {}))
    (container,) = pod["spec"]["containers"]
    requests = dict(container["resources"]["requests"])
    count = int(requests.pop("nvidia.com/gpu", 0))
    fraction = annotations.pop("gpu-fraction", None)
    milli = round(float(fraction) * _WHOLE) if fraction else _WHOLE
    spec = {**pod["spec"], "containers": [{**container, "resources": {"requests": requests}}]}
    if count or fraction:
        name = f"gpu-{max(count, 1)}-{milli}"
        made.setdefault(name, _template(name, max(count, 1), milli))
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


def _template(name: str, count: int, milli: int) -> dict[str, Any]:
    exactly = {
        "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count,
        "capacity": {"requests": {CAPACITY: str(milli)}},
    }  # fmt: skip
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    return _object("resource.k8s.io/v1", "ResourceClaimTemplate", name, spec, namespace="default")


def _object(version: str, kind: str, name: str, spec: Mapping[str, Any], **more: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **more}, "spec": dict(spec)}


def main(arguments: list[str]) -> None:
    """Convert a world, or complete an answer."""
    if arguments[0] == "--answer":
        path = Path(arguments[1])
        answer = json.loads(path.read_text())
        found = devices_by_pod(answer["claims"])
        for pod in answer["pods"]:
            pod["gpus"] = found.get(pod["name"])
        path.write_text(json.dumps(answer))
        return
    world = json.loads(Path(arguments[0]).read_text())
    Path(arguments[1]).write_text(json.dumps({**world, "items": claiming(world["items"])}))


if __name__ == "__main__":
    main(sys.argv[1:])
