"""Queues: quotas, limits, trees, pods that may not be evicted, and the reasons to make room."""

from __future__ import annotations

from random import Random

from tests.crossings.bodies import GPU, Body, body, pod_spec, queue
from tests.crossings.sketch import Sketch, Workload

LABEL = "moorage.dev/queue"


def _named(sketch: Sketch) -> dict[str, Body]:
    return {each["metadata"]["name"]: each for each in sketch.objects if each["kind"] == "Queue"}


def _queued(workload: Workload) -> bool:
    return LABEL in workload.labels


def _resources(sketch: Sketch) -> list[str]:
    """What the pods of this world ask for, as queues count it."""
    found = {"cpu"}
    for each in sketch.workloads:
        if {"fractions", "whole GPUs"} & {*each.marks}:
            found.add(GPU)
        if {"claims", "shared claims"} & {*each.marks}:
            found.add("deviceclass.resource.kubernetes.io/any")
    return sorted(found)


def queues(sketch: Sketch, draw: Random) -> None:
    """Two queues that share the cluster, in which most workloads are."""
    if not _named(sketch):
        capacity = sum(int(each["status"]["allocatable"]["cpu"]) for each in sketch.nodes)
        for name in ("qa", "qb"):
            quotas = {"cpu": str(draw.choice([0, capacity // 4, capacity // 2])), GPU: str(draw.choice([0, 1]))}
            shares = {
                each: {"quota": quotas.get(each, str(draw.choice([0, 1, 2]))), "weight": draw.choice([1, 1, 3])}
                for each in _resources(sketch)
                if each == "cpu" or draw.random() < 0.7
            }
            sketch.objects.append(queue(name, shares))
            if draw.random() < 0.2:
                spec = sketch.objects[-1]["spec"]
                spec |= {"preemptMinRuntime": "20s", "reclaimMinRuntime": draw.choice(["0s", "20s"])}
    chosen = sketch.mark("queues", draw, lambda each: not _queued(each), share=0.8)
    for number, each in enumerate(chosen):
        each.labels[LABEL] = ("qa", "qb")[number % 2]


def _some_queues(sketch: Sketch, draw: Random) -> dict[str, Body]:
    if not _named(sketch):
        queues(sketch, draw)
    return _named(sketch)


def queue_limits(sketch: Sketch, draw: Random) -> None:
    """A queue that may not have all that is idle."""
    named = _some_queues(sketch, draw)
    chosen = named[draw.choice(sorted(named))]
    for resource, share in chosen["spec"]["resources"].items():
        share["limit"] = str(max(int(share["quota"]), draw.choice([1, 2, 4]) if resource == "cpu" else 1))
    for each in sketch.workloads:
        if each.labels.get(LABEL) == chosen["metadata"]["name"]:
            each.marks.append("queue limits")


def queue_trees(sketch: Sketch, draw: Random) -> None:
    """A department above the queues, and a queue beside it."""
    named = _some_queues(sketch, draw)
    capacity = sum(int(each["status"]["allocatable"]["cpu"]) for each in sketch.nodes)
    shares: Body = {"cpu": {"quota": str(capacity // 2), "weight": draw.choice([1, 2])}}
    if draw.random() < 0.5:
        shares["cpu"]["limit"] = str(max(capacity * 3 // 4, 1))
    sketch.objects.append(queue("department", shares))
    sketch.objects.append(queue("qc", {"cpu": {"quota": str(capacity // 4)}}))
    for below in named.values():
        below["spec"]["parent"] = "department"
    for each in sketch.workloads:
        if _queued(each):
            each.marks.append("queue trees")
    for each in sketch.workloads[-1:]:
        each.labels[LABEL] = "qc"


def fixed_pods(sketch: Sketch, draw: Random) -> None:
    """Pods of queues that may not be evicted for others."""
    _some_queues(sketch, draw)
    for each in sketch.mark("fixed pods", draw, _queued, most=2):
        each.labels["moorage.dev/preemptible"] = "false"


def reclaim(sketch: Sketch, draw: Random) -> None:
    """The first workload borrows all it can; a queue within its quota asks for it back, many pods at a time."""
    named = _some_queues(sketch, draw)
    capacity = sum(int(each["status"]["allocatable"]["cpu"]) for each in sketch.nodes)
    first, later = sketch.workloads[0], sketch.workloads[1:]
    first.size, first.at_s = min(capacity, 8), 0.0
    first.labels[LABEL] = "qa"
    first.marks.append("reclaim")
    for share in named["qa"]["spec"]["resources"].values():
        share["quota"] = "0"
    for share in named["qb"]["spec"]["resources"].values():
        share["quota"] = str(capacity)
    for each in later:
        if draw.random() < 0.6:
            each.labels[LABEL] = "qb"
            each.at_s = max(each.at_s, draw.choice([8.0, 40.0]))
            each.marks.append("reclaim")


def consolidation(sketch: Sketch, draw: Random) -> None:
    """Half-full nodes, and a pod of a queue that wants a whole one."""
    _some_queues(sketch, draw)
    for each in sketch.mark("consolidation", draw, _queued, share=0.9):
        each.spec["containers"][0]["resources"]["requests"]["cpu"] = "1"
    largest = max(int(each["status"]["allocatable"]["cpu"]) for each in sketch.nodes)
    template: Body = {"metadata": {"labels": {"app": "large"}, "annotations": {}}, "spec": pod_spec(str(largest - 1))}
    large = Workload("large", 1, sketch.last_s + 15.0, template=template, marks=["consolidation"])
    large.labels[LABEL] = draw.choice(["qa", "qb"])
    sketch.workloads.append(large)


def namespaces(sketch: Sketch, draw: Random) -> None:
    """A second namespace, whose label names the queue of its pods."""
    labels = {"team": "other"}
    sketch.objects.insert(0, body("v1", "Namespace", "other", metadata={"labels": labels}))
    for each in sketch.mark("namespaces", draw, most=2):
        each.namespace = "other"
    sketch.finish.append(lambda: labels.update({LABEL: "qa"} if _named(sketch) else {}))
