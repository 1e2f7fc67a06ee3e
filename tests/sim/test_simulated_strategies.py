"""Placement strategies in simulations: the shipped samples, policies in files, and what is said about mistakes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy, targets
from moorage.plugins.placement_strategy import PlacementStrategy
from moorage.sim.outcome import SimulationOutcome
from tests.plugins.controlled import packing_rules, simulated

OURS, OTHERS = STRATEGY_ANNOTATIONS
RULES = packing_rules(PlacementStrategy)
SAMPLES: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "web-app": (
        "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot",
        {"first": {"node-type": "ondemand"}, "second": {"node-type": "spot"}},
    ),
    "base 2, weights 1 and 3": (
        "base=2,weight=1,nodeSelector=node-type:ondemand;weight=3,nodeSelector=node-type:spot",
        {"first": {"node-type": "ondemand"}, "second": {"node-type": "spot"}},
    ),
    "zones and node types": (
        "base=1,weight=2,nodeSelector=zone:us-west-1a,node-type:ondemand;weight=1,nodeSelector=zone:us-west-1b,node-type:spot",
        {
            "first": {"zone": "us-west-1a", "node-type": "ondemand"},
            "second": {"zone": "us-west-1b", "node-type": "spot"},
            "neither": {"zone": "us-west-1a", "node-type": "spot"},
        },
    ),
    "accelerators": (
        "base=1,weight=1,nodeSelector=accelerator:nvidia-tesla-k80;weight=2,nodeSelector=accelerator:nvidia-tesla-v100",
        {"first": {"accelerator": "nvidia-tesla-k80"}, "second": {"accelerator": "nvidia-tesla-v100"}},
    ),
}


def cluster(pools: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Two nodes with these labels for each pool, and two without any."""
    return [
        node_manifest(f"{pool}-{number}", cpu="32", labels=labels)
        for pool, labels in {**pools, "plain": {}}.items()
        for number in range(2)
    ]


def split(outcome: SimulationOutcome) -> Counter[str | None]:
    """Pods by pool; None for those that wait."""
    return Counter(story.node and story.node.rpartition("-")[0] for story in outcome.pods)


@pytest.mark.parametrize("replicas", [1, 6, 7, 20])
@pytest.mark.parametrize(("text", "pools"), SAMPLES.values(), ids=SAMPLES.keys())
def test_the_samples_are_split_exactly(text: str, pools: dict[str, dict[str, str]], replicas: int) -> None:
    """Every pod stands on a node of a rule, and each rule has its target."""
    workload = workload_manifest("Deployment", "web-app", own={"replicas": replicas}, annotations={OTHERS: text})
    first, second = targets(parse_strategy(text), replicas)
    assert split(simulated([*cluster(pools), workload], RULES)) == Counter(first=first, second=second)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_every_kind_of_controller_is_split(kind: str) -> None:
    """6 replicas, base 1, weights 1 to 2: 3 and 3."""
    text, pools = SAMPLES["web-app"]
    own = {"parallelism": 6, "completions": 6} if kind == "Job" else {"replicas": 6}
    workload = workload_manifest(kind, "web-app", own=own, annotations={OURS: text})
    assert split(simulated([*cluster(pools), workload], RULES)) == {"first": 3, "second": 3}


@pytest.mark.parametrize("by", [OURS, OTHERS, "policy"])
def test_pods_without_a_controller_are_split_together(by: str) -> None:
    """Six with one strategy in a namespace are 3 and 3, as under the webhook; those of other namespaces are others."""
    text, pools = SAMPLES["web-app"]
    notes = {} if by == "policy" else {by: text}
    pods = [
        pod_manifest(f"web-{number}", cpu="100m", labels={"app": "web-app"}, annotations=notes) for number in range(6)
    ]
    rules = [
        {"base": 1, "weight": 1, "nodeSelector": {"node-type": "ondemand"}},
        {"weight": 2, "nodeSelector": {"node-type": "spot"}},
    ]
    policies = [policy(rules)] if by == "policy" else []
    assert split(simulated([*cluster(pools), *policies, *pods], RULES)) == {"first": 3, "second": 3}
    lone = pod_manifest("lone", namespace="other", cpu="100m", annotations={OURS: text})
    outcome = simulated([*cluster(pools), *pods, lone], RULES)
    assert {story.node.rpartition("-")[0] for story in outcome.pods if story.name == "lone" and story.node} == {"first"}


def policy(rules: list[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web-app"}}, "rules": rules},
    }


def test_policies_are_read_from_files() -> None:
    """The workload says nothing itself, and another one is left alone."""
    rules = [{"base": 1, "weight": 1, "nodeSelector": {"node-type": "ondemand"}}]
    rules.append({"weight": 2, "nodeSelector": {"node-type": "spot"}})
    web = workload_manifest("Deployment", "web-app", own={"replicas": 6})
    other = workload_manifest("Deployment", "other", own={"replicas": 4})
    nodes = cluster(SAMPLES["web-app"][1])
    outcome = simulated([*nodes, policy(rules), web, other], RULES)
    placed = Counter(
        story.node and story.node.rpartition("-")[0] for story in outcome.pods if story.name.startswith("web-app")
    )
    assert placed == {"first": 3, "second": 3}
    assert outcome.ignored == {}


def test_without_room_the_simulation_waits_for_the_fallback() -> None:
    """Time is virtual: the pods that found no on-demand room go to spot, and none is left over."""
    text, pools = SAMPLES["web-app"]
    workload = workload_manifest("Deployment", "web-app", own={"replicas": 6}, annotations={OURS: text})
    only_spot = [node for node in cluster(pools) if not node["metadata"]["name"].startswith("first")]
    assert split(simulated([*only_spot, workload], RULES)) == {"second": 6}


def test_without_nodes_for_any_rule_the_simulation_places_by_default() -> None:
    """After the time of the fallback, with a warning."""
    text, _ = SAMPLES["web-app"]
    workload = workload_manifest("Deployment", "web-app", own={"replicas": 3}, annotations={OURS: text})
    outcome = simulated([*cluster({}), workload], RULES)
    assert split(outcome) == {"plain": 3}
    (warning,) = outcome.warnings
    assert "no node has the labels node-type:ondemand of rule 1" in warning


@pytest.mark.parametrize("why", ["cordoned", "full"])
def test_nodes_of_a_rule_that_take_no_pod_are_no_nodes(why: str) -> None:
    """As under the webhook and the keeper: after the time of the fallback the pods go elsewhere, with a warning."""
    text = "weight=1,nodeSelector=node-type:spot"
    workload = workload_manifest("Deployment", "web", own={"replicas": 2}, annotations={OURS: text}, cpu="1")
    spot = node_manifest("spot-0", cpu="32" if why == "cordoned" else "500m", labels={"node-type": "spot"})
    spot["spec"] = {"unschedulable": why == "cordoned"}
    outcome = simulated([*cluster({}), spot, workload], RULES)
    assert split(outcome) == {"plain": 2}
    (warning,) = outcome.warnings
    assert "no node with the labels node-type:spot of rule 1" in warning


def test_a_strategy_that_cannot_be_read_is_a_warning() -> None:
    """Pods are placed all the same, and the report says what is wrong, once."""
    workload = workload_manifest("Deployment", "web-app", own={"replicas": 3}, annotations={OURS: "weight=1"})
    outcome = simulated([*cluster({}), workload], RULES)
    assert split(outcome) == {"plain": 3}
    (warning,) = outcome.warnings
    assert "column 1: rule 1 has no nodeSelector" in warning
