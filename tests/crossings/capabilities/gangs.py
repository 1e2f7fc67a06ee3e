"""Gangs in each way of declaring them, elastic ones, and the levels that they ask for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

from tests.crossings.bodies import BLOCK, HOST, RACK, Body, body
from tests.crossings.sketch import Sketch, Workload

DECLARED = (
    *("native gangs", "coscheduling gangs", "annotated gangs", "counted gangs", "owned gangs"),
    *("KAI gangs", "Volcano gangs"),
)
LEVELS = [BLOCK, RACK, HOST]


def is_gang(workload: Workload) -> bool:
    """Whether one of the ways was chosen."""
    return any(mark in DECLARED for mark in workload.marks)


def _declare(name: str, sketch: Sketch, draw: Random) -> list[Workload]:
    chosen = sketch.mark(name, draw, lambda each: not is_gang(each), most=2)
    for each in chosen:
        each.size = max(each.size, 2)
        each.least = each.size
    return chosen


def native_gangs(sketch: Sketch, draw: Random) -> None:
    """PodGroups of Kubernetes' own."""
    for each in _declare("native gangs", sketch, draw):
        each.spec["schedulingGroup"] = {"podGroupName": each.name}
        mode: Body = {"disruptionMode": {"all": {}}} if draw.random() < 0.4 else {}
        each.finish.append(functools.partial(_native, sketch, each, mode))


def _native(sketch: Sketch, each: Workload, mode: Body) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": each.least}}, **mode}
    sketch.objects.append(body("scheduling.k8s.io/v1beta1", "PodGroup", each.name, each.namespace, spec=spec))


def coscheduling_gangs(sketch: Sketch, draw: Random) -> None:
    """PodGroups of the coscheduling CRD; now and then the object comes late."""
    for each in _declare("coscheduling gangs", sketch, draw):
        each.labels["scheduling.x-k8s.io/pod-group"] = each.name
        each.finish.append(functools.partial(_coscheduling, sketch, each, late=draw.random() < 0.2))


def _coscheduling(sketch: Sketch, each: Workload, *, late: bool) -> None:
    made = body("scheduling.x-k8s.io/v1alpha1", "PodGroup", each.name, each.namespace, spec={"minMember": each.least})
    if late:
        sketch.deed(each.at_s + 2.0, "create", object=made)
    else:
        sketch.objects.append(made)


def _noted(sketch: Sketch, each: Workload, api_version: str) -> None:
    sketch.objects.append(body(api_version, "PodGroup", each.name, each.namespace, spec={"minMember": each.least}))


def kai_gangs(sketch: Sketch, draw: Random) -> None:
    """PodGroups of KAI, which an annotation names."""
    for each in _declare("KAI gangs", sketch, draw):
        each.notes["pod-group-name"] = each.name
        each.finish.append(functools.partial(_noted, sketch, each, "scheduling.run.ai/v2alpha2"))


def volcano_gangs(sketch: Sketch, draw: Random) -> None:
    """PodGroups of Volcano, which an annotation names."""
    for each in _declare("Volcano gangs", sketch, draw):
        each.notes["scheduling.k8s.io/group-name"] = each.name
        each.finish.append(functools.partial(_noted, sketch, each, "scheduling.volcano.sh/v1beta1"))


def annotated_gangs(sketch: Sketch, draw: Random) -> None:
    """Annotations of the pods say group and size."""
    for each in _declare("annotated gangs", sketch, draw):
        each.notes["moorage.dev/pod-group"] = each.name
        each.finish.append(functools.partial(_annotate, each))


def _annotate(each: Workload) -> None:
    each.notes["moorage.dev/pod-group-min-available"] = str(each.least)


def counted_gangs(sketch: Sketch, draw: Random) -> None:
    """An annotation names the group; its size is the number of replicas."""
    for each in _declare("counted gangs", sketch, draw):
        each.notes["moorage.dev/pod-group"] = each.name


def owned_gangs(sketch: Sketch, draw: Random) -> None:
    """An annotation of the owner makes its pods a gang."""
    for each in _declare("owned gangs", sketch, draw):
        if each.kind == "Pod":
            each.kind = "ReplicaSet"
        each.annotations["moorage.dev/gang"] = "true"


def _gangs(name: str, sketch: Sketch, draw: Random, wanted: Callable[[Workload], bool]) -> list[Workload]:
    """Those of the gangs, or a new one if there is none."""
    if not any(is_gang(each) and wanted(each) for each in sketch.workloads):
        annotated_gangs(sketch, draw)
    return sketch.mark(name, draw, lambda each: is_gang(each) and wanted(each), most=2)


def _sized(each: Workload) -> bool:
    return not {"counted gangs", "owned gangs"} & {*each.marks}


def elastic_gangs(sketch: Sketch, draw: Random) -> None:
    """Gangs that start with fewer members than they have."""
    for each in _gangs("elastic gangs", sketch, draw, _sized):
        each.size = max(each.size, 3)
        each.least = draw.choice([2, each.size - 1])


def _asks(each: Workload) -> bool:
    return not {"required levels", "preferred levels", "slices"} & {*each.marks}


def _topology(sketch: Sketch) -> None:
    if not any(each["kind"] == "Topology" for each in sketch.objects):
        sketch.objects.append(body("moorage.dev/v1alpha1", "Topology", "levels", spec={"levels": LEVELS}))


def required_levels(sketch: Sketch, draw: Random) -> None:
    """All members in one domain."""
    _topology(sketch)
    for each in _gangs("required levels", sketch, draw, _asks):
        each.notes["moorage.dev/topology-required"] = draw.choice([RACK, RACK, BLOCK, HOST])


def preferred_levels(sketch: Sketch, draw: Random) -> None:
    """All members in one domain if possible."""
    _topology(sketch)
    for each in _gangs("preferred levels", sketch, draw, _asks):
        each.notes["moorage.dev/topology-preferred"] = draw.choice([RACK, HOST])


def slices(sketch: Sketch, draw: Random) -> None:
    """Every two members in one domain."""
    _topology(sketch)
    for each in _gangs("slices", sketch, draw, _asks):
        each.size += each.size % 2
        each.least = each.size
        each.notes["moorage.dev/topology-required"] = BLOCK
        each.notes["moorage.dev/topology-slice-required"] = draw.choice([RACK, HOST])
        each.notes["moorage.dev/topology-slice-size"] = "2"
