"""Questions of preemption: full nodes, priorities, budgets, and important pods that come."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.drawing.nodes import HOSTNAME, ZONE
from tests.parity.questions import MARK, Object, Question, Step

APPS = ("web", "db", "cache")
PRIORITIES = {"p0": 0, "p10": 10, "p20": 20, "p50": 50, "p100": 100}
EVERY_CLASS: tuple[Object, ...] = (
    *(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITIES.items()
    ),
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "never"},
        "value": 100,
        "preemptionPolicy": "Never",
    },
)
ANTI = "requiredDuringSchedulingIgnoredDuringExecution"


def draw_preemption(seed: int) -> Question:
    """One question."""
    random = Random(seed)
    nodes = [_node(random, f"{MARK}n{i}") for i in range(random.randint(1, 5))]
    bound: list[Object] = []
    for node in nodes:
        room_milli = 4000
        while room_milli > 0 and random.random() < 0.95:
            cpu_milli = random.choice((500, 500, 1000, 1000, 2000))
            if cpu_milli <= room_milli:
                bound.append(_bound(random, len(bound), node["metadata"]["name"], cpu_milli))
            room_milli -= cpu_milli
    budgets = [_budget(random, app) for app in ("web", "db") if random.random() < 0.35]
    pods = [_preemptor(random, f"{MARK}p{i}") for i in range(random.choice((1, 1, 2, 3)))]
    return Question(seed, "preemption", [*EVERY_CLASS, *nodes, *budgets, *bound], [Step(pod) for pod in pods])


def _node(random: Random, name: str) -> Object:
    labels = {HOSTNAME: name, ZONE: random.choice("ab")}
    if random.random() < 0.3:
        labels["disk"] = random.choice(("ssd", "hdd"))
    spec: dict[str, Any] = {}
    if random.random() < 0.12:
        spec["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    amounts = {"cpu": "4", "memory": "8Gi", "pods": random.choice(("110", "110", "4"))}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _pod(name: str, app: str, cpu: str, memory: str, priority: str) -> Object:
    container: Object = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"priorityClassName": priority, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def _bound(random: Random, number: int, node: str, cpu_milli: int) -> Object:
    pod = _pod(f"{MARK}e{number}", random.choice(APPS), f"{cpu_milli}m", "256Mi", random.choice(sorted(PRIORITIES)))
    pod["spec"]["nodeName"] = node
    if random.random() < 0.05:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    if random.random() < 0.1:
        term = {"labelSelector": {"matchLabels": {"app": "big"}}, "topologyKey": HOSTNAME}
        pod["spec"]["affinity"] = {"podAntiAffinity": {ANTI: [term]}}
    pod["status"] = {
        "phase": "Running",
        "startTime": f"2026-01-01T00:{number:02}:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return pod


def _budget(random: Random, app: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{MARK}{app}", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": random.choice((0, 0, 1, 2)),
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
            "observedGeneration": 1,
        },
    }


def _preemptor(random: Random, name: str) -> Object:
    cpu = random.choice(("1", "1500m", "2", "3", "4", "5"))
    priority = random.choice(("p100", "p100", "p100", "p50", "p20", "p10", "never"))
    pod = _pod(name, "big", cpu, "512Mi", priority)
    spec = pod["spec"]
    spec["schedulerName"] = "default-scheduler"
    if random.random() < 0.15:
        spec["nodeSelector"] = {ZONE: random.choice("ab")}
    if random.random() < 0.1:
        spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    if random.random() < 0.15:
        term = {"labelSelector": {"matchLabels": {"app": random.choice(("web", "db"))}}, "topologyKey": HOSTNAME}
        spec["affinity"] = {"podAntiAffinity": {ANTI: [term]}}
    if random.random() < 0.1:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "big"}},
            }
        ]
    return pod
