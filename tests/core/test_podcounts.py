"""Counters of pods by selector, by row and by domain: kept by events, equal to a recount at any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moorage.core import podcounts
from moorage.core.affinity import PodAffinity, PodTerm, PreferredPodTerm
from moorage.core.domains import EVERYWHERE, DomainColumn, Scope
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.objects import Service
from moorage.core.podcounts import CountQuery, PodCounts
from moorage.core.podterms import TermKind
from moorage.core.selectorindex import SelectorIndex
from moorage.core.selectors import EVERYTHING, NOTHING, Selector, selector_from_labels
from moorage.core.services import ServiceIndex
from moorage.core.sparsecounts import FEW, SparseCounts
from moorage.core.state import ClusterState
from moorage.core.statement import Statement
from moorage.testing.builders import (
    make_node,
    make_node_term,
    make_pod,
    make_state,
    parse_requirement,
    parse_toleration,
)

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
DEFAULT = frozenset({"default"})


def selector(*conditions: str) -> Selector:
    return Selector(tuple(parse_requirement(condition) for condition in conditions))


def by_node(state: ClusterState, question: CountQuery) -> dict[str, int]:
    rows = state.pod_counts.counter(question).tally.rows
    counts = {state.node(int(row)).name: rows.get(int(row)) for row in state.rows()}
    return {name: count for name, count in counts.items() if count}


def by_value(state: ClusterState, question: CountQuery, column: DomainColumn) -> dict[str, int]:
    column.refresh(state)
    domains, counts = state.pod_counts.counter(question).tally.by_domain(column).above_zero()
    labels = state.labels.known(column.key)
    values = [] if labels is None else labels.values
    return {values[domain]: int(count) for domain, count in zip(domains.tolist(), counts, strict=True)}


@pytest.fixture
def state() -> Iterator[ClusterState]:
    """Two nodes in zone a, one in b, one without zone; its promises are checked at the end."""
    state = make_state(
        [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("bare")],
        [
            make_pod("web-1", labels={"app": "web", "tier": "front"}, node="a1"),
            make_pod("web-2", labels={"app": "web", "tier": "front"}, node="b1"),
            make_pod("db-1", labels={"app": "db"}, node="a2"),
            make_pod("plain", node="bare"),
            make_pod("web-3", namespace="other", labels={"app": "web"}, node="bare"),
        ],
    )
    yield state
    check_invariants(state)


# --- questions ---


@pytest.mark.parametrize(
    ("question", "want"),
    [
        pytest.param(CountQuery(DEFAULT, selector("app In web")), {"a1": 1, "b1": 1}, id="one namespace"),
        pytest.param(CountQuery(None, selector("app In web")), {"a1": 1, "b1": 1, "bare": 1}, id="all namespaces"),
        pytest.param(
            CountQuery(frozenset({"default", "gone"}), selector("app In web,db")),
            {"a1": 1, "b1": 1, "a2": 1},
            id="several values",
        ),
        pytest.param(CountQuery(DEFAULT, selector("app Exists")), {"a1": 1, "b1": 1, "a2": 1}, id="no pair to look up"),
        pytest.param(CountQuery(DEFAULT, selector("app NotIn web")), {"a2": 1, "bare": 1}, id="NotIn takes bare pods"),
        pytest.param(CountQuery(DEFAULT, EVERYTHING), {"a1": 1, "b1": 1, "a2": 1, "bare": 1}, id="everything"),
        pytest.param(CountQuery(None, NOTHING), {}, id="nothing"),
        pytest.param(CountQuery(DEFAULT, selector("app In web", "tier In back")), {}, id="one condition fails"),
        pytest.param(CountQuery(frozenset(), EVERYTHING), {}, id="no namespace"),
    ],
)
def test_a_new_counter_counts_the_pods_that_are_there(
    state: ClusterState, question: CountQuery, want: dict[str, int]
) -> None:
    """A counter starts from the groups, whatever its selector looks like."""
    assert by_node(state, question) == want


def test_counters_follow_pods_that_come_go_and_change() -> None:
    """New groups find the counters that match them; groups without pods are forgotten."""
    state = make_state([make_node("n1"), make_node("n2")])
    question = CountQuery(DEFAULT, selector("app In web"))
    assert by_node(state, question) == {}
    pod = make_pod("a", labels={"app": "web"}, node="n1")
    state.observe_pod(pod)
    assert by_node(state, question) == {"n1": 1}
    state.observe_pod(replace(pod, template=replace(pod.template, labels=FrozenDict({"app": "db"}))))
    assert by_node(state, question) == {}
    state.observe_pod(make_pod("a", labels={"app": "web"}, node="n2"))
    assert by_node(state, question) == {"n2": 1}
    state.remove_pod(pod.uid)
    assert by_node(state, question) == {}
    assert list(state.pod_counts.groups()) == []
    check_invariants(state)


def test_pods_that_are_being_deleted_leave_the_live_ones() -> None:
    """The deletion mark moves a pod to another group, and a rollback moves it back."""
    pod = make_pod("a", labels={"app": "web"}, node="n1")
    state = make_state([make_node("n1")], [pod])
    live, all_pods = (
        CountQuery(DEFAULT, selector("app In web"), live_only=True),
        CountQuery(DEFAULT, selector("app In web")),
    )
    assert (by_node(state, live), by_node(state, all_pods)) == ({"n1": 1}, {"n1": 1})
    with state.statement():
        state.observe_pod(replace(pod, deleted_s=5.0))
        assert (by_node(state, live), by_node(state, all_pods)) == ({}, {"n1": 1})
    assert (by_node(state, live), by_node(state, all_pods)) == ({"n1": 1}, {"n1": 1})
    state.observe_pod(replace(pod, deleted_s=5.0))
    assert (by_node(state, live), by_node(state, all_pods)) == ({}, {"n1": 1})
    check_invariants(state)


def test_pods_on_unknown_nodes_count_once_the_node_appears(state: ClusterState) -> None:
    """A pod that stands nowhere is in no domain."""
    state.observe_pod(make_pod("early", labels={"app": "late"}, node="c1"))
    question = CountQuery(DEFAULT, selector("app In late"))
    assert by_node(state, question) == {}
    state.upsert_node(make_node("c1", zone="c"))
    assert by_value(state, question, state.domains.column(ZONE)) == {"c": 1}


# --- domains ---


def test_domains_follow_pods_and_nodes(state: ClusterState) -> None:
    """A node that changes its zone, joins or leaves takes its pods along."""
    question, zones = CountQuery(DEFAULT, selector("app Exists")), state.domains.column(ZONE)
    assert by_value(state, question, zones) == {"a": 2, "b": 1}
    state.upsert_node(make_node("a2", zone="b"))
    assert by_value(state, question, zones) == {"a": 1, "b": 2}
    state.remove_node("a1")
    assert by_value(state, question, zones) == {"b": 2}
    state.upsert_node(make_node("c1", zone="c"))
    state.observe_pod(make_pod("new", labels={"app": "new"}, node="c1"))
    assert by_value(state, question, zones) == {"b": 2, "c": 1}
    assert zones.domain_count() == 2
    assert zones.labelled == 3


def test_pod_events_between_a_node_change_and_the_next_question(state: ClusterState) -> None:
    """A row may move and change its pods before anybody asks again."""
    question, zones = CountQuery(DEFAULT, selector("app Exists")), state.domains.column(ZONE)
    by_value(state, question, zones)
    state.upsert_node(make_node("a1", zone="b"))
    state.observe_pod(make_pod("more", labels={"app": "web"}, node="a1"))
    state.remove_node("b1")
    state.upsert_node(make_node("c1", zone="c"))
    state.observe_pod(make_pod("last", labels={"app": "web"}, node="c1"))
    assert by_value(state, question, zones) == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("scope", "want"),
    [
        pytest.param(EVERYWHERE, {"a": 2, "b": 1}, id="everywhere"),
        pytest.param(Scope(keys=("disk",)), {"a": 1}, id="another label"),
        pytest.param(Scope(keys=("unknown",)), {}, id="a label that no node has"),
        pytest.param(Scope(node_selector=FrozenDict({"disk": "ssd"})), {"a": 1}, id="node selector"),
        pytest.param(Scope(terms=(make_node_term("metadata.name In b1"),)), {"b": 1}, id="node affinity"),
        pytest.param(Scope(terms=()), {}, id="terms that match nothing"),
        pytest.param(Scope(tolerations=()), {"a": 1, "b": 1}, id="taints bar"),
        pytest.param(Scope(tolerations=(parse_toleration("dedicated"),)), {"a": 2, "b": 1}, id="taints are tolerated"),
    ],
)
@pytest.mark.parametrize("nodes_change", [False, True], ids=["at rest", "after a change of each node"])
def test_a_scope_leaves_nodes_out(state: ClusterState, scope: Scope, want: dict[str, int], nodes_change: bool) -> None:
    """Only pods on nodes that the scope admits count, whether rows are judged together or one by one."""
    question, column = CountQuery(DEFAULT, selector("app Exists")), state.domains.column(ZONE, scope)
    if nodes_change:
        by_value(state, question, column)
    state.upsert_node(make_node("a1", zone="a", labels={"disk": "ssd"}))
    state.upsert_node(make_node("a2", zone="a", taints=["dedicated=db:NoSchedule", "soft:PreferNoSchedule"]))
    assert by_value(state, question, column) == want


def test_equal_scopes_share_a_column(state: ClusterState) -> None:
    """Columns are kept by what they mean."""
    scope = Scope(keys=("disk",))
    assert state.domains.column(ZONE, scope) is state.domains.column(ZONE, Scope(keys=("disk",)))
    assert state.domains.column(ZONE, Scope()) is state.domains.column(ZONE)


# --- memory ---


def test_counters_that_nobody_asks_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first; a dropped counter is replaced by a right one."""
    monkeypatch.setattr(podcounts, "KEPT_COUNTERS", 8)
    state = make_state([make_node("n1")], [make_pod("a", labels={"app": "x0"}, node="n1")])
    first = state.pod_counts.counter(CountQuery(DEFAULT, selector("app In x0")))
    for number in range(1, 20):
        state.pod_counts.counter(CountQuery(DEFAULT, selector(f"app In x{number}")))
    assert first.dropped
    assert len(list(state.pod_counts.counters())) <= 8
    state.observe_pod(make_pod("b", labels={"app": "x0"}, node="n1"))
    again = state.pod_counts.fresh(first)
    assert (again is first, again.tally.rows.total) == (False, 2)
    assert state.pod_counts.fresh(again) is again
    check_invariants(state)


