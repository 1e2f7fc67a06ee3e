"""Required and preferred terms, of the pod and of placed pods, against tables and a scalar reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from moorage.core.affinity import PodAffinity, PodTerm, PreferredPodTerm
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import NAMESPACE, Namespace
from moorage.core.pods import Pod
from moorage.core.selectors import EVERYTHING, NOTHING, Selector, selector_from_labels
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
LONELY = ("node(s) didn't match pod affinity rules", False)
CROWDED = ("node(s) didn't match pod anti-affinity rules", True)
UNWELCOME = ("node(s) didn't satisfy existing pods anti-affinity rules", True)
NODES = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("bare")]
WEB, DB = {"app": "web"}, {"app": "db"}


def term(labels: dict[str, str] | Selector, key: str = ZONE, *namespaces: str, of: Selector | None = None) -> PodTerm:
    selector = labels if isinstance(labels, Selector) else selector_from_labels(labels)
    return PodTerm(selector, key, tuple(sorted(namespaces)), of)


def terms(*required: PodTerm, preferred: Iterable[tuple[int, PodTerm]] = ()) -> PodAffinity:
    return PodAffinity(required, tuple(PreferredPodTerm(weight, each) for weight, each in preferred))


def cluster(*pods: Pod, nodes: Iterable[Node] = NODES) -> ClusterState:
    state = make_state(nodes, pods)
    for name, team in (("default", "x"), ("team-a", "a"), ("team-b", "b")):
        state.put_object(NAMESPACE, name, Namespace(name, FrozenDict({"team": team})))
    return state


def rejected(state: ClusterState, pod: Pod) -> dict[str, tuple[str, bool]]:
    reasons = ask(InterPodAffinity(), state, pod).reasons
    return {name: against[0] for name, against in reasons.items() if against}


# --- Filter ---


@pytest.mark.parametrize(
    ("near", "want_admitted"),
    [
        pytest.param([term(WEB)], {"a1", "a2"}, id="the zone of such a pod"),
        pytest.param([term(WEB, HOSTNAME)], {"a1"}, id="its host"),
        pytest.param([term(DB)], set(), id="a pod on a node without zone helps nobody"),
        pytest.param([term(DB, HOSTNAME)], {"bare"}, id="but its host"),
        pytest.param([term({"app": "none"})], set(), id="no such pod, and it is none itself"),
        pytest.param([term({"app": "new"})], {"a1", "a2", "b1"}, id="the first of its group, where the label is"),
        pytest.param([term({"app": "new"}), term(WEB)], set(), id="one pod must match all terms"),
        pytest.param([term(WEB), term({"tier": "front"}, HOSTNAME)], {"a1"}, id="one pod does, in both topologies"),
        pytest.param([term(WEB, ZONE, "team-b")], {"b1"}, id="a namespace by name"),
        pytest.param([term(WEB, of=selector_from_labels({"team": "b"}))], {"b1"}, id="a namespace by label"),
        pytest.param([term(WEB, of=EVERYTHING)], {"a1", "a2", "b1"}, id="all namespaces"),
        pytest.param([term(WEB, of=NOTHING)], set(), id="no namespace"),
        pytest.param(
            [term(WEB, ZONE, "team-b", of=selector_from_labels({"team": "x"}))], {"a1", "a2", "b1"}, id="both"
        ),
        pytest.param([term(NOTHING)], set(), id="no selector"),
        pytest.param([term(WEB, "rack")], set(), id="a label that no node has"),
    ],
)
def test_required_affinity(near: list[PodTerm], want_admitted: set[str]) -> None:
    """Nodes outside the domains of matching pods are rejected, and removing pods does not help."""
    state = cluster(
        make_pod("web", labels={**WEB, "tier": "front"}, node="a1"),
        make_pod("web", namespace="team-b", labels=WEB, node="b1"),
        make_pod("db", labels=DB, node="bare"),
    )
    against = rejected(state, make_pod("new", labels={"app": "new"}, pod_affinity=terms(*near)))
    assert {node.name for node in NODES} - set(against) == want_admitted
    assert set(against.values()) <= {LONELY}


def test_the_first_of_a_group_waits_once_the_group_is_somewhere() -> None:
    """Also if its pods are only in a domain that is full or unlabelled in another topology."""
    pod = make_pod("new", labels=WEB, pod_affinity=terms(term(WEB), term(WEB, HOSTNAME)))
    assert set(rejected(cluster(), pod)) == {"bare"}
    assert set(rejected(cluster(make_pod("old", labels=WEB, node="bare")), pod)) == {"a1", "a2", "b1", "bare"}


def test_pods_that_are_being_deleted_still_count() -> None:
    """Unlike in topology spread."""
    old = replace(make_pod("old", labels=WEB, node="a1"), deleted_s=1.0)
    pod = make_pod("new", pod_anti_affinity=terms(term(WEB, HOSTNAME)))
    assert rejected(cluster(old), pod) == {"a1": CROWDED}


def test_the_three_rules_in_order() -> None:
    """Affinity is named first, then the pod's own anti-affinity, then that of placed pods."""
    state = cluster(
        make_pod("web", labels=WEB, node="a1"),
        make_pod("web-2", labels=WEB, node="a2"),
        make_pod(
            "hermit", labels={"app": "hermit"}, node="a1", pod_anti_affinity=terms(term({"app": "new"}, HOSTNAME))
        ),
        make_pod("hermit-2", node="b1", pod_anti_affinity=terms(term({"app": "new"}, HOSTNAME))),
        make_pod("hermit-3", node="a2", pod_anti_affinity=terms(term({"app": "new"}, HOSTNAME))),
    )
    far = terms(term({"app": "hermit"}, HOSTNAME))
    pod = make_pod("new", labels={"app": "new"}, pod_affinity=terms(term(WEB)), pod_anti_affinity=far)
    assert rejected(state, pod) == {"a1": CROWDED, "a2": UNWELCOME, "b1": LONELY, "bare": LONELY}


