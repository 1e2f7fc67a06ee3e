"""Priorities, and what protects pods."""

from __future__ import annotations

import functools
from random import Random

from tests.crossings.bodies import Body, body, budget
from tests.crossings.sketch import Sketch, Workload


def _class(sketch: Sketch, value: int, policy: str = "") -> str:
    name = f"p{value}{policy.lower()}"
    extra = {"preemptionPolicy": policy} if policy else {}
    made = body("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **extra)
    if not any(each["metadata"]["name"] == name and each["kind"] == "PriorityClass" for each in sketch.objects):
        sketch.objects.insert(0, made)
    return name


def priorities(sketch: Sketch, draw: Random) -> None:
    """Later workloads are more important, so that they preempt."""
    for each in sketch.mark("priorities", draw, lambda each: "priorityClassName" not in each.spec):
        rising = 10 + 10 * sketch.workloads.index(each)
        each.spec["priorityClassName"] = _class(sketch, draw.choice([10, rising, rising, 150]))


def preempting_never(sketch: Sketch, draw: Random) -> None:
    """Important pods that evict nobody."""
    for each in sketch.mark("preempting never", draw, lambda each: "priorityClassName" not in each.spec, most=2):
        each.spec["priorityClassName"] = _class(sketch, draw.choice([30, 60]), "Never")


def budgets(sketch: Sketch, draw: Random) -> None:
    """PodDisruptionBudgets that allow one eviction, or none."""
    for each in sketch.mark("budgets", draw, lambda each: "budgets" not in each.marks):
        each.finish.append(functools.partial(_budget, sketch, each, draw.choice([0, 0, 1]), share=draw.random() < 0.5))


def _budget(sketch: Sketch, each: Workload, unavailable: int, *, share: bool) -> None:
    bound: Body = {"minAvailable": max(each.size - unavailable, 0)}
    if share and each.kind not in ("Pod", "Job"):
        bound = {"maxUnavailable": unavailable}
    sketch.objects.append(budget(each.name, {"app": each.name}, each.namespace, **bound))


def strict_budgets(sketch: Sketch, draw: Random) -> None:
    """No scheduler's eviction may violate a budget."""
    for plugin in ("FairShare", "DefaultPreemption"):
        sketch.configure(plugin, pdbPolicy="Strict")
    budgets(sketch, draw)