def test_counters_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Being asked for counts as use."""
    monkeypatch.setattr(podcounts, "KEPT_COUNTERS", 8)
    counts = PodCounts()
    first = counts.counter(CountQuery(DEFAULT, selector("app In x0")))
    for number in range(1, 20):
        counts.fresh(first)
        counts.counter(CountQuery(DEFAULT, selector(f"app In x{number}")))
    assert not first.dropped


def test_many_selectors_that_match_everything_stay_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is measured, not guessed from the number of counters."""
    monkeypatch.setattr(podcounts, "KEPT_BYTES", 100_000)
    nodes = [make_node(f"n{number}") for number in range(300)]
    state = make_state(nodes, [make_pod(f"p{node.name}", labels={"app": "x"}, node=node.name) for node in nodes])
    for number in range(1000):
        state.pod_counts.counter(CountQuery(DEFAULT, selector(f"app NotIn y{number}")))
    used = sum(counter.tally.bytes_used for counter in state.pod_counts.counters())
    assert used < 1_000_000
    check_invariants(state)


# --- terms of pods on nodes ---


def affinity(*terms: PodTerm, preferred: Iterable[tuple[int, PodTerm]] = ()) -> PodAffinity:
    return PodAffinity(terms, tuple(PreferredPodTerm(weight, term) for weight, term in preferred))


