"""Hard and soft spread constraints, own and by default, against tables and a scalar reference."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from moorage.core.affinity import SpreadConstraint
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, Service, Workload
from moorage.core.pods import Owner, Pod
from moorage.core.selectors import EVERYTHING, NOTHING, Selector, selector_from_labels
from moorage.core.state import ClusterState
from moorage.core.taints import is_barred
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from moorage.testing import check_plugin, make_node, make_node_affinity, make_pod, make_state
from moorage.testing.answers import ask

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
UNEVEN = ("node(s) didn't match pod topology spread constraints", True)
UNLABELLED = ("node(s) didn't match pod topology spread constraints (missing required label)", False)
WEB = {"app": "web"}
A1, A2, B1, BARE = make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("bare")


def constraint(
    key: str = ZONE, *, hard: bool = True, selector: Selector | None = None, **fields: Any
) -> SpreadConstraint:
    chosen = selector_from_labels(WEB) if selector is None else selector
    return SpreadConstraint(fields.pop("max_skew", 1), key, hard, chosen, **fields)


def web(name: str, node: str | None = None, **fields: Any) -> Pod:
    return make_pod(name, labels=WEB, node=node, **fields)


def rejected(state: ClusterState, pod: Pod, plugin: PodTopologySpread | None = None) -> dict[str, tuple[str, bool]]:
    reasons = ask(plugin or PodTopologySpread(), state, pod).reasons
    return {name: against[0] for name, against in reasons.items() if against}


# --- Filter ---


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        pytest.param([constraint()], {"a1": UNEVEN, "a2": UNEVEN, "bare": UNLABELLED}, id="the fuller zone is closed"),
        pytest.param([constraint(max_skew=2)], {"bare": UNLABELLED}, id="within the skew"),
        pytest.param(
            [constraint(min_domains=3)], {"a1": UNEVEN, "a2": UNEVEN, "bare": UNLABELLED}, id="too few domains"
        ),
        pytest.param(
            [constraint(selector=selector_from_labels({"app": "db"}))],
            {"bare": UNLABELLED},
            id="nobody counts, not even it",
        ),
        pytest.param([constraint(selector=NOTHING)], {"bare": UNLABELLED}, id="no selector counts nobody"),
        pytest.param([constraint(selector=EVERYTHING)], {"bare": UNLABELLED}, id="an empty selector counts nobody"),
        pytest.param([constraint(HOSTNAME)], {"a1": UNEVEN}, id="hosts"),
        pytest.param(
            [constraint(HOSTNAME, max_skew=2), constraint()],
            {"a1": UNEVEN, "a2": UNEVEN, "bare": UNLABELLED},
            id="the first constraint that fails says why",
        ),
        pytest.param([constraint("rack")], dict.fromkeys(("a1", "a2", "b1", "bare"), UNLABELLED), id="unknown label"),
    ],
)
def test_hard_constraints(rules: list[SpreadConstraint], want: dict[str, tuple[str, bool]]) -> None:
    """Zone a has one web pod, zone b none."""
    state = make_state([A1, A2, B1, BARE], [web("old", "a1"), web("other", "b1", namespace="team-b")])
    assert rejected(state, web("new", spread=tuple(rules))) == want


def test_min_domains_treats_the_least_count_as_zero() -> None:
    """Two zones with one pod each are even, but too few."""
    state = make_state([A1, B1], [web("1", "a1"), web("2", "b1")])
    assert rejected(state, web("new", spread=(constraint(),))) == {}
    assert set(rejected(state, web("new", spread=(constraint(min_domains=3),)))) == {"a1", "b1"}


def test_pods_that_are_being_deleted_do_not_count() -> None:
    """Their place is as good as free."""
    state = make_state([A1, B1], [replace(web("old", "a1"), deleted_s=1.0)])
    assert rejected(state, web("new", spread=(constraint(),))) == {}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, {"a1", "a2"}, id="node selector honoured by default"),
        pytest.param({"honor_node_affinity": False}, {"a1", "a2", "b1", "b2"}, id="c makes even one pod too many"),
        pytest.param({"honor_node_taints": True, "max_skew": 2}, {"a1", "a2"}, id="a pod on a tainted node counts not"),
        pytest.param({"honor_node_affinity": False, "max_skew": 2}, {"a1", "a2"}, id="c makes the minimum 0"),
        pytest.param({"max_skew": 2}, set(), id="without c the minimum is 1"),
    ],
)
def test_policies_say_which_nodes_count(fields: dict[str, Any], want: set[str]) -> None:
    """Zone c has no pods, and its only node is not for pods with this node selector."""
    nodes = [
        make_node("a1", zone="a", labels={"pool": "x"}),
        make_node("a2", zone="a", labels={"pool": "x"}),
        make_node("b1", zone="b", labels={"pool": "x"}),
        make_node("b2", zone="b", labels={"pool": "x"}, taints=["dedicated:NoSchedule"]),
        make_node("c1", zone="c"),
    ]
    state = make_state(nodes, [web("1", "a1"), web("2", "a2"), web("3", "b2")])
    pod = web("new", node_selector={"pool": "x"}, spread=(constraint(**fields),))
    assert set(rejected(state, pod)) == want


def test_filter_sees_what_a_statement_changes() -> None:
    """Preemption and nominated pods are judged in what-ifs: PreFilter ran before, Filter must look again."""
    state = make_state([A1, B1], [web("old", "a1")])
    cycle, plugin = Cycle(web("new", spread=(constraint(),)), state, 0.0), PodTopologySpread()
    assert plugin.pre_filter(cycle) is None
    rejections = plugin.filter(cycle, state.rows())
    assert rejections is not None
    assert rejections.bits.tolist() == [1, 0]
    with state.statement():
        state.remove_pod("default/old")
        assert plugin.filter(cycle, state.rows()) is None
    rejections = plugin.filter(cycle, state.rows())
    assert rejections is not None
    assert rejections.bits.tolist() == [1, 0]


# --- defaults ---


def service(name: str, **selector: str) -> Service:
    return Service("default", name, FrozenDict(selector))


def workload(kind: str, name: str, **selector: str) -> Workload:
    return Workload(kind, "default", name, selector=selector_from_labels(selector))


@pytest.mark.parametrize(
    ("objects", "owner", "want_scores"),
    [
        pytest.param([], None, None, id="nothing selects it"),
        pytest.param([(SERVICE, service("s", app="web"))], None, True, id="a service"),
        pytest.param([(SERVICE, service("s", app="db"))], None, None, id="a service for others"),
        pytest.param([(SERVICE, service("s"))], None, None, id="a service without selector"),
        pytest.param(
            [(REPLICA_SET, workload(REPLICA_SET, "o", app="web"))], "apps/v1 ReplicaSet", True, id="ReplicaSet"
        ),
        pytest.param(
            [(STATEFUL_SET, workload(STATEFUL_SET, "o", app="web"))], "apps/v1 StatefulSet", True, id="StatefulSet"
        ),
        pytest.param(
            [(REPLICATION_CONTROLLER, workload(REPLICATION_CONTROLLER, "o", app="web"))],
            "v1 ReplicationController",
            True,
            id="ReplicationController",
        ),
        pytest.param(
            [(REPLICA_SET, workload(REPLICA_SET, "o", app="web"))], "acme/v1 ReplicaSet", None, id="another API"
        ),
        pytest.param([], "apps/v1 ReplicaSet", None, id="unknown owner"),
    ],
)
def test_system_defaults_follow_services_and_controllers(
    objects: list[tuple[str, Any]], owner: str | None, want_scores: bool | None
) -> None:
    """Pods that something selects are softly spread over hosts and zones; hard rules there are none."""
    state = make_state([A1, A2, B1], [web("old", "a1")])
    for kind, value in objects:
        state.put_object(kind, value.key, value)
    version, _, kind = (owner or " ").partition(" ")
    pod = web("new", owner=Owner(kind, "o", "u", version) if owner else None)
    plugin = PodTopologySpread()
    answer = ask(plugin, state, pod)
    assert answer.filter_skipped
    assert answer.score_skipped is not bool(want_scores)
    assert plugin.concerns(pod.template, state) is bool(want_scores)
    if want_scores:
        assert answer.normalized["b1"] > answer.normalized["a2"] > answer.normalized["a1"]


def test_defaults_change_with_the_services() -> None:
    """A service that comes, changes or goes is noticed at the next decision."""
    state, plugin, pod = make_state([A1, B1], [web("old", "a1")]), PodTopologySpread(), web("new")
    assert ask(plugin, state, pod).score_skipped
    state.put_object(SERVICE, "default/s", service("s", app="web"))
    assert not ask(plugin, state, pod).score_skipped
    state.put_object(SERVICE, "default/s", service("s", app="db"))
    assert ask(plugin, state, pod).score_skipped
    state.put_object(SERVICE, "default/s", service("s", app="web"))
    state.remove_object(SERVICE, "default/s")
    assert ask(plugin, state, pod).score_skipped


def test_own_constraints_replace_the_defaults() -> None:
    """Even where the own ones are all hard, nothing is scored."""
    state = make_state([A1, B1], [web("old", "a1")])
    state.put_object(SERVICE, "default/s", service("s", app="web"))
    assert ask(PodTopologySpread(), state, web("new", spread=(constraint(),))).score_skipped


def test_listed_defaults_may_be_hard() -> None:
    """`defaultingType: List` brings the profile's own constraints, with a selector deduced from the pod."""
    args = {"defaultingType": "List", "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]}  # fmt: skip
    plugin = PodTopologySpread(PodTopologySpreadArgs.model_validate(args))
    state = make_state([A1, B1], [web("old", "a1")])
    assert ask(plugin, state, web("new")).filter_skipped
    state.put_object(SERVICE, "default/s", service("s", app="web"))
    assert rejected(state, web("new"), plugin) == {"a1": UNEVEN}


def test_an_empty_list_turns_the_defaults_off() -> None:
    """Then only pods with constraints of their own are concerned."""
    plugin = PodTopologySpread(PodTopologySpreadArgs.model_validate({"defaultingType": "List"}))
    state = make_state([A1, B1], [web("old", "a1")])
    state.put_object(SERVICE, "default/s", service("s", app="web"))
    assert not plugin.concerns(web("new").template, state)
    assert plugin.concerns(web("new", spread=(constraint(),)).template, state)


@pytest.mark.parametrize(
    ("args", "want_words"),
    [
        pytest.param({"defaultingType": "Some"}, "defaultingType", id="unknown type"),
        pytest.param(
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            "write List",
            id="constraints without List",
        ),
        *(
            pytest.param({"defaultingType": "List", "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"} | change]}, words, id=name)
            for name, change, words in (
                ("skew 0", {"maxSkew": 0}, "maxSkew"),
                ("no key", {"topologyKey": ""}, "label key"),
                ("no label key", {"topologyKey": "a b"}, "label key"),
                ("unknown action", {"whenUnsatisfiable": "Never"}, "whenUnsatisfiable"),
                ("own selector", {"labelSelector": {"matchLabels": {}}}, "deduced"),
                ("unknown field", {"skew": 1}, "skew"),
            )
        ),
        pytest.param(
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"} for skew in (1, 2)
                ],
            },
            "repeats",
            id="twice the same",
        ),
    ],
)  # fmt: skip
def test_arguments_are_checked(args: dict[str, Any], want_words: str) -> None:
    """What kube-scheduler refuses is refused, in words that say what to do."""
    with pytest.raises(ValidationError, match=want_words):
        PodTopologySpreadArgs.model_validate(args)


