"""What happens beside arrivals: nodes and pods come and go, others decide too, writes fail or are late."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from random import Random

from tests.crossings.bodies import HOST, Body, body, node, pod_spec
from tests.crossings.capabilities.priorities import strict_budgets
from tests.crossings.sketch import SCALED, Sketch


def cordons(sketch: Sketch, draw: Random) -> None:
    """A node is closed, perhaps opened again."""
    name = draw.choice(sketch.nodes)["metadata"]["name"]
    at_s = sketch.some_time(draw)
    sketch.deed(at_s, "patch", kind="Node", name=name, patch={"spec": {"unschedulable": True}})
    if draw.random() < 0.6:
        sketch.deed(at_s + draw.choice([20.0, 450.0]), "patch", kind="Node", name=name, patch=_OPEN)


_OPEN: Body = {"spec": {"unschedulable": None}}


def lost_nodes(sketch: Sketch, draw: Random) -> None:
    """A node is gone, and comes back or not."""
    lost = draw.choice(sketch.nodes)
    at_s = sketch.some_time(draw)
    sketch.deed(at_s, "delete", kind="Node", name=lost["metadata"]["name"])
    if draw.random() < 0.6:
        sketch.deed(at_s + draw.choice([3.0, 30.0, 450.0]), "create", object=deepcopy(lost))


def new_nodes(sketch: Sketch, draw: Random) -> None:
    """A node like another one is added."""
    labels = dict(draw.choice(sketch.nodes)["metadata"]["labels"])
    labels.pop(HOST)
    sketch.deed(sketch.some_time(draw), "create", object=node("n9", cpu=4, labels=labels))


def gates(sketch: Sketch, draw: Random) -> None:
    """Pods that may not be placed yet."""
    for each in sketch.mark("gates", draw, lambda each: each.kind in ("Pod", "StatefulSet"), most=1):
        each.spec["schedulingGates"] = [{"name": "example.com/wait"}]
        at_s = each.at_s + draw.choice([2.0, 30.0])
        for number in range(each.size):
            about = {"kind": "Pod", "namespace": each.namespace, "name": f"{each.name}-{number}"}
            sketch.deed(at_s, "patch", **about, patch={"spec": {"schedulingGates": None}})


def nominated_pods(sketch: Sketch, draw: Random) -> None:
    """A pod is nominated to a node by somebody else."""
    name = draw.choice(sketch.nodes)["metadata"]["name"]
    for each in sketch.mark("nominated pods", draw, lambda each: each.kind == "Pod", most=1):
        about = {"kind": "Pod", "namespace": each.namespace, "name": f"{each.name}-0"}
        sketch.deed(each.at_s, "status", **about, patch={"nominatedNodeName": name})


def other_schedulers(sketch: Sketch, draw: Random) -> None:
    """Pods of another scheduler, which binds them where there is room."""
    for number in range(draw.choice([1, 2])):
        spec = pod_spec(draw.choice(["1", "2"]))
        spec["schedulerName"] = "other"
        name, at_s = f"stranger-{number}", sketch.some_time(draw)
        metadata = {"labels": {"app": "stranger"}}
        sketch.deed(at_s, "create", object=body("v1", "Pod", name, "default", metadata=metadata, spec=spec))
        sketch.deed(at_s + 0.5, "place", name=name)


def terminating_pods(sketch: Sketch, draw: Random) -> None:
    """Pods that take their time to leave, and some that are deleted by their users."""
    sketch.terms["stop_s"] = draw.choice([8.0, 25.0])
    for _ in range(draw.choice([1, 2])):
        app = draw.choice(sketch.workloads).name
        sketch.deed(sketch.some_time(draw), "delete pods", app=app, count=draw.choice([1, 2]))


def scale_steps(sketch: Sketch, draw: Random) -> None:
    """Workloads grow and shrink."""
    for each in sketch.mark("scale steps", draw, lambda each: each.kind in SCALED, most=2):
        about = {"kind": each.kind, "namespace": each.namespace, "name": each.name}
        replicas = draw.choice([0, 1, each.size + 1, each.size + 3])
        sketch.deed(each.at_s + draw.choice([5.0, 60.0]), "patch", **about, patch={"spec": {"replicas": replicas}})


def ended_workloads(sketch: Sketch, draw: Random) -> None:
    """Workloads are deleted."""
    for each in sketch.mark("ended workloads", draw, share=0.4):
        at_s = each.at_s + draw.choice([3.0, 50.0, 450.0])
        if each.kind == "Pod":
            sketch.deed(at_s, "delete pods", app=each.name, count=each.size)
        else:
            sketch.deed(at_s, "delete", kind=each.kind, namespace=each.namespace, name=each.name)


def failing_writes(sketch: Sketch, draw: Random) -> None:
    """The API server refuses some writes."""
    for _ in range(draw.choice([1, 2, 3])):
        what = draw.choice(["delete", "delete", "bind", "status", "object"])
        arrival_s = max(draw.choice(sketch.workloads).at_s - 0.01, 0.0)
        sketch.deed(draw.choice([arrival_s, sketch.some_time(draw)]), "fail", what=what, skip=draw.choice([0, 1, 2]))


def late_writes(sketch: Sketch, draw: Random) -> None:
    """Writes take their time, and overtake each other."""
    sketch.terms["late_s"] = draw.choice([0.05, 0.3])


def late_budgets(sketch: Sketch, draw: Random) -> None:
    """The status of budgets follows some time after what it depends on; workloads arrive in between."""
    strict_budgets(sketch, draw)
    for before, each in pairwise(sketch.workloads):
        if draw.random() < 0.4:
            each.at_s = before.at_s + 0.1
    sketch.terms["budgets_s"] = draw.choice([0.4, 2.0])