def test_terms_are_found_by_the_pods_that_they_are_about() -> None:
    """Kind, namespace and selector decide; equal terms are counted together."""
    web, everyone = PodTerm(selector("app In web"), HOSTNAME), PodTerm(EVERYTHING, ZONE, ("team-b",))
    chosen = PodTerm(selector("app In web"), ZONE, (), selector("team In a"))
    pods = [
        make_pod("a", pod_anti_affinity=affinity(web), node="n1"),
        make_pod("b", labels={"x": "y"}, pod_anti_affinity=affinity(web), node="n2"),
        make_pod("c", pod_affinity=affinity(everyone, preferred=[(7, chosen)]), node="n2"),
    ]
    state = make_state([make_node("n1"), make_node("n2")], pods)

    def found(namespace: str, labels: dict[str, str], of_namespace: dict[str, str]) -> set[tuple[TermKind, int, int]]:
        matching = state.pod_terms.matching(namespace, labels, of_namespace)
        return {(each.term.kind, each.term.weight, each.tally.rows.total) for each in matching}

    assert found("default", {"app": "web"}, {}) == {(TermKind.FORBIDDEN, 0, 2)}
    assert found("default", {"app": "db"}, {}) == set()
    assert found("team-a", {"app": "web"}, {"team": "a"}) == {(TermKind.PREFERRED, 7, 1)}
    assert found("team-b", {}, {}) == {(TermKind.REQUIRED, 0, 1)}
    version = state.pod_terms.version
    state.remove_pod(pods[0].uid)
    assert state.pod_terms.version == version
    state.remove_pod(pods[1].uid)
    assert state.pod_terms.version > version
    assert found("default", {"app": "web"}, {}) == set()
    check_invariants(state)