# --- waking up ---


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(Change(What.POD_ADDED, pod=web("x", "a1")), True, id="a pod that counts came"),
        pytest.param(
            Change(What.POD_REMOVED, pod=make_pod("x", node="a1")), False, id="a pod that does not count left"
        ),
        pytest.param(Change(What.POD_REMOVED, pod=web("x", "a1", namespace="b")), False, id="another namespace"),
        pytest.param(
            Change(What.POD_UPDATED, pod=make_pod("x", node="a1"), before=web("x", "a1")),
            True,
            id="it stopped counting",
        ),
        pytest.param(Change(What.POD_UPDATED, pod=web("x", "a1"), before=web("x", "a1")), False, id="same labels"),
        pytest.param(
            Change(What.POD_UPDATED, pod=replace(web("x", "a1"), deleted_s=1.0), before=web("x", "a1")),
            True,
            id="it is being deleted",
        ),
        pytest.param(Change(What.NODE_ADDED, node=A1), True, id="a node with the label"),
        pytest.param(Change(What.NODE_ADDED, node=BARE), False, id="a node without it"),
        pytest.param(Change(What.NODE_LABELS, node=BARE), True, id="labels changed"),
        pytest.param(Change(What.POD_REMOVED), True, id="who knows"),
    ],
)
def test_what_helps(change: Change, want: bool) -> None:
    """Only changes that can shift the counts or the domains wake a pod up."""
    assert PodTopologySpread().helps(web("new", spread=(constraint(),)).template, change) is want


