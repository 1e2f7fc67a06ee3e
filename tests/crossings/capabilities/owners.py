"""Who makes the pods; a ReplicaSet unless a capability says otherwise."""

from __future__ import annotations

from random import Random

from tests.crossings.bodies import RUN_SECONDS, body, pod_spec
from tests.crossings.sketch import Sketch, Workload


def _plain(workload: Workload) -> bool:
    return workload.kind == "ReplicaSet"


def bare_pods(sketch: Sketch, draw: Random) -> None:
    """Pods that nobody makes again."""
    for each in sketch.mark("bare pods", draw, _plain, most=2):
        each.kind = "Pod"


def deployments(sketch: Sketch, draw: Random) -> None:
    """A Deployment, with a ReplicaSet of its own."""
    for each in sketch.mark("deployments", draw, _plain, most=2):
        each.kind = "Deployment"


def jobs(sketch: Sketch, draw: Random) -> None:
    """Jobs, whose pods end."""
    for each in sketch.mark("jobs", draw, _plain, most=2):
        each.kind = "Job"
        each.notes[RUN_SECONDS] = str(draw.choice([3, 20, 60]))


def stateful_sets(sketch: Sketch, draw: Random) -> None:
    """Pods that come back under the same name."""
    for each in sketch.mark("stateful sets", draw, _plain, most=2):
        each.kind = "StatefulSet"


def daemon_sets(sketch: Sketch, draw: Random) -> None:
    """A pod on every node, more important than most."""
    template = {"metadata": {"labels": {"app": "daemon"}}, "spec": pod_spec(draw.choice(["250m", "1"]))}
    spec = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template}
    made = body("apps/v1", "DaemonSet", "daemon", "default", spec=spec)
    sketch.deed(draw.choice([0.0, sketch.some_time(draw)]), "create", object=made)
