"""Scenario devices: GPUs that are claimed, shared, fail and come back.

Two nodes with four GPUs each, and a network card that all nodes share. Claims come from templates, are shared by pods,
or are made for an extended resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.kubelet import RUN_SECONDS
from moorage.adapters.memory.manifests import manifest, node_manifest, workload_manifest
from moorage.adapters.memory.objects import KubeObject, status_of
from moorage.sim.demo.scenario import NAMESPACE, Act, Deed, Scenario, create, delete

GPU_DRIVER, NETWORK_DRIVER = "gpu.example.com", "net.example.com"
EXTENDED = "example.com/gpu"
_MODELS = {"gpu-a": ("a100", "80Gi"), "gpu-b": ("l4", "24Gi")}
"""Node -> model and memory of its GPUs."""
_EACH = 4


def _gpus(node: str) -> dict[str, Any]:
    """The GPUs of a node, as its driver publishes them; two each are on one bus."""
    model, memory = _MODELS[node]
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}, "bus": {"string": f"{node}-{number // 2}"}},
            "capacity": {"memory": {"value": memory}},
        }
        for number in range(_EACH)
    ]
    return _slice(f"{node}-gpus", GPU_DRIVER, node, devices, nodeName=node)


def _slice(name: str, driver: str, pool: str, devices: list[dict[str, Any]], **where: Any) -> dict[str, Any]:
    pools = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return manifest("ResourceSlice", name, spec={"driver": driver, "pool": pools, "devices": devices, **where})


def _class(name: str, driver: str, **spec: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return manifest("DeviceClass", name, spec={"selectors": selectors, **spec})


def _request(name: str = "gpu", *, least: str = "", **exactly: Any) -> dict[str, Any]:
    """A request for GPUs with at least so much memory."""
    expression = f'device.capacity["{GPU_DRIVER}"].memory.compareTo(quantity("{least}")) >= 0'
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if least else {}
    return {"name": name, "exactly": {"deviceClassName": "gpu", **selectors, **exactly}}


def _template(name: str, request: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": [request], **devices}}}
    return manifest("ResourceClaimTemplate", name, NAMESPACE, spec=spec)


def _workload(kind: str, name: str, template: str, run_s: float = 0.0, **own: Any) -> dict[str, Any]:
    """A workload each of whose pods has a claim made from a template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    app = name.removesuffix("-{cycle}")
    made = workload_manifest(kind, name, labels={"app": app}, own=own, cpu="1", memory="2Gi", resourceClaims=claims)
    if run_s:
        made["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: f"{run_s:g}"}
    return made


def _sharing() -> Iterable[dict[str, Any]]:
    """A claim for a part of the network card, and two pods that use it together."""
    exactly = {"deviceClassName": "network", "capacity": {"requests": {"bandwidth": "4G"}}}
    spec = {"devices": {"requests": [{"name": "net", "exactly": exactly}]}}
    yield manifest("ResourceClaim", "uplink", NAMESPACE, spec=spec)
    claims = [{"name": "net", "resourceClaimName": "uplink"}]
    yield workload_manifest("Deployment", "mirror", own={"replicas": 2}, cpu="500m", resourceClaims=claims)


def _legacy() -> dict[str, Any]:
    """Pods that ask for a GPU as an extended resource, as for a device plugin."""
    made = workload_manifest("Deployment", "legacy", own={"replicas": 2}, cpu="500m", memory="1Gi")
    resources = made["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"][EXTENDED] = resources.setdefault("limits", {})[EXTENDED] = "1"
    return made


def break_device(node: str, device: str) -> Deed:
    """The driver taints a device of a node that has failed; pods that use it are evicted, as Kubernetes does then."""

    def do(cluster: EmbeddedCluster, _: int) -> None:
        _taint(cluster, node, device, [{"key": "gpu.example.com/failed", "effect": "NoExecute"}])
        for claim in cluster.store.list("ResourceClaim", NAMESPACE):
            if any((each["pool"], each["device"]) == (node, device) for each in _results(claim)):
                for consumer in status_of(claim).get("reservedFor") or ():
                    cluster.delete("Pod", NAMESPACE, consumer["name"], grace_s=0)

    return do


def mend_device(node: str, device: str) -> Deed:
    """The device works again."""
    return lambda cluster, _: _taint(cluster, node, device, None)


def _taint(cluster: EmbeddedCluster, node: str, device: str, taints: list[dict[str, str]] | None) -> None:
    devices = deepcopy(_gpus(node)["spec"]["devices"])
    for each in devices:
        if each["name"] == device and taints:
            each["taints"] = taints
    cluster.patch("ResourceSlice", "", f"{node}-gpus", {"spec": {"devices": devices}})


def _results(claim: KubeObject) -> list[dict[str, Any]]:
    allocation = status_of(claim).get("allocation") or {}
    found: list[dict[str, Any]] = (allocation.get("devices") or {}).get("results") or []
    return found


def devices() -> Scenario:
    """The scenario."""
    nodes = [
        *(node_manifest(name, zone="gpus", cpu="16", memory="64Gi") for name in _MODELS),
        *(node_manifest(f"cpu-{number}", zone="others", cpu="8", memory="16Gi") for number in (1, 2)),
    ]
    card = {"name": "card-0", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
    published = (
        *map(_gpus, _MODELS),
        _slice("network", NETWORK_DRIVER, "network", [card], allNodes=True),
        _class("gpu", GPU_DRIVER, extendedResourceName=EXTENDED),
        _class("network", NETWORK_DRIVER),
        _template("one-gpu", _request()),
        _template("large-gpu", _request(least="40Gi")),
        _template("pair", _request(count=2), constraints=[{"matchAttribute": f"{GPU_DRIVER}/bus"}]),
        _template("huge-gpu", _request(least="160Gi")),
    )
    opening = (
        Act(0.0, "drivers publish 8 GPUs and a network card", (create(*published),)),
        Act(
            0.6,
            "Deployment inference arrives: 3 replicas, each claims a GPU of 40Gi or more",
            (create(_workload("Deployment", "inference", "large-gpu", replicas=3)),),
        ),
        Act(3.0, "Deployment mirror arrives: 2 replicas share one claim for network bandwidth", (create(*_sharing()),)),
    )
    return Scenario("GPUs that are claimed, shared, fail and come back", nodes, opening, 6.0, _cycle(), 48.0)


def _cycle() -> tuple[Act, ...]:
    train = _workload("Job", "train-{cycle}", "pair", run_s=9, completions=2, parallelism=2)
    huge = _workload("Job", "huge-{cycle}", "huge-gpu", run_s=3, completions=1, parallelism=1)
    return (
        Act(1.0, "Job train arrives: 2 pods, each claims two GPUs on the same bus", (create(train),)),
        Act(6.0, "Deployment legacy arrives: 2 replicas ask for example.com/gpu: 1", (create(_legacy()),)),
        Act(
            14.0,
            "gpu-0 of node gpu-a fails: its driver taints it, and its pod is evicted",
            (break_device("gpu-a", "gpu-0"),),
        ),
        Act(20.0, "Job huge arrives: it wants a GPU of 160Gi, and no node has one", (create(huge),)),
        Act(
            26.0,
            "Deployment burst arrives: 6 replicas, each claims a GPU; there are too few",
            (create(_workload("Deployment", "burst", "one-gpu", replicas=6)),),
        ),
        Act(33.0, "gpu-0 of node gpu-a works again", (mend_device("gpu-a", "gpu-0"),)),
        Act(
            40.0,
            "burst, legacy and the Jobs are taken down; their devices are free again",
            (
                *(delete("Deployment", name) for name in ("burst", "legacy")),
                *(delete("Job", f"{name}-{{cycle}}") for name in ("train", "huge")),
            ),
        ),
    )