def test_pods_of_the_namespace_may_help_a_pod_with_default_constraints() -> None:
    """What its constraints count is not known without the state."""
    change = Change(What.POD_ADDED, pod=make_pod("x", node="a1"))
    assert PodTopologySpread().helps(web("new").template, change)


# --- against a reference ---

LABELS: tuple[dict[str, str], ...] = ({}, WEB, {"app": "web", "tier": "front"}, {"app": "db"})
KEYS = (ZONE, HOSTNAME, "disk")


def draw_cluster(random: Random) -> tuple[list[Node], list[Pod]]:
    nodes = [
        make_node(
            f"n{number}",
            zone=random.choice((None, "a", "b", "c")),
            labels={"disk": random.choice(("ssd", "hdd"))} if random.random() < 0.7 else {},
            taints=["x:NoSchedule"] if random.random() < 0.2 else [],
        )
        for number in range(random.randint(1, 8))
    ]
    pods = []
    for number in range(random.randint(0, 25)):
        namespace = random.choice(("default", "default", "b"))
        node = random.choice(nodes).name
        pod = make_pod(f"p{number}", namespace=namespace, labels=random.choice(LABELS), node=node)
        pods.append(replace(pod, deleted_s=1.0) if random.random() < 0.1 else pod)
    return nodes, pods


