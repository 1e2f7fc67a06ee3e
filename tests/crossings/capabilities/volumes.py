"""Volumes that only some nodes can use."""

from __future__ import annotations

import functools
from random import Random

from tests.crossings.bodies import (
    LOCAL,
    PROVISIONED,
    Body,
    local_volume,
    storage_class,
    volume_claim,
    volume_claim_spec,
)
from tests.crossings.sketch import Sketch, Workload


def _use(sketch: Sketch, each: Workload, class_name: str) -> None:
    """A claim of its own for every pod: of the StatefulSet, ephemeral, or by the name of the pod."""
    spec = volume_claim_spec(class_name)
    if each.kind == "StatefulSet":
        each.claims.append({"metadata": {"name": class_name}, "spec": spec})
    elif each.kind == "Pod":
        each.each.append(lambda pod, number: _name(pod, f"{each.name}-{class_name}-{number}"))
        for number in range(each.size):
            claim = volume_claim(f"{each.name}-{class_name}-{number}", class_name, each.namespace)
            sketch.deed(each.at_s, "create", object=claim)
    else:
        volume: Body = {"name": class_name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        each.spec.setdefault("volumes", []).append(volume)


def _name(pod: Body, claim: str) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": f"v{len(volumes)}", "persistentVolumeClaim": {"claimName": claim}})


def local_volumes(sketch: Sketch, draw: Random) -> None:
    """A few volumes on each node, bound when the pod is placed; one that was used is not used again."""
    sketch.objects.append(storage_class(LOCAL, "kubernetes.io/no-provisioner"))
    for each in sketch.nodes:
        name = each["metadata"]["name"]
        for number in range(draw.choice([1, 2, 3])):
            sketch.objects.append(local_volume(f"{name}-disk-{number}", name))
    for workload in sketch.mark("local volumes", draw, most=2):
        workload.finish.append(functools.partial(_use, sketch, workload, LOCAL))


def provisioned_volumes(sketch: Sketch, draw: Random) -> None:
    """Volumes that are made where the pod is placed."""
    sketch.objects.append(storage_class(PROVISIONED, "disks.example.com"))
    for workload in sketch.mark("provisioned volumes", draw, most=2):
        workload.finish.append(functools.partial(_use, sketch, workload, PROVISIONED))
