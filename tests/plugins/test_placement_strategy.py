"""PlacementStrategy: which rule a pod is due for, what happens without room, and that scaling keeps the split exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from pydantic import ValidationError

from moorage.core.capacity import Capacity
from moorage.core.commands import RecordEvent
from moorage.core.events import NodeGone, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    PLACEMENT_POLICY,
    REPLICA_SET,
    STATEFUL_SET,
    PlacementPolicy,
    Workload,
)
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.selectors import EVERYTHING, Operator, Requirement, Selector
from moorage.core.state import ClusterState
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS, parse_strategy, targets
from moorage.framework.changes import Change, What
from moorage.framework.contract import TellsCapacity
from moorage.framework.cycle import Cycle
from moorage.framework.status import SKIP, Code
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.placement_strategy import PlacementStrategy, PlacementStrategyArgs
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod
from moorage.wire.policy_rules import read_rules
from tests.engine.play import Play
from tests.plugins.controlled import make_workload, owner_of, pod_of, reasons_for, state_with

OURS, OTHERS = STRATEGY_ANNOTATIONS
WEB = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
SPOT_FIRST = "weight=1,nodeSelector=node-type:spot;weight=1,nodeSelector=node-type:ondemand"
ON_DEMAND, SPOT, PLAIN = (
    make_node("ondemand", labels={"node-type": "ondemand"}),
    make_node("spot", labels={"node-type": "spot"}),
    make_node("plain"),
)
NODES = [ON_DEMAND, SPOT, PLAIN]
NOT_ON_DEMAND = "node(s) not in rule 1 (node-type:ondemand) of the placement strategy"
NOT_SPOT = "node(s) not in rule 2 (node-type:spot) of the placement strategy"
TO_ON_DEMAND = {"spot": [NOT_ON_DEMAND], "plain": [NOT_ON_DEMAND]}
TO_SPOT = {"ondemand": [NOT_SPOT], "plain": [NOT_SPOT]}
ANYWHERE: dict[str, list[str]] = {}


def said(text: str = WEB, key: str = OURS) -> dict[str, str]:
    return {key: text}


def policy(
    name: str, *rules: dict[str, Any], selector: Selector = EVERYTHING, namespace: str = "default"
) -> PlacementPolicy:
    return PlacementPolicy(namespace, name, selector=selector, rules=read_rules(rules))


def selecting(key: str, value: str) -> Selector:
    return Selector((Requirement(key, Operator.IN, (value,)),))


RULES = (
    {"base": 1, "weight": 1, "nodeSelector": {"node-type": "ondemand"}},
    {"weight": 2, "nodeSelector": {"node-type": "spot"}},
)

# --- where a strategy is found ---

SPOT_RULE = {"weight": 1, "nodeSelector": {"node-type": "spot"}}
DEPLOYED = make_workload(REPLICA_SET, "web", 6, owner=owner_of(DEPLOYMENT, "web"))
POD = pod_of(REPLICA_SET, "web", labels={"app": "web"})
ONLY_SPOT = {
    name: ["node(s) not in rule 1 (node-type:spot) of the placement strategy"] for name in ("ondemand", "plain")
}

SOURCES: dict[str, tuple[Pod, list[Any], dict[str, list[str]]]] = {
    "none": (POD, [DEPLOYED, make_workload(DEPLOYMENT, "web", 6)], ANYWHERE),
    "a Deployment": (POD, [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said())], TO_ON_DEMAND),
    "the other key": (
        POD,
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said(key=OTHERS))],
        TO_ON_DEMAND,
    ),
    "both keys": (
        POD,
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations={**said(), **said(SPOT_FIRST, OTHERS)})],
        TO_ON_DEMAND,
    ),
    "a ReplicaSet": (POD, [make_workload(REPLICA_SET, "web", 6, annotations=said())], TO_ON_DEMAND),
    "a StatefulSet": (
        pod_of(STATEFUL_SET, "db"),
        [make_workload(STATEFUL_SET, "db", 6, annotations=said())],
        TO_ON_DEMAND,
    ),
    "a Job": (pod_of(JOB, "sum"), [make_workload(JOB, "sum", 6, annotations=said())], TO_ON_DEMAND),
    "a CronJob": (
        pod_of(JOB, "sum"),
        [
            make_workload(JOB, "sum", 6, owner=owner_of(CRON_JOB, "sum")),
            make_workload(CRON_JOB, "sum", 6, annotations=said()),
        ],
        TO_ON_DEMAND,
    ),
    "the Job of a CronJob": (
        pod_of(JOB, "sum"),
        [
            make_workload(JOB, "sum", 6, owner=owner_of(CRON_JOB, "sum"), annotations=said()),
            make_workload(CRON_JOB, "sum", 6),
        ],
        TO_ON_DEMAND,
    ),
    "the pod": (
        pod_of(REPLICA_SET, "web", annotations=said()),
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6)],
        TO_ON_DEMAND,
    ),
    "the controller's counts before the pod's": (
        pod_of(REPLICA_SET, "web", annotations=said(SPOT_FIRST)),
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said())],
        TO_ON_DEMAND,
    ),
    "a pod without controller": (make_pod("a", annotations=said()), [], TO_ON_DEMAND),
    "an owner that nobody knows": (
        make_pod("a", annotations=said(), owner=Owner("Workflow", "w", "u", "argoproj.io/v1")),
        [],
        TO_ON_DEMAND,
    ),
    "what was copied to a ReplicaSet counts for nothing": (
        POD,
        [replace(DEPLOYED, annotations=FrozenDict(said())), make_workload(DEPLOYMENT, "web", 6)],
        ANYWHERE,
    ),
    "what was copied to a ReplicaSet counts until the Deployment is seen": (
        POD,
        [replace(DEPLOYED, annotations=FrozenDict(said()))],
        TO_ON_DEMAND,
    ),
    "a policy": (POD, [DEPLOYED, policy("p", *RULES, selector=selecting("app", "web"))], TO_ON_DEMAND),
    "a policy for others": (POD, [DEPLOYED, policy("p", *RULES, selector=selecting("app", "db"))], ANYWHERE),
    "a policy elsewhere": (POD, [DEPLOYED, policy("p", *RULES, namespace="other")], ANYWHERE),
    "the first of two policies": (POD, [DEPLOYED, policy("b", SPOT_RULE), policy("a", *RULES)], TO_ON_DEMAND),
    "an annotation counts before a policy": (
        POD,
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said()), policy("a", SPOT_RULE)],
        TO_ON_DEMAND,
    ),
    "one rule": (POD, [DEPLOYED, policy("a", SPOT_RULE)], ONLY_SPOT),
    "daemons belong to their node": (
        pod_of(DAEMON_SET, "logs", annotations=said()),
        [make_workload(DAEMON_SET, "logs", 0, annotations=said()), policy("a", SPOT_RULE)],
        ANYWHERE,
    ),
}


def state_of(nodes: list[Node], pods: list[Pod], objects: list[Any]) -> Any:
    state = state_with(nodes, pods, [each for each in objects if isinstance(each, Workload)])
    for each in objects:
        if isinstance(each, PlacementPolicy):
            state.put_object(PLACEMENT_POLICY, each.key, each)
    return state


@pytest.mark.parametrize(("pod", "objects", "want"), SOURCES.values(), ids=SOURCES.keys())
def test_the_strategy_is_found(pod: Pod, objects: list[Any], want: dict[str, list[str]]) -> None:
    """A first pod goes where the base is; without a strategy it may go anywhere."""
    state = state_of(NODES, [], objects)
    assert reasons_for(PlacementStrategy(), state, pod) == want
    assert PlacementStrategy().concerns(pod.template, state) == (want != ANYWHERE)


UNREADABLE: dict[str, tuple[list[Any], str, str]] = {
    "an annotation": (
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said("weight=x,nodeSelector=a:b"))],
        f"Deployment default/web: annotation {OURS} is ignored",
        'column 8: weight is "x"',
    ),
    "a policy": (
        [DEPLOYED, policy("p", {"weight": -1, "nodeSelector": {"a": "b"}})],
        "PlacementPolicy default/p is ignored",
        'spec.rules[0].weight: is "-1"',
    ),
    "an annotation is not replaced by a policy": (
        [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said("")), policy("p", *RULES)],
        "Deployment default/web",
        "column 1: the strategy is empty",
    ),
}


@pytest.mark.parametrize(("objects", "source", "mistake"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_strategy_that_cannot_be_read_is_no_rule_and_one_warning(
    objects: list[Any], source: str, mistake: str
) -> None:
    """The pod may go anywhere, and an event names the object, the column and the remedy."""
    state = state_of(NODES, [], objects)
    cycle = Cycle(POD, state, 0.0)
    plugin = PlacementStrategy()
    assert plugin.pre_filter(cycle) is SKIP
    assert plugin.pre_filter(cycle) is SKIP
    assert plugin.filter(cycle, state.rows()) is None
    ((reason, note),) = cycle.warnings
    assert reason == "MalformedStrategy"
    assert note.startswith(source)
    assert mistake in note


# --- who counts ---


def standing(number: int, node: str, **fields: Any) -> Pod:
    return pod_of(REPLICA_SET, "web", number, node=node, **fields)


SPLIT = [DEPLOYED, make_workload(DEPLOYMENT, "web", 6, annotations=said())]
COUNTS: dict[str, tuple[list[Pod], dict[str, list[str]]]] = {
    "nobody": ([], TO_ON_DEMAND),
    "the base": ([standing(1, "ondemand")], TO_SPOT),
    "the base and one": ([standing(1, "ondemand"), standing(2, "spot")], TO_ON_DEMAND),
    "one that is being deleted": ([replace(standing(1, "ondemand"), deleted_s=1.0)], TO_ON_DEMAND),
    "one that has finished": ([replace(standing(1, "ondemand"), phase="Succeeded")], TO_ON_DEMAND),
    "one on a node of no rule": ([standing(1, "plain")], TO_ON_DEMAND),
    "one on a node that is gone": ([standing(1, "gone")], TO_ON_DEMAND),
    "one of somebody else": ([pod_of(REPLICA_SET, "db", 1, node="ondemand")], TO_ON_DEMAND),
    "a stamp counts before the node": (
        [standing(1, "spot", annotations={RULE_STAMP: "1"}, node_selector={"node-type": "ondemand"})],
        TO_SPOT,
    ),
    "a stamp as label": (
        [standing(1, "spot", labels={RULE_STAMP: "1"}, node_selector={"node-type": "ondemand"})],
        TO_SPOT,
    ),
    "a stamp that holds nobody": ([standing(1, "ondemand", annotations={RULE_STAMP: "2"})], TO_SPOT),
    "debts": ([standing(number, "spot") for number in range(3)], TO_ON_DEMAND),
}


@pytest.mark.parametrize(("pods", "want"), COUNTS.values(), ids=COUNTS.keys())
def test_live_pods_count_for_the_rule_of_their_node(pods: list[Pod], want: dict[str, list[str]]) -> None:
    """The next pod gets the rule that is furthest below its target."""
    assert reasons_for(PlacementStrategy(), state_of(NODES, pods, SPLIT), POD) == want


def test_a_stamped_pod_keeps_its_rule() -> None:
    """The webhook has decided; counting again would only send the pod where its nodeSelector forbids."""
    pod = pod_of(REPLICA_SET, "web", annotations={RULE_STAMP: "2"}, node_selector={"node-type": "spot"})
    assert reasons_for(PlacementStrategy(), state_of(NODES, [], SPLIT), pod) == TO_SPOT


def test_a_rule_without_room_holds_up_nobody() -> None:
    """With the on-demand node out of the question the pod takes a spot node, as far as the target for six allows."""
    for there, want in ((0, ["spot"]), (2, ["spot"]), (3, [])):
        state = state_of([SPOT, PLAIN], [standing(number, "spot") for number in range(there)], SPLIT)
        rejected = reasons_for(PlacementStrategy(), state, POD)
        assert [name for name in ("spot", "plain") if name not in rejected] == want
    assert rejected == {name: [NOT_ON_DEMAND] for name in ("spot", "plain")}


def test_nodes_of_several_open_rules_are_named_together() -> None:
    """Where no rule has a node, the reason says which would do."""
    rejected = reasons_for(PlacementStrategy(), state_of([PLAIN], [], SPLIT), POD)
    both = "node(s) not in rule 1 (node-type:ondemand) or rule 2 (node-type:spot) of the placement strategy"
    assert rejected == {"plain": [both]}


# --- scaling, driven through the engine ---


class Workshop:
    """A Deployment with a strategy, its ReplicaSet controller played by hand, and the engine that decides."""

    def __init__(self, nodes: list[Node], text: str = WEB, **args: Any) -> None:
        self.strategy = parse_strategy(text)
        self.play = Play(PlacementStrategy(PlacementStrategyArgs.model_validate(args)))
        self.play.see(*nodes)
        self._text = text
        self._numbers: Iterator[int] = count()
        self.names: list[str] = []

    def scale(self, replicas: int) -> None:
        """The Deployment and its ReplicaSet want so many; pods are made, or those over their share removed."""
        deployment = make_workload(DEPLOYMENT, "web", replicas, annotations=said(self._text))
        direct = make_workload(REPLICA_SET, "web", replicas, owner=owner_of(DEPLOYMENT, "web"))
        for each in (deployment, direct):
            self.play.object_seen(each.kind, each.key, each)
        while len(self.names) > replicas:
            self.remove(self._dispensable(replicas))
        new = [f"web-{next(self._numbers)}" for _ in range(replicas - len(self.names))]
        self.names += new
        pods = [make_pod(name, owner=owner_of(REPLICA_SET, "web"), cpu="1") for name in new]
        self.play.handle(*(PodSeen(pod) for pod in pods))
        self.settle()

    def settle(self) -> None:
        """What was bound is confirmed."""
        for name in self.names:
            record = self.play.engine.state.record(f"default/{name}")
            if record is not None and record.assumed:
                self.play.bound(name)
                self.play.confirm(name)

    def remove(self, name: str) -> None:
        self.names.remove(name)
        self.play.handle(PodGone(f"default/{name}"))

    def rule_of(self, name: str) -> int | None:
        node = self.play.node_of(name)
        pools = [dict(rule.selector)["node-type"] for rule in self.strategy.rules]
        return None if node is None else pools.index(node.partition("-")[0])

    def split(self) -> tuple[int, ...]:
        """Pods by rule."""
        found = Counter(self.rule_of(name) for name in self.names)
        return tuple(found[rule] for rule in range(len(self.strategy.rules)))

    def waiting(self) -> int:
        return sum(self.play.node_of(name) is None for name in self.names)

    def _dispensable(self, replicas: int) -> str:
        """Whom the ReplicaSet controller removes when deletion costs are kept: who is most over the share."""
        split, wanted = self.split(), targets(self.strategy, replicas)
        over = [has - target for has, target in zip(split, wanted, strict=True)]
        rule = over.index(max(over))
        return next(name for name in self.names if self.rule_of(name) in (None, rule))


def pool(kind: str, nodes: int, cpu: str = "16") -> list[Node]:
    return [make_node(f"{kind}-{number}", cpu=cpu, labels={"node-type": kind}) for number in range(nodes)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WEB, id="base 1, weights 1 to 2"),
        pytest.param(WEB.replace("base=1", "base=2").replace("weight=2", "weight=3"), id="base 2, weights 1 to 3"),
        pytest.param(SPOT_FIRST, id="half and half"),
    ],
)
def test_scaling_keeps_the_split_exact_at_every_step(text: str) -> None:
    """0 -> 6 -> 20 -> 7 -> 3, and up again: the split is the target each time."""
    shop = Workshop([*pool("ondemand", 3), *pool("spot", 3), make_node("plain")], text)
    for replicas in (0, 6, 20, 7, 3, 11, 1, 0, 2):
        shop.scale(replicas)
        assert shop.split() == targets(shop.strategy, replicas), replicas
        assert not shop.waiting()


def test_pods_that_come_one_by_one_are_split_like_pods_that_come_together() -> None:
    """Every prefix is a target: nobody has to know how many will come."""
    shop = Workshop([*pool("ondemand", 3), *pool("spot", 3)])
    for replicas in range(1, 15):
        shop.scale(replicas)
        assert shop.split() == targets(shop.strategy, replicas)


def test_after_node_loss_the_new_pods_restore_the_split() -> None:
    """A spot node goes with its pods; their replacements go to the other spot nodes."""
    shop = Workshop([*pool("ondemand", 2), *pool("spot", 2)])
    shop.scale(12)
    want = targets(shop.strategy, 12)
    lost = [name for name in shop.names if shop.play.node_of(name) == "spot-0"]
    assert lost
    shop.play.handle(NodeGone("spot-0"))
    for name in lost:
        shop.remove(name)
    shop.scale(12)
    assert shop.split() == want
    assert not shop.waiting()


def test_without_room_pods_wait_then_fall_back_and_the_debt_is_paid_back() -> None:
    """Two on-demand places for three pods: the third waits 60 s, goes to spot, and the next pods make up for it."""
    shop = Workshop([*pool("ondemand", 1, cpu="2"), *pool("spot", 3)])
    shop.scale(6)
    assert (shop.split(), shop.waiting()) == ((2, 3), 1)
    assert shop.play.wakeup is not None
    shop.play.wait(59)
    assert (shop.split(), shop.waiting()) == ((2, 3), 1)
    shop.play.wait(1)
    shop.settle()
    assert (shop.split(), shop.waiting()) == ((2, 4), 0)
    shop.play.see(*pool("ondemand", 2, cpu="8"))
    shop.scale(7)
    assert shop.split() == (3, 4) == targets(shop.strategy, 7)


def test_the_engine_wakes_up_by_itself_for_the_fallback() -> None:
    """Nothing happens in the cluster; the time that the engine names is all that it takes."""
    shop = Workshop([*pool("ondemand", 1, cpu="1"), *pool("spot", 1)], fallbackAfterSeconds=7)
    shop.scale(4)
    started = shop.play.now
    while shop.waiting() and shop.play.wakeup is not None:
        assert shop.play.wakeup <= started + 7
        shop.play.handle(at=shop.play.wakeup)
    assert shop.play.now == started + 7
    assert shop.split() == (1, 3)


SPOT_TAINTED = make_node("spot", taints=["batch:NoSchedule"])
SPOT_COMING = make_node("spot", labels={"node-type": "spot"}, taints=["node.kubernetes.io/not-ready:NoSchedule"])


@pytest.mark.parametrize(
    ("there", "waits_s", "want"),
    [
        pytest.param([PLAIN], 59, None, id="not yet"),
        pytest.param([PLAIN], 60, "plain", id="after the time"),
        pytest.param([ON_DEMAND, PLAIN], 60, "ondemand", id="another rule has room"),
        pytest.param([*pool("ondemand", 1, cpu="500m"), PLAIN], 60, "plain", id="another rule has none"),
        pytest.param([*pool("spot", 1, cpu="500m"), PLAIN], 59, None, id="full nodes of the rule, not yet"),
        pytest.param([*pool("spot", 1, cpu="500m"), PLAIN], 60, "plain", id="full nodes of the rule"),
        pytest.param([replace(SPOT, unschedulable=True), PLAIN], 59, None, id="cordoned nodes, not yet"),
        pytest.param([replace(SPOT, unschedulable=True), PLAIN], 60, "plain", id="cordoned nodes of the rule"),
        pytest.param([replace(SPOT, taints=SPOT_TAINTED.taints), PLAIN], 60, "plain", id="tainted nodes of the rule"),
        pytest.param([SPOT_COMING, PLAIN], 800, None, id="a node of the rule is on its way"),
        pytest.param([SPOT_COMING, PLAIN], 900, "plain", id="a node of the rule was on its way for too long"),
    ],
)
def test_a_rule_that_no_node_matches_falls_back_to_default_placement(
    there: list[Node], waits_s: float, want: str | None
) -> None:
    """With an event; nodes of other rules are preferred, and nodes that are on their way are waited for."""
    play = Play(NodeUnschedulable(), TaintToleration(), PlacementStrategy())
    play.see(*(replace(node, created_s=play.now) for node in there))
    play.see(make_pod("a", cpu="1", annotations=said(SPOT_FIRST)))
    play.wait(waits_s)
    assert play.node_of("a") == want
    told = [event.note for event in play.of(RecordEvent) if event.reason == "StrategyFallback"]
    assert ["labels node-type:spot of rule 1" in note for note in told] == [True] * (want == "plain")


def test_room_that_appears_in_time_is_taken() -> None:
    """An autoscaler brings an on-demand node after 30 s: no debt is made."""
    shop = Workshop([*pool("ondemand", 1, cpu="1"), *pool("spot", 1)])
    shop.scale(6)
    assert (shop.split(), shop.waiting()) == ((1, 3), 2)
    shop.play.wait(30)
    shop.play.see(make_node("ondemand-new", labels={"node-type": "ondemand"}))
    shop.play.wait(10)
    assert (shop.split(), shop.waiting()) == ((3, 3), 0)


@pytest.mark.parametrize(
    ("there", "want"),
    [
        pytest.param(("c",), "b", id="(0, 0, 1) of (1, 1, 0)"),
        pytest.param(("b", "b", "c"), "c", id="(0, 2, 1) of (2, 1, 1)"),
    ],
)
def test_a_fallback_goes_to_the_largest_deficit_first(there: tuple[str, ...], want: str) -> None:
    """Three pools, the first without room: after 60 s the pod goes where fewest are over the target."""
    text = ";".join(f"weight={weight},nodeSelector=node-type:{kind}" for weight, kind in ((4, "a"), (2, "b"), (1, "c")))
    pods = [standing(number, f"{kind}-0") for number, kind in enumerate(there, 1)]
    owner = make_workload(REPLICA_SET, "web", len(there) + 1, annotations=said(text))
    state = state_of([*pool("b", 1), *pool("c", 1)], pods, [owner])
    cycle = Cycle(POD, state, 100.0)
    cycle.misfit_s = 40.0
    rejections = PlacementStrategy().filter(cycle, state.rows())
    assert rejections is not None
    assert [state.node(row).name for row in state.rows()[rejections.bits == 0].tolist()] == [f"{want}-0"]


def test_a_pod_waits_a_moment_for_its_controller() -> None:
    """The watch of ReplicaSets may be behind that of pods; what the controller says must not be missed."""
    play = Play(PlacementStrategy())
    play.see(*NODES)
    play.see(pod_of(REPLICA_SET, "web"))
    assert play.node_of("web-0") is None
    assert "waiting for ReplicaSet web" in play.note("web-0")
    for each in (make_workload(DEPLOYMENT, "web", 6, annotations=said()), DEPLOYED):
        play.object_seen(each.kind, each.key, each)
    assert play.node_of("web-0") == "ondemand"


def test_a_controller_that_never_comes_is_not_waited_for() -> None:
    """After two seconds the pod is placed as one without a strategy."""
    play = Play(PlacementStrategy())
    play.see(*NODES)
    play.see(pod_of(REPLICA_SET, "web"))
    play.wait(2)
    assert play.node_of("web-0") is not None


def test_a_bad_strategy_is_told_once_and_pods_are_placed() -> None:
    """Default scheduling is the fallback; five pods, one event."""
    play = Play(PlacementStrategy())
    play.see(*NODES)
    bad = make_workload(REPLICA_SET, "web", 5, annotations=said("half and half"))
    play.handle(ObjectSeen(bad.kind, bad.key, bad), *(PodSeen(pod_of(REPLICA_SET, "web", n)) for n in range(5)))
    assert len(play.binds) == 5
    assert [reason for _, reason in play.reasons].count("MalformedStrategy") == 1


def test_policies_can_change_while_pods_wait() -> None:
    """A policy that is corrected wakes the pods that it kept waiting."""
    play = Play(PlacementStrategy())
    play.see(SPOT)
    wrong = policy("p", SPOT_RULE | {"nodeSelector": {"node-type": "spott"}})
    play.object_seen(PLACEMENT_POLICY, wrong.key, wrong)
    play.see(make_pod("a", cpu="1"))
    assert "node-type:spott" in play.note("a")
    right = policy("p", SPOT_RULE)
    play.object_seen(PLACEMENT_POLICY, right.key, right)
    play.wait(10)
    assert play.node_of("a") == "spot"


# --- what it says about itself ---


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(Change(What.NODE_ADDED, node=SPOT), True, id="a node"),
        pytest.param(Change(What.POD_REMOVED, pod=standing(1, "spot")), True, id="a pod of the controller"),
        pytest.param(Change(What.POD_REMOVED, pod=make_pod("x", node="spot")), False, id="another pod"),
        pytest.param(Change(What.OBJECT, kind=REPLICA_SET, key="default/web"), True, id="the ReplicaSet"),
        pytest.param(Change(What.OBJECT, kind=REPLICA_SET, key="default/db"), False, id="another ReplicaSet"),
        pytest.param(Change(What.OBJECT, kind=DEPLOYMENT, key="default/web"), True, id="a Deployment"),
        pytest.param(Change(What.OBJECT, kind=PLACEMENT_POLICY, key="default/p"), True, id="a policy"),
        pytest.param(Change(What.OBJECT, kind=PLACEMENT_POLICY, key="other/p"), False, id="a policy elsewhere"),
    ],
)
def test_what_helps_a_waiting_pod(change: Change, want: bool) -> None:
    """Only what can change which rule is due, or bring room."""
    assert PlacementStrategy().helps(POD.template, change) is want


def test_the_extender_waits_for_pods_of_the_same_controller() -> None:
    """Their places decide; pods without a strategy wait for nobody."""
    state = state_of(NODES, [], SPLIT)
    assert PlacementStrategy().awaits(POD.template, state) == "default/ReplicaSet/web"
    assert PlacementStrategy().awaits(make_pod("a").template, state) is None


@pytest.mark.parametrize("seconds", [-1, 86_401, "60", float("nan")])
def test_arguments_out_of_bounds_are_refused(seconds: Any) -> None:
    """A day is long enough."""
    with pytest.raises(ValidationError):
        PlacementStrategyArgs.model_validate({"fallbackAfterSeconds": seconds})


def test_a_controller_that_is_not_known_is_pending_and_not_wrong() -> None:
    """The status lets the pod skip the backoff when its controller comes."""
    status = PlacementStrategy().pre_filter(Cycle(POD, state_of(NODES, [], []), 5.0))
    assert status is not None
    assert status.code is Code.PENDING


def test_conformance() -> None:
    """The promises of every plugin; generated pods have no strategy and may go anywhere, at once or in two seconds."""

    def reference(pod: Pod, _node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
        return ["waits"] if pod.template.owner is not None and pod.template.owner.kind == REPLICA_SET else []

    check_plugin(PlacementStrategy, reference_filter=reference)
    check_plugin(PlacementStrategy, {"fallbackAfterSeconds": 0})


class Everywhere(PlacementStrategy):
    """The plugin on clusters in which every pod has a strategy over the zones that are generated."""

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        notes = said(";".join(f"weight={n + 1},nodeSelector=topology.kubernetes.io/zone:z{n}" for n in range(3)))
        template = replace(cycle.template, annotations=FrozenDict(notes), owner=None)
        return super().filter(Cycle(replace(cycle.pod, template=template), cycle.state, cycle.now), rows)

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Every pod has one."""
        return True

    def pre_filter(self, cycle: Cycle) -> None:
        """Nobody is skipped."""


def test_conformance_with_strategies() -> None:
    """Deterministic, without side effects and independent of the order of nodes when it does reject."""
    check_plugin(Everywhere)


def test_labels_of_rules_tell_spot_nodes_where_the_arguments_say_so() -> None:
    """The keeper then knows `node-type: spot` without SpotPlacement; without the argument the plugin says nothing."""
    label = {"key": "node-type", "spot": ["spot"], "onDemand": ["ondemand"]}
    args = PlacementStrategyArgs.model_validate({"capacityLabels": [label]})
    telling = PlacementStrategy(args)
    assert isinstance(telling, TellsCapacity)
    found = [telling.capacity_types.of({"node-type": value}) for value in ("Spot", "ondemand", "gpu")]
    assert found == [Capacity.SPOT, Capacity.ON_DEMAND, Capacity.UNKNOWN]
    assert not isinstance(PlacementStrategy(), TellsCapacity)