def draw_pod(random: Random) -> Pod:
    rules = [
        constraint(
            random.choice(KEYS),
            hard=random.random() < 0.5,
            selector=random.choice((None, selector_from_labels({"tier": "front"}), EVERYTHING, NOTHING)),
            max_skew=random.randint(1, 3),
            min_domains=random.choice((1, 1, 2, 5)),
            honor_node_affinity=random.random() < 0.7,
            honor_node_taints=random.random() < 0.4,
        )
        for _ in range(random.randint(1, 3))
    ]
    affinity = make_node_affinity(required=[["disk In ssd"]]) if random.random() < 0.3 else None
    return make_pod("new", labels=random.choice(LABELS), spread=tuple(rules), node_affinity=affinity)


def admitted(pod: Pod, rule: SpreadConstraint, rules: list[SpreadConstraint], node: Node) -> bool:
    """Whether a node counts for a rule."""
    if any(each.topology_key not in node.labels for each in rules):
        return False
    affinity = pod.template.node_affinity
    terms = affinity.required if rule.honor_node_affinity and affinity is not None else None
    if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
        return False
    return not (rule.honor_node_taints and is_barred(node.taints, pod.template.tolerations))


def count_on(node: Node, rule: SpreadConstraint, pods: list[Pod]) -> int:
    return sum(
        pod.node == node.name
        and pod.namespace == "default"
        and pod.deleted_s is None
        and bool(rule.selector.requirements)
        and rule.selector.matches(pod.template.labels)
        for pod in pods
    )


