"""How many pods each rule of a strategy has: all that count them come to the same numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.follow import follow
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.objects import PLACEMENT_POLICY, PlacementPolicy, Workload
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Owner, Pod
from moorage.core.selectors import EVERYTHING
from moorage.core.state import ClusterState
from moorage.core.strategies import rule_counts
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy, restamped, rule_of, stamp_of
from moorage.engine.admission import Admission
from moorage.engine.keeping.members import Members
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


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("by", ["annotation", "policy"])
def test_pods_without_an_owner_are_one_workload_for_all(seed: int, by: str) -> None:
    """Those with one strategy text in a namespace, or with one policy and the same labels; others do not count."""
    rng = Random(seed)
    nodes = [some_node(rng, f"n{number}") for number in range(6)]
    notes = {STRATEGY_ANNOTATIONS[1]: TEXT} if by == "annotation" else {}
    app = {"app": "web"}
    bare = [
        replace(
            pod,
            template=replace(pod.template, owner=None, annotations=FrozenDict({**pod.template.annotations, **notes})),
        )
        for pod in (some_pod(rng, f"web-{number}", rng.choice(nodes).node.name) for number in range(30))
    ]
    ours = [replace(pod, template=replace(pod.template, labels=FrozenDict(app))) for pod in bare]
    others = [make_pod(f"other-{number}", node="n0", labels={"app": "db"}) for number in range(3)]
    policy = PlacementPolicy("default", "web", selector=EVERYTHING, rules=STRATEGY)
    known: list[Event] = [] if by == "annotation" else [ObjectSeen(PLACEMENT_POLICY, policy.key, policy)]
    state, webhook = ClusterState(), Admission()
    for event in [*known, *nodes, *map(PodSeen, [*ours, *others])]:
        webhook.handle(event)
        follow(state, event)
    labels = {node.node.name: node.node.labels for node in nodes}
    rules = [rule_of(STRATEGY, stamp_of(pod.template), labels[pod.node or ""]) for pod in ours]
    want = tuple(rules.count(rule) for rule in range(3))
    template = ours[0].template
    members = Members()
    for pod in [*ours, *others]:
        members.see(pod)
    split = Splits(state).review(strategy_group(template), members.of(strategy_group(template)))
    assert split is not None
    assert split.title == ("default", "Pod", min(pod.name for pod in ours))
    assert rule_counts(state, template, STRATEGY) == split.actual == webhook.counts(template, STRATEGY, 0.0) == want
    check_invariants(state)
    state.remove_pod(ours[0].uid)
    check_invariants(state)
