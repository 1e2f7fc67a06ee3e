"""Nodes drawn at random: labels, taints, resources, images."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.questions import MARK, Object

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
IMAGES = {"plain:latest": 300 << 20} | {
    f"registry.example/app{i}:v1": mb << 20 for i, mb in enumerate((10, 40, 60, 250, 700, 1500))
}
TAINT_KEYS = ("dedicated", "maint", "spot")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
LABEL_VALUES = {
    "disk": ("ssd", "hdd", "nvme"),
    "gen": ("1", "2", "3", "10", "old"),
    "node-type": ("spot", "ondemand"),
    "gpu": ("",),
}


def draw_nodes(random: Random) -> list[Object]:
    """A few nodes, most of them in zones."""
    return [draw_node(random, f"{MARK}n{i}") for i in range(random.choice((1, 2, 3, 4, 5, 6, 7, 8)))]


def draw_node(random: Random, name: str) -> Object:
    """One node."""
    allocatable = {
        "cpu": random.choice(("1900m", "2", "3500m", "4", "8")),
        "memory": random.choice(("4Gi", "6000Mi", "8Gi", "16Gi")),
        "pods": random.choice((*("110",) * 6, "3")),
        "ephemeral-storage": random.choice(("20Gi", "100Gi")),
    }
    if random.random() < 0.3:
        allocatable[GPU] = random.choice(("1", "2", "4"))
    if random.random() < 0.1:
        allocatable[HUGE] = "64Mi"
    spec: dict[str, Any] = {}
    if random.random() < 0.04:
        spec["unschedulable"] = True
    taints = draw_taints(random)
    if taints:
        spec["taints"] = taints
    images = random.sample(sorted(IMAGES), random.randrange(5))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": draw_labels(random, name)},
        "spec": spec,
        "status": {
            "capacity": {**allocatable, "cpu": "8"},
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [image], "sizeBytes": IMAGES[image]} for image in images],
        },
    }


def draw_labels(random: Random, name: str) -> dict[str, str]:
    """Labels of a node, the hostname among them."""
    labels = {HOSTNAME: name}
    if random.random() < 0.9:
        labels[ZONE] = random.choice("abc")
    if random.random() < 0.3:
        labels[REGION] = random.choice(("r1", "r2"))
    for key, values in LABEL_VALUES.items():
        if random.random() < 0.4:
            labels[key] = random.choice(values)
    return labels


def draw_taints(random: Random) -> list[Object]:
    """Mostly none; a key and effect only once."""
    found: dict[tuple[str, str], Object] = {}
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 1, 2))):
        key, effect = random.choice(TAINT_KEYS), random.choice(EFFECTS)
        found[key, effect] = {"key": key, "value": random.choice(("", "x", "y")), "effect": effect}
    return [*found.values()]