def count_by_value(pod: Pod, rule: SpreadConstraint, rules: list[SpreadConstraint], nodes: list[Node],
                   pods: list[Pod]) -> dict[str, int]:  # fmt: skip
    counts: dict[str, int] = {}
    for node in nodes:
        if admitted(pod, rule, rules, node):
            value = node.labels[rule.topology_key]
            counts[value] = counts.get(value, 0) + count_on(node, rule, pods)
    return counts


def reference_filter(pod: Pod, nodes: list[Node], pods: list[Pod]) -> dict[str, tuple[tuple[str, bool], ...]]:
    rules = [rule for rule in pod.template.spread if rule.hard]
    found: dict[str, tuple[tuple[str, bool], ...]] = {}
    for node in nodes:
        found[node.name] = ()
        for rule in rules:
            if rule.topology_key not in node.labels:
                found[node.name] = (UNLABELLED,)
                break
            counts = count_by_value(pod, rule, rules, nodes, pods)
            least = min(counts.values()) if len(counts) >= rule.min_domains else 0
            own = rule.selector.matches(pod.template.labels)
            if counts.get(node.labels[rule.topology_key], 0) + own - least > rule.max_skew:
                found[node.name] = (UNEVEN,)
                break
    return found


def reference_score(pod: Pod, nodes: list[Node], pods: list[Pod]) -> dict[str, int]:
    rules = [rule for rule in pod.template.spread if not rule.hard]
    scored = [node for node in nodes if all(rule.topology_key in node.labels for rule in rules)]
    found = dict.fromkeys((node.name for node in nodes), 0)
    for node in scored:
        total = 0.0
        for rule in rules:
            domains = len({each.labels[rule.topology_key] for each in scored})
            if rule.topology_key == HOSTNAME:
                domains, count = len(scored), count_on(node, rule, pods)
            else:
                counts = count_by_value(pod, rule, rules, nodes, pods)
                count = counts.get(node.labels[rule.topology_key], 0)
            total += count * math.log(domains + 2) + (rule.max_skew - 1)
        found[node.name] = math.floor(total + 0.5)
    raw = [found[node.name] for node in scored]
    normalized = dict.fromkeys(found, 0)
    for node in scored:
        most = max(raw)
        normalized[node.name] = 100 * (most + min(raw) - found[node.name]) // most if most else 100
    return normalized


@pytest.mark.parametrize("seed", range(150))
def test_equals_a_scalar_reference(seed: int) -> None:
    """Reasons and normalised scores of random clusters, asked of one plugin while pods come and go."""
    random = Random(seed)
    nodes, pods = draw_cluster(random)
    state, plugin = make_state(nodes, pods), PodTopologySpread()
    pod = draw_pod(random)
    for _ in range(3):
        answer = ask(plugin, state, pod)
        hard, soft = ([r for r in pod.template.spread if r.hard is kind] for kind in (True, False))
        assert (answer.filter_skipped, answer.score_skipped) == (not hard, not soft)
        assert hard == [] or answer.reasons == reference_filter(pod, nodes, pods)
        assert soft == [] or answer.normalized == reference_score(pod, nodes, pods)
        if pods:
            state.remove_pod(pods.pop().uid)
        pods.append(make_pod("late", labels=WEB, node=random.choice(nodes).name))
        state.observe_pod(pods[-1])
        moved = random.randrange(len(nodes))
        nodes[moved] = make_node(nodes[moved].name, zone=random.choice("abc"), labels={"disk": "ssd"})
        state.upsert_node(nodes[moved])


def test_conformance() -> None:
    """The promises that every plugin makes."""
    check_plugin(PodTopologySpread)
