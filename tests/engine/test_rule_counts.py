"""How many pods each rule of a strategy has: all that count them come to the same numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.follow import follow
from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Owner, Pod
from moorage.core.state import ClusterState
from moorage.core.strategies import rule_counts
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy, restamped, rule_of, stamp_of
from moorage.engine.admission import Admission
from moorage.engine.keeping.splits import Splits
from moorage.testing.builders import make_node, make_pod

TEXT = "base=1,weight=1,nodeSelector=zone:a;weight=2,nodeSelector=zone:a,type:spot;weight=1,nodeSelector=type:spot"
STRATEGY = parse_strategy(TEXT)
WEB = Owner("ReplicaSet", "web", "uid-web", "apps/v1")


def some_node(rng: Random, name: str) -> NodeSeen:
    labels = {"zone": rng.choice("ab"), "type": rng.choice(["spot", "on-demand"])}
    return NodeSeen(make_node(name, cpu="64", labels=labels))


def some_pod(rng: Random, name: str, node: str) -> Pod:
    """With the stamp of a rule that holds, with one that does not, or with none."""
    pod = make_pod(name, node=node, owner=WEB)
    kind = rng.randrange(3)
    if not kind:
        return pod
    template = restamped(pod.template, STRATEGY, rng.randrange(3))
    return replace(pod, template=template if kind == 1 else replace(template, node_selector=FrozenDict()))


@pytest.mark.parametrize("seed", range(20))
def test_scheduler_keeper_and_webhook_count_alike(seed: int) -> None:
    """By the stamp if it holds, else by the node, and not at all on nodes of no rule."""
    rng = Random(seed)
    nodes = [some_node(rng, f"n{number}") for number in range(6)]
    pods = [some_pod(rng, f"web-{number}", rng.choice(nodes).node.name) for number in range(30)]
    annotations = FrozenDict({STRATEGY_ANNOTATIONS[0]: TEXT})
    workload = Workload("ReplicaSet", "default", "web", "uid-web", annotations=annotations)
    state = ClusterState()
    webhook = Admission()
    events: list[Event] = [*nodes, ObjectSeen("ReplicaSet", workload.key, workload), *map(PodSeen, pods)]
    for event in events:
        webhook.handle(event)
        follow(state, event)
    labels = {node.node.name: node.node.labels for node in nodes}
    rules = [rule_of(STRATEGY, stamp_of(pod.template), labels[pod.node or ""]) for pod in pods]
    want = tuple(rules.count(rule) for rule in range(3))
    template = pods[0].template
    split = Splits(state).review("uid-web", pods)
    assert split is not None
    assert rule_counts(state, template, STRATEGY) == split.actual == webhook.counts(template, STRATEGY, 0.0) == want
