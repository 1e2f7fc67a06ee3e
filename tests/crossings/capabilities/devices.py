"""Devices: claims of each kind, extended resources, and GPUs that pods share."""

from __future__ import annotations

from random import Random

from tests.crossings.bodies import GPU, Body, ask, body, claim_spec, claim_template, device_class, slice_of
from tests.crossings.sketch import Sketch, Workload

EXTENDED = "example.com/accelerator"
MODELS = ("small", "large")


def _offer(sketch: Sketch, draw: Random) -> None:
    """Devices on the nodes, and the classes for them."""
    if any(each["kind"] == "DeviceClass" for each in sketch.objects):
        return
    for name, about in (("any", {}), ("large", {"model": "large"})):
        sketch.objects.append(device_class(name, **about))
    for each in sketch.nodes:
        name = each["metadata"]["name"]
        count = draw.choice([0, 1, 1, 2, 3])
        models = [draw.choice(MODELS) for _ in range(count)]
        devices = [{"name": f"d{n}", "attributes": {"model": {"string": model}}} for n, model in enumerate(models)]
        sketch.objects.append(slice_of(name, devices))


def _claimless(each: Workload) -> bool:
    return "resourceClaims" not in each.spec and not {"fractions", "whole GPUs"} & {*each.marks}


def _slim(each: Workload, draw: Random) -> None:
    """Often cores are not what is scarce."""
    if draw.random() < 0.6:
        ask(each.template, "cpu", "250m")


def _claims(each: Workload, **source: str) -> None:
    each.spec["resourceClaims"] = [{"name": "device", **source}]
    each.spec["containers"][0]["resources"]["claims"] = [{"name": "device"}]


def _template(sketch: Sketch, each: Workload, class_name: str, count: int) -> None:
    each.finish.append(lambda: sketch.objects.append(claim_template(each.name, class_name, count, each.namespace)))


def _claim(sketch: Sketch, each: Workload, name: str, **status: Body) -> None:
    def make() -> None:
        made = body("resource.k8s.io/v1", "ResourceClaim", name, each.namespace, spec=claim_spec("any"), **status)
        if status:
            made["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        sketch.objects.append(made)

    each.finish.append(make)


def claims(sketch: Sketch, draw: Random) -> None:
    """Each pod has a claim of its own, from a template."""
    _offer(sketch, draw)
    for each in sketch.mark("claims", draw, _claimless, most=4):
        count = draw.choice([1, 1, 1, 2])
        _slim(each, draw)
        _claims(each, resourceClaimTemplateName=each.name)
        _template(sketch, each, draw.choice(["any", "any", "large"]), count)


def shared_claims(sketch: Sketch, draw: Random) -> None:
    """The pods of a workload share one claim."""
    _offer(sketch, draw)
    for each in sketch.mark("shared claims", draw, _claimless, most=2):
        _slim(each, draw)
        _claims(each, resourceClaimName=f"{each.name}-shared")
        _claim(sketch, each, f"{each.name}-shared")


def idle_claims(sketch: Sketch, draw: Random) -> None:
    """A claim that is allocated and used by nobody, which a pod that comes later names."""
    _offer(sketch, draw)
    offered = [each for each in sketch.objects if each["kind"] == "ResourceSlice" and each["spec"]["devices"]]
    if not offered:
        return
    pool = draw.choice(offered)["spec"]
    result = {"request": "d", "driver": pool["driver"], "pool": pool["nodeName"], "device": "d0"}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool["nodeName"]]}]}]
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}}
    for each in sketch.mark("idle claims", draw, _claimless, most=1):
        _claims(each, resourceClaimName="idle")
        _claim(sketch, each, "idle", status=status)


def extended_resources(sketch: Sketch, draw: Random) -> None:
    """A resource that a DeviceClass stands for."""
    _offer(sketch, draw)
    for each in sketch.objects:
        if each["kind"] == "DeviceClass" and each["metadata"]["name"] == "any":
            each["spec"]["extendedResourceName"] = EXTENDED
    for workload in sketch.mark("extended resources", draw, most=3):
        _slim(workload, draw)
        ask(workload.template, EXTENDED, "1")


def preempting_for_devices(sketch: Sketch, draw: Random) -> None:
    """Important pods may evict for devices."""
    sketch.configure("DynamicResources", preemptDevices=True)
    claims(sketch, draw)


def _gpus(sketch: Sketch, draw: Random) -> None:
    for each in sketch.nodes:
        count = draw.choice(["1", "2", "2"])
        for part in ("allocatable", "capacity"):
            each["status"][part].setdefault(GPU, count)


def fractions(sketch: Sketch, draw: Random) -> None:
    """GPUs that several pods share."""
    _gpus(sketch, draw)
    sketch.plugin("SharedDevices")
    if draw.random() < 0.5:
        sketch.plugin("Fragmentation")
    for each in sketch.mark("fractions", draw, _claimless, most=4):
        _slim(each, draw)
        each.notes["gpu-fraction"] = draw.choice(["0.3", "0.5", "0.5", "0.7"])


def whole_gpus(sketch: Sketch, draw: Random) -> None:
    """GPUs by number."""
    _gpus(sketch, draw)
    for each in sketch.mark("whole GPUs", draw, _claimless, most=3):
        _slim(each, draw)
        ask(each.template, GPU, draw.choice(["1", "1", "2"]))


def forged_devices(sketch: Sketch, draw: Random) -> None:
    """A tenant writes on its pods which GPU they have got."""
    if not any(each["name"] == "SharedDevices" for each in sketch.enabled):
        fractions(sketch, draw)
    for each in sketch.mark("forged devices", draw, lambda each: "gpu-fraction" in each.notes, most=1):
        each.notes["moorage.dev/devices"] = "0"
