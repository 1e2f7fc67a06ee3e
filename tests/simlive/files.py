"""Random files of a cluster: nodes in groups of equal ones, workloads of every kind, and what the default set looks at.

Nothing evicts anything and nothing ends, so that a file has one story: pods come, and get a node or wait.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from moorage.adapters.memory.manifests import manifest, workload_manifest

KINDS = ("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")
SCHEDULER = "moorage"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Object = dict[str, Any]


def random_file(number: int) -> list[Object]:
    """The file of this number: nodes first, then workloads, each behind the Service that selects it."""
    draw = random.Random(number)
    objects = [*_nodes(draw)]
    for place in range(draw.randint(2, 5)):
        objects += _workload(draw, f"w{place}")
    return objects


def _nodes(draw: random.Random) -> Iterator[Object]:
    zones = draw.choice([0, 0, 2, 3])
    number = 0
    for group in range(draw.randint(1, 3)):
        cpu, memory = draw.choice([("2", "4Gi"), ("4", "8Gi"), ("4", "16Gi"), ("8", "16Gi")])
        labels = {"disk": draw.choice(["ssd", "hdd"])} | ({ZONE: f"z{group % zones}"} if zones else {})
        effect = draw.choice([None, None, None, None, "NoSchedule", "PreferNoSchedule"])
        for _ in range(draw.randint(1, 4)):
            number += 1
            yield node(f"n{number}", cpu, memory, labels, effect)


def node(name: str, cpu: str, memory: str, labels: dict[str, str], effect: str | None = None) -> Object:
    """A ready node, with a taint `team=a` of this effect."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    taints = {"taints": [{"key": "team", "value": "a", "effect": effect}]} if effect else {}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    made = manifest("Node", name, "", spec=taints, status=status, labels={HOSTNAME: name, **labels})
    del made["metadata"]["namespace"]
    return made


def _workload(draw: random.Random, name: str) -> Iterator[Object]:
    kind, count = draw.choice(KINDS), draw.randint(1, 8)
    own: Object = {}
    if kind in ("Job", "CronJob"):
        own = {"parallelism": count, "completions": count + draw.randint(0, 2)}
    elif kind != "DaemonSet":
        own = {"replicas": count}
    if kind == "StatefulSet":
        own |= {"serviceName": name, "podManagementPolicy": draw.choice(["Parallel", "OrderedReady"])}
    spec: Object = {"cpu": draw.choice(["100m", "250m", "500m", "1"]), "memory": draw.choice(["64Mi", "256Mi", "1Gi"])}
    for choose in (_tolerations, _node_wishes, _spread, _apart):
        if draw.random() < 0.3:
            choose(draw, name, spec)
    if draw.random() < 0.3:
        body = {"selector": {"app": name}, "ports": [{"port": 80}]}
        yield manifest("Service", name, spec=body)
    yield workload(kind, name, own, draw.random() < 0.15 and kind != "DaemonSet", **spec)


def workload(kind: str, name: str, own: Object, gang: bool = False, **spec: Any) -> Object:
    """A workload of Moorage's; a gang needs all of its pods."""
    made = workload_manifest(kind, name, own=own, **{"schedulerName": SCHEDULER, **spec})
    body = made["spec"]
    if kind == "ReplicationController":
        body["selector"] = {"app": name}
    if kind == "CronJob":
        body["concurrencyPolicy"], body["schedule"] = "Forbid", "* * * * *"
        body = body["jobTemplate"]["spec"]
    if gang and own.get("podManagementPolicy") != "OrderedReady":
        size = own.get("replicas") or own["parallelism"]
        said = {"moorage.dev/pod-group": name, "moorage.dev/pod-group-min-available": str(size)}
        body["template"]["metadata"]["annotations"] = said
    return made


def _tolerations(_: random.Random, __: str, spec: Object) -> None:
    spec["tolerations"] = [{"key": "team", "operator": "Exists"}]


def _node_wishes(draw: random.Random, _: str, spec: Object) -> None:
    wish = {"key": "disk", "operator": "In", "values": ["ssd"]}
    if draw.random() < 0.5:
        spec["nodeSelector"] = {"disk": "ssd"}
        return
    term = {"weight": draw.randint(1, 100), "preference": {"matchExpressions": [wish]}}
    affinity = spec.setdefault("affinity", {})
    affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(draw: random.Random, name: str, spec: Object) -> None:
    constraint = {
        "maxSkew": draw.randint(1, 2),
        "topologyKey": draw.choice([ZONE, HOSTNAME]),
        "whenUnsatisfiable": draw.choice(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": name}},
    }
    if draw.random() < 0.3:
        constraint["matchLabelKeys"] = ["pod-template-hash"]
    spec["topologySpreadConstraints"] = [constraint]


def _apart(draw: random.Random, name: str, spec: Object) -> None:
    """From its own kind, or to the pods of the first workload."""
    other = draw.choice([name, "w0"])
    term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": HOSTNAME}
    affinity = spec.setdefault("affinity", {})
    if other == name and draw.random() < 0.4:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return
    part = "podAntiAffinity" if other == name else "podAffinity"
    weighted = {"weight": draw.randint(1, 100), "podAffinityTerm": term}
    affinity[part] = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