@pytest.mark.parametrize(
    ("far", "want"),
    [
        pytest.param(term({"app": "new"}), {"a1", "a2"}, id="its zone"),
        pytest.param(term(WEB), set(), id="somebody else"),
        pytest.param(term({"app": "new"}, ZONE, "team-a"), set(), id="in another namespace"),
        pytest.param(
            term({"app": "new"}, of=selector_from_labels({"team": "x"})), {"a1", "a2"}, id="namespace by label"
        ),
        pytest.param(term({"app": "new"}, of=selector_from_labels({"team": "a"})), set(), id="other namespace label"),
        pytest.param(term(EVERYTHING, of=EVERYTHING), {"a1", "a2"}, id="everybody"),
        pytest.param(term(EVERYTHING, "rack"), set(), id="in a topology that no node has"),
    ],
)
def test_anti_affinity_of_placed_pods(far: PodTerm, want: set[str]) -> None:
    """A placed pod keeps others out of its domain; a pod that nobody minds skips the filter."""
    state = cluster(make_pod("hermit", node="a1", pod_anti_affinity=terms(far)))
    pod = make_pod("new", labels={"app": "new"})
    answer = ask(InterPodAffinity(), state, pod)
    assert answer.filter_skipped is not bool(want)
    assert {name for name, against in answer.reasons.items() if against == (UNWELCOME,)} == want


def test_namespaces_are_looked_up_again_when_they_change() -> None:
    """A namespace that gets the label brings its pods in, and its pods under the terms of others."""
    of_a = selector_from_labels({"team": "a"})
    state = cluster(
        make_pod("web", namespace="team-b", labels=WEB, node="a1"),
        make_pod("hermit", node="b1", pod_anti_affinity=terms(term(WEB, HOSTNAME, of=of_a))),
    )
    plugin = InterPodAffinity()
    pod = make_pod("new", pod_anti_affinity=terms(term(WEB, HOSTNAME, of=of_a)))
    other = make_pod("other", namespace="team-b", labels=WEB)
    assert not any(ask(plugin, state, pod).reasons.values())
    assert ask(plugin, state, other).filter_skipped
    state.put_object(NAMESPACE, "team-b", Namespace("team-b", FrozenDict({"team": "a"})))
    assert ask(plugin, state, pod).reasons["a1"] == (CROWDED,)
    assert ask(plugin, state, other).reasons["b1"] == (UNWELCOME,)
    state.remove_object(NAMESPACE, "team-b")
    assert not any(ask(plugin, state, pod).reasons.values())


