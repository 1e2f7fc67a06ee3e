"""Rules of pods about nodes and about each other."""

from __future__ import annotations

from random import Random

from tests.crossings.bodies import HOST, ZONE, Body
from tests.crossings.sketch import Sketch


def host_ports(sketch: Sketch, draw: Random) -> None:
    """One pod with the port per node."""
    for each in sketch.mark("host ports", draw, most=2):
        port = draw.choice([8080, 8080, 9090])
        each.spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]


def topology_spread(sketch: Sketch, draw: Random) -> None:
    """Pods of a workload evenly over hosts or zones."""
    for each in sketch.mark("topology spread", draw, most=2):
        constraint: Body = {
            "maxSkew": 1,
            "topologyKey": draw.choice([HOST, ZONE]),
            "whenUnsatisfiable": draw.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": each.name}},
        }
        each.spec["topologySpreadConstraints"] = [constraint]


def _term(app: str, key: str) -> list[Body]:
    return [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]


def pod_affinity(sketch: Sketch, draw: Random) -> None:
    """Pods beside others of their own, or of a workload that comes first."""
    for each in sketch.mark("pod affinity", draw, most=2):
        first = sketch.workloads[0]
        app = first.name if draw.random() < 0.4 and first.namespace == each.namespace else each.name
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": _term(app, draw.choice([ZONE, HOST]))}
        each.spec.setdefault("affinity", {})["podAffinity"] = terms


def pod_anti_affinity(sketch: Sketch, draw: Random) -> None:
    """Pods that are not beside others of their own."""
    for each in sketch.mark("pod anti-affinity", draw, most=2):
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": _term(each.name, draw.choice([HOST, HOST, ZONE]))}
        each.spec.setdefault("affinity", {})["podAntiAffinity"] = terms


def taints(sketch: Sketch, draw: Random) -> None:
    """A node that only some pods tolerate."""
    chosen = draw.choice(sketch.nodes)
    chosen["spec"]["taints"] = [{"key": "dedicated", "value": "team", "effect": "NoSchedule"}]
    for each in sketch.mark("taints", draw):
        each.spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]


def node_selectors(sketch: Sketch, draw: Random) -> None:
    """Pods that want some nodes only."""
    for number, each in enumerate(sketch.nodes):
        each["metadata"]["labels"]["disk"] = "fast" if number % 2 == 0 else "slow"
    for workload in sketch.mark("node selectors", draw, most=3):
        if draw.random() < 0.5:
            workload.spec["nodeSelector"] = {"disk": draw.choice(["fast", "slow"])}
        else:
            wanted = [{"key": "disk", "operator": "In", "values": ["fast"]}]
            terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            workload.spec.setdefault("affinity", {})["nodeAffinity"] = required