# --- the parts ---


def test_counts_turn_into_an_array_when_they_are_many() -> None:
    """Small and large counts answer alike."""
    few, many = SparseCounts(), SparseCounts()
    for index in range(3 * FEW):
        many.add(index, 2)
    for index in (5, 900, 5):
        few.add(index, 1)
    many.add(1, -2)
    many.add(2000, 1)
    assert (many.get(0), many.get(1), many.get(2000), many.get(5000)) == (2, 0, 1, 0)
    assert (many.total, many.places, many.peak()) == (6 * FEW - 1, 3 * FEW, 2)
    assert (few.total, few.places, few.peak()) == (3, 2, 2)
    assert many.dense(3).tolist() == [2, 0, 2]
    assert few.dense(7).tolist() == [0, 0, 0, 0, 0, 2, 0]
    few.add_all(many)
    assert (few.get(5), few.get(900), few.get(2000), few.total) == (4, 1, 1, 6 * FEW + 2)
    assert few.places == 3 * FEW + 1
    assert many.bytes_used > 0


def test_an_index_offers_each_item_once() -> None:
    """Items stand where few others are; those without a pair are always offered."""
    index: SelectorIndex[str] = SelectorIndex()
    for name in ("one", "two", "three"):
        index.add(name, selector(f"app In {name}", "tier In front"))
    index.add("either", selector("app In one,two"))
    index.add("any", selector("app Exists"))
    index.add("never", NOTHING)
    assert sorted(index.candidates({"app": "one", "tier": "front"})) == ["any", "either", "one"]
    for name in ("one", "two", "three", "either", "any", "never"):
        index.remove(name)
    assert (len(index), list(index.candidates({"app": "one", "tier": "front"}))) == (0, [])


def test_services_are_found_by_the_pods_that_they_select() -> None:
    """Only those of the pod's namespace whose selector is part of its labels; without selector none."""
    index = ServiceIndex()
    web = Service("default", "web", FrozenDict({"app": "web"}))
    services = [web, Service("default", "none"), Service("other", "web", FrozenDict({"app": "web"}))]
    both = Service("default", "both", FrozenDict({"app": "web", "tier": "front"}))
    for service in (*services, both):
        index.replace(None, service)
    assert index.selecting("default", {"app": "web"}) == [web]
    assert set(index.selecting("default", {"app": "web", "tier": "front"})) == {web, both}
    index.replace(web, replace(web, selector=FrozenDict({"app": "db"})))
    index.replace(both, None)
    assert index.selecting("default", {"app": "web", "tier": "front"}) == []