def test_filter_sees_what_a_statement_changes() -> None:
    """Preemption and nominated pods are judged in what-ifs: PreFilter ran before, Filter must look again."""
    state = cluster(make_pod("web", labels=WEB, node="a1"))
    plugin = InterPodAffinity()
    cycle = Cycle(make_pod("new", labels=WEB, pod_anti_affinity=terms(term(WEB, HOSTNAME))), state, 0.0)
    assert plugin.pre_filter(cycle) is None
    with state.statement():
        state.remove_pod("default/web")
        assert plugin.filter(cycle, state.rows()) is None
        row = state.row_of("b1")
        assert row is not None
        state.assume(make_pod("hermit", pod_anti_affinity=terms(term(WEB, HOSTNAME))), row)
        rejections = plugin.filter(cycle, state.rows())
        assert rejections is not None
        assert rejections.bits.tolist() == [0, 0, 4, 0]
    rejections = plugin.filter(cycle, state.rows())
    assert rejections is not None
    assert rejections.bits.tolist() == [2, 0, 0, 0]


# --- Score ---


def test_weights_add_up_over_terms_and_pods() -> None:
    """Own preferences, placed pods' preferences, and their required affinity with its own weight."""
    state = cluster(
        make_pod("web-1", labels=WEB, node="a1"),
        make_pod("web-2", labels=WEB, node="a2"),
        make_pod("fan", node="b1", pod_affinity=terms(preferred=[(7, term({"app": "new"}))])),
        make_pod("foe", node="b1", pod_anti_affinity=terms(preferred=[(2, term({"app": "new"}, HOSTNAME))])),
        make_pod("mate", node="a1", pod_affinity=terms(term({"app": "new"}, HOSTNAME))),
    )
    pod = make_pod(
        "new",
        labels={"app": "new"},
        pod_affinity=terms(preferred=[(10, term(WEB)), (3, term(WEB, HOSTNAME))]),
        pod_anti_affinity=terms(preferred=[(1, term(WEB))]),
    )
    plugin = InterPodAffinity(InterPodAffinityArgs.model_validate({"hardPodAffinityWeight": 50}))
    answer = ask(plugin, state, pod)
    assert answer.scores == {"a1": 18 + 3 + 50, "a2": 18 + 3, "b1": 7 - 2, "bare": 0}
    assert answer.normalized == {"a1": 100, "a2": 29, "b1": 7, "bare": 0}


@pytest.mark.parametrize(
    ("args", "own", "want_skip"),
    [
        pytest.param({}, False, False, id="placed pods' preferences count"),
        pytest.param({"ignorePreferredTermsOfExistingPods": True}, False, True, id="unless they are ignored"),
        pytest.param({"ignorePreferredTermsOfExistingPods": True}, True, False, id="which own preferences prevent"),
        pytest.param({"hardPodAffinityWeight": 0}, False, False, id="preferences alone are enough"),
    ],
)
def test_when_scores_are_skipped(args: dict[str, Any], own: bool, want_skip: bool) -> None:
    """As kube-scheduler does; `concerns` says the same."""
    state = cluster(
        make_pod("fan", node="b1", pod_affinity=terms(term(WEB), preferred=[(7, term(WEB))])),
    )
    near = terms(preferred=[(1, term(DB))]) if own else None
    plugin = InterPodAffinity(InterPodAffinityArgs.model_validate(args))
    pod = make_pod("new", labels=WEB, pod_affinity=near)
    assert ask(plugin, state, pod).score_skipped is want_skip
    assert plugin.concerns(pod.template, state) is not want_skip


def test_a_weight_of_0_leaves_required_affinity_out_of_the_score() -> None:
    """Nothing else is there, so that the plugin is not concerned."""
    state = cluster(make_pod("fan", node="b1", pod_affinity=terms(term(WEB))))
    pod = make_pod("new", labels=WEB)
    assert InterPodAffinity().concerns(pod.template, state)
    silent = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=0))
    assert not silent.concerns(pod.template, state)
    assert ask(silent, state, pod).score_skipped


@pytest.mark.parametrize(
    ("args", "want_words"),
    [
        pytest.param({"hardPodAffinityWeight": 101}, "less than or equal to 100", id="too heavy"),
        pytest.param({"hardPodAffinityWeight": -1}, "greater than or equal to 0", id="negative"),
        pytest.param({"hardWeight": 1}, "hardWeight", id="unknown field"),
    ],
)
def test_arguments_are_checked(args: dict[str, Any], want_words: str) -> None:
    """What kube-scheduler refuses is refused."""
    with pytest.raises(ValidationError, match=want_words):
        InterPodAffinityArgs.model_validate(args)


# --- waking up ---

LONGING = make_pod("new", labels=WEB, pod_affinity=terms(term(DB)))
SHY = make_pod("new", labels=WEB, pod_anti_affinity=terms(term(DB)))
PLAIN = make_pod("new", labels=WEB)


