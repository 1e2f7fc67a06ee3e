"""Rules that a profile enables: the five examples' plugins, prices, a trial, an extender."""

from __future__ import annotations

from random import Random

from tests.crossings.bodies import SCHEDULER
from tests.crossings.sketch import Sketch

CAPACITY = "node.kubernetes.io/capacity"


def packing(sketch: Sketch, draw: Random) -> None:  # noqa: ARG001 - all have the same arguments
    """The fullest node comes first."""
    sketch.configure("NodeResourcesFit", scoringStrategy={"type": "MostAllocated"})


def planning(sketch: Sketch, draw: Random) -> None:
    """One pod per node, the most important units first."""
    sketch.plugin("PlanSort")
    sketch.plugin("OnePodPerNode")
    sketch.plugin("PriorityAnnotation", keys=["moorage.dev/priority"], namespaces=["*"], max=1000)
    sketch.disabled.append("PrioritySort")
    for each in sketch.mark("planning", draw):
        each.notes["moorage.dev/priority"] = str(draw.choice([1, 5, 20]))


def controller_spread(sketch: Sketch, draw: Random) -> None:
    """No workload with several replicas stands on one host alone."""
    sketch.plugin("ControllerSpread")
    for each in sketch.mark("controller spread", draw, lambda each: each.kind != "Pod"):
        each.annotations["moorage.dev/min-hosts"] = "2"


def _capacity(sketch: Sketch) -> None:
    for number, each in enumerate(sketch.nodes):
        each["metadata"]["labels"].setdefault(CAPACITY, "spot" if number % 2 else "on-demand")


def spot_placement(sketch: Sketch, draw: Random) -> None:
    """Workloads with several replicas go to spot nodes, the keeper looks after them."""
    _capacity(sketch)
    sketch.plugin("SpotPlacement", singleReplica=draw.choice(["Prefer", "Require"]))
    sketch.mark("spot placement", draw, lambda each: each.kind != "Pod", share=1.0)
    sketch.document("KeeperConfiguration", returnAfter="30s", moveAgainAfter="20s")


def placement_strategies(sketch: Sketch, draw: Random) -> None:
    """Pods of a workload are split over spot and on-demand nodes; the keeper repairs the split."""
    _capacity(sketch)
    sketch.plugin("PlacementStrategy", fallbackAfterSeconds=20)
    text = f"base=1,weight=1,nodeSelector={CAPACITY}:on-demand;weight=1,nodeSelector={CAPACITY}:spot"
    for each in sketch.mark("placement strategies", draw, lambda each: each.kind != "Pod", most=2):
        each.annotations["moorage.dev/schedule-strategy"] = text
    sketch.document("KeeperConfiguration", fallbackAfter="20s", moveAgainAfter="20s")


def cost_aware(sketch: Sketch, draw: Random) -> None:
    """Cheap nodes first."""
    prices = [
        {"labels": {"kubernetes.io/hostname": each["metadata"]["name"]}, "pricePerHour": draw.choice(["0.1", "0.4"])}
        for each in sketch.nodes
    ]
    sketch.plugin("CostAware", prices=prices)


def trials(sketch: Sketch, draw: Random) -> None:
    """Another profile is tried for some of the pods."""
    for each in sketch.mark("trials", draw):
        each.labels["trial"] = "yes"
    strategy = {"scoringStrategy": {"type": "MostAllocated"}}
    profile = {"schedulerName": SCHEDULER, "pluginConfig": [{"name": "NodeResourcesFit", "args": strategy}]}
    about = {"pods": {"labels": {"trial": "yes"}}, "duration": draw.choice(["30s", "2h"]), "profiles": [profile]}
    sketch.document("TrialConfiguration", name="packed", **about)


def extenders(sketch: Sketch, draw: Random) -> None:
    """An HTTP extender refuses a node, and prefers others."""
    refused = draw.choice(sketch.nodes)["metadata"]["labels"]
    refused["extender"] = "refused"
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
    sketch.extenders.append({"urlPrefix": "http://extender.invalid", **verbs, "weight": 1})


def repacking(sketch: Sketch, draw: Random) -> None:
    """The keeper moves pods so that others find room, or nodes become empty."""
    aims = draw.choice([["Room"], ["Room", "Empty"]])
    about = {"aims": aims, "settleAfter": "10s", "restAfter": "60s", "movesPerHour": 600}
    sketch.document("KeeperConfiguration", repack=about, moveAgainAfter="20s")