# --- anything, in any order ---

NODES = [f"n{number}" for number in range(6)]
PODS = [f"p{number}" for number in range(12)]
LABELS = [{}, {"app": "web"}, {"app": "web", "tier": "front"}, {"app": "db"}]
QUESTIONS = [
    CountQuery(DEFAULT, selector_from_labels({"app": "web"}), live_only=True),
    CountQuery(None, selector("app In web,db")),
    CountQuery(frozenset({"default", "team-a"}), EVERYTHING),
    CountQuery(DEFAULT, selector("tier DoesNotExist")),
]
SCOPES = [
    EVERYWHERE,
    Scope(keys=("disk",)),
    Scope(terms=(make_node_term("disk In ssd"), make_node_term("metadata.name In n1"))),
    Scope(tolerations=()),
]
TERMS = [PodTerm(selector("app In web"), ZONE), PodTerm(EVERYTHING, HOSTNAME, ("team-a",))]


class Counting(RuleBasedStateMachine):
    """After every event, kept counters equal a recount; statements leave nothing behind."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.open: list[Statement] = []

    @rule(
        name=st.sampled_from(NODES),
        zone=st.sampled_from([None, "a", "b", "c"]),
        disk=st.booleans(),
        tainted=st.booleans(),
    )
    def node_seen(self, name: str, zone: str | None, disk: bool, tainted: bool) -> None:
        labels = {"disk": "ssd"} if disk else {}
        self.state.upsert_node(make_node(name, zone=zone, labels=labels, taints=["x:NoSchedule"] if tainted else []))

    @rule(name=st.sampled_from(NODES))
    def node_gone(self, name: str) -> None:
        self.state.remove_node(name)

    @rule(
        name=st.sampled_from(PODS),
        node=st.sampled_from(NODES),
        labels=st.sampled_from(LABELS),
        namespace=st.sampled_from(["default", "team-a"]),
        near=st.lists(st.sampled_from(TERMS), max_size=2),
        far=st.lists(st.sampled_from(TERMS), max_size=1),
        deleting=st.booleans(),
    )
    def pod_seen(
        self, name: str, node: str, labels: dict[str, str], namespace: str, near: list[PodTerm], far: list[PodTerm],
        deleting: bool,
    ) -> None:  # fmt: skip
        pod = make_pod(
            name, uid=name, namespace=namespace, labels=labels, node=node,
            pod_affinity=affinity(*near) if near else None,
            pod_anti_affinity=affinity(preferred=[(5, term) for term in far]) if far else None,
        )  # fmt: skip
        self.state.observe_pod(replace(pod, deleted_s=1.0) if deleting else pod)

    @rule(name=st.sampled_from(PODS))
    def pod_marked(self, name: str) -> None:
        record = self.state.record(name)
        if record is not None:
            self.state.observe_pod(replace(record.pod, deleted_s=2.0))

    @rule(name=st.sampled_from(PODS))
    def pod_gone(self, name: str) -> None:
        self.state.remove_pod(name)

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(NODES), labels=st.sampled_from(LABELS))
    def assume(self, name: str, node: str, labels: dict[str, str]) -> None:
        row = self.state.row_of(node)
        if row is not None:
            self.state.assume(make_pod(name, uid=name, labels=labels), row)

    @rule(question=st.sampled_from(QUESTIONS), key=st.sampled_from([ZONE, HOSTNAME]), scope=st.sampled_from(SCOPES))
    def ask(self, question: CountQuery, key: str, scope: Scope) -> None:
        by_value(self.state, question, self.state.domains.column(key, scope))

    @rule()
    def begin(self) -> None:
        if len(self.open) < 2:
            self.open.append(self.state.statement().__enter__())

    @rule(keep=st.booleans())
    def end(self, keep: bool) -> None:
        if self.open:
            statement = self.open.pop()
            statement.commit() if keep else statement.rollback()

    @invariant()
    def recount(self) -> None:
        check_invariants(self.state)


TestCounting = Counting.TestCase
TestCounting.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