@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(LONGING, Change(What.POD_ADDED, pod=make_pod("x", labels=DB, node="a1")), True, id="company came"),
        pytest.param(LONGING, Change(What.POD_ADDED, pod=make_pod("x", node="a1")), False, id="somebody else came"),
        pytest.param(
            LONGING,
            Change(What.POD_ADDED, pod=make_pod("x", namespace="b", labels=DB, node="a1")),
            False,
            id="in another namespace",
        ),
        pytest.param(
            SHY, Change(What.POD_ADDED, pod=make_pod("x", labels=DB, node="a1")), False, id="a feared one came"
        ),
        pytest.param(SHY, Change(What.POD_REMOVED, pod=make_pod("x", labels=DB)), True, id="a feared one left"),
        pytest.param(SHY, Change(What.POD_REMOVED, pod=make_pod("x")), False, id="somebody else left"),
        pytest.param(
            SHY,
            Change(What.POD_REMOVED, pod=make_pod("x", namespace="b", labels=DB)),
            False,
            id="somebody of another namespace left",
        ),
        pytest.param(
            PLAIN,
            Change(What.POD_REMOVED, pod=make_pod("x", pod_anti_affinity=terms(term(WEB)))),
            True,
            id="one who feared it left",
        ),
        pytest.param(
            SHY,
            Change(What.POD_UPDATED, pod=make_pod("x", node="a1"), before=make_pod("x", labels=DB, node="a1")),
            True,
            id="a feared one changed",
        ),
        pytest.param(
            LONGING,
            Change(What.POD_UPDATED, pod=make_pod("x", node="a1"), before=make_pod("x", labels=DB, node="a1")),
            False,
            id="company changed away",
        ),
        pytest.param(LONGING, Change(What.NODE_ADDED, node=NODES[0]), True, id="a node with the label"),
        pytest.param(LONGING, Change(What.NODE_ADDED, node=NODES[3]), False, id="a node without it"),
        pytest.param(SHY, Change(What.NODE_ADDED, node=NODES[3]), True, id="any node for one who only fears"),
        pytest.param(PLAIN, Change(What.NODE_ADDED, node=NODES[3]), True, id="any node for one who is feared"),
        pytest.param(SHY, Change(What.OBJECT, kind=NAMESPACE, key="b"), True, id="a namespace changed"),
        pytest.param(SHY, Change(What.POD_REMOVED), True, id="who knows"),
    ],
)
def test_what_helps(pod: Pod, change: Change, want: bool) -> None:
    """Only changes that can satisfy a required term, on either side, wake a pod up."""
    assert InterPodAffinity().helps(pod.template, change) is want


# --- against a reference ---

LABELS: tuple[dict[str, str], ...] = ({}, WEB, {"app": "web", "tier": "front"}, DB)
NAMESPACES = {"default": {"team": "x"}, "team-a": {"team": "a"}}


def draw_term(random: Random) -> PodTerm:
    return term(
        random.choice((selector_from_labels(WEB), selector_from_labels(DB), EVERYTHING, NOTHING)),
        random.choice((ZONE, HOSTNAME, "disk")),
        *random.choice(((), (), ("team-a",), ("default", "team-a"))),
        of=random.choice((None, None, EVERYTHING, selector_from_labels({"team": "a"}))),
    )


def draw_affinity(random: Random) -> PodAffinity | None:
    if random.random() < 0.5:
        return None
    preferred = [(random.randint(1, 100), draw_term(random)) for _ in range(random.randint(0, 2))]
    return terms(*(draw_term(random) for _ in range(random.randint(0 if preferred else 1, 2))), preferred=preferred)


def draw_pod(random: Random, name: str, node: str | None) -> Pod:
    return make_pod(
        name,
        namespace=random.choice(tuple(NAMESPACES)),
        labels=random.choice(LABELS),
        node=node,
        pod_affinity=draw_affinity(random),
        pod_anti_affinity=draw_affinity(random) if random.random() < 0.4 else None,
    )


def draw_node(random: Random, number: int) -> Node:
    labels = {"disk": random.choice(("ssd", "hdd"))} if random.random() < 0.7 else {}
    return make_node(f"n{number}", zone=random.choice((None, "a", "b", "c")), labels=labels)


def is_about(each: PodTerm, holder: Pod, pod: Pod) -> bool:
    """Whether a holder's term is about a pod."""
    names = each.namespaces or ((holder.namespace,) if each.namespace_selector is None else ())
    selected = each.namespace_selector is not None and each.namespace_selector.matches(NAMESPACES[pod.namespace])
    return (pod.namespace in names or selected) and each.selector.matches(pod.template.labels)


def together(one: Node, other: Node, key: str) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def reference_filter(pod: Pod, nodes: dict[str, Node], pods: list[Pod]) -> dict[str, tuple[tuple[str, bool], ...]]:
    near = (pod.template.pod_affinity or PodAffinity()).required
    far = (pod.template.pod_anti_affinity or PodAffinity()).required
    company = [nodes[p.node] for p in pods if p.node and near and all(is_about(each, pod, p) for each in near)]
    placed = [node for node in company if any(each.topology_key in node.labels for each in near)]
    own = all(is_about(each, pod, pod) for each in near)
    found: dict[str, tuple[tuple[str, bool], ...]] = {}
    for name, node in nodes.items():
        labelled = all(each.topology_key in node.labels for each in near)
        met = all(any(together(node, other, each.topology_key) for other in company) for each in near)
        crowded = any(
            p.node and is_about(each, pod, p) and together(node, nodes[p.node], each.topology_key)
            for each in far
            for p in pods
        )
        unwelcome = any(
            p.node and is_about(each, p, pod) and together(node, nodes[p.node], each.topology_key)
            for p in pods
            for each in (p.template.pod_anti_affinity or PodAffinity()).required
        )
        lonely = bool(near) and not (labelled and (met or (not placed and own)))
        found[name] = (LONELY,) if lonely else (CROWDED,) if crowded else (UNWELCOME,) if unwelcome else ()
    return found


def reference_score(pod: Pod, nodes: dict[str, Node], pods: list[Pod], hard_weight: int) -> dict[str, int]:
    found = dict.fromkeys(nodes, 0)

    def add(weight: int, each: PodTerm, where: Node) -> None:
        for name, node in nodes.items():
            found[name] += weight * together(node, where, each.topology_key)

    for sign, own in ((1, pod.template.pod_affinity), (-1, pod.template.pod_anti_affinity)):
        for preferred in own.preferred if own else ():
            for p in pods:
                if p.node and is_about(preferred.term, pod, p):
                    add(sign * preferred.weight, preferred.term, nodes[p.node])
    for p in pods:
        near, far = p.template.pod_affinity or PodAffinity(), p.template.pod_anti_affinity or PodAffinity()
        wishes = [(hard_weight, each) for each in near.required]
        wishes += [(each.weight, each.term) for each in near.preferred]
        wishes += [(-each.weight, each.term) for each in far.preferred]
        for weight, each in wishes:
            if p.node and is_about(each, p, pod):
                add(weight, each, nodes[p.node])
    span = max(found.values()) - min(found.values())
    return {name: int(100 * ((score - min(found.values())) / span)) if span else 0 for name, score in found.items()}


@pytest.mark.parametrize("seed", range(200))
def test_equals_a_scalar_reference(seed: int) -> None:
    """Reasons and normalised scores of random clusters, asked of one plugin while pods and nodes change."""
    random = Random(seed)
    nodes = {f"n{number}": draw_node(random, number) for number in range(random.randint(1, 7))}
    pods = [draw_pod(random, f"p{number}", random.choice(list(nodes))) for number in range(random.randint(0, 12))]
    state = make_state(nodes.values(), pods)
    for name, labels in NAMESPACES.items():
        state.put_object(NAMESPACE, name, Namespace(name, FrozenDict(labels)))
    plugin, pod = InterPodAffinity(), draw_pod(random, "new", None)
    for number in range(3):
        answer = ask(plugin, state, pod)
        want = reference_filter(pod, nodes, pods)
        assert answer.reasons == ({} if answer.filter_skipped else want)
        assert not answer.filter_skipped or not any(want.values())
        want_scores = reference_score(pod, nodes, pods, 1)
        assert (dict.fromkeys(nodes, 0) if answer.score_skipped else answer.normalized) == want_scores
        concerned = plugin.concerns(pod.template, state)
        assert concerned or (answer.filter_skipped and answer.score_skipped)
        if pods:
            state.remove_pod(pods.pop(random.randrange(len(pods))).uid)
        pods.append(draw_pod(random, f"late{number}", random.choice(list(nodes))))
        state.observe_pod(pods[-1])
        moved = random.randrange(len(nodes))
        nodes[f"n{moved}"] = draw_node(random, moved)
        state.upsert_node(nodes[f"n{moved}"])


def test_conformance() -> None:
    """The promises that every plugin makes."""
    check_plugin(InterPodAffinity)
    check_plugin(InterPodAffinity, {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True})
