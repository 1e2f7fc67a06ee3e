"""Which plugins are asked about which rows, in which order, and what nominated pods mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Ints, Rows
from moorage.core.invariants import check_invariants
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import SKIP, OnlyNodes, Reason, Rejections, Status, unresolvable, unschedulable
from moorage.testing import make_node, make_pod, make_state
from tests.framework import readers


class Picky(Plugin):
    """Rejects the named nodes, notes what it was asked, and answers PreFilter as told."""

    name: ClassVar[str] = "Picky"

    def __init__(
        self,
        called: str,
        rejects: Iterable[str] = (),
        says: Status | OnlyNodes | None = None,
        reads: Reads = Reads.CLUSTER,
        resolvable: bool = True,
    ) -> None:
        super().__init__()
        self.name = called  # type: ignore[misc] # one class stands for several plugins here
        self.reads = reads  # type: ignore[misc]
        self.asked: list[list[str]] = []
        self._rejects = frozenset(rejects)
        self._says = says
        self._resolvable = resolvable

    def sign(self, template: Any) -> None:  # noqa: ARG002 - part of the interface
        return None

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:  # noqa: ARG002 - part of the interface
        return self._says

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        names = [cycle.state.node(int(row)).name for row in rows]
        self.asked.append(sorted(names))
        bits = np.array([int(name in self._rejects) for name in names], dtype=np.int64)
        return Rejections(bits, (Reason(f"{self.name} says no", self._resolvable),))


@pytest.fixture
def state() -> Iterator[ClusterState]:
    made = make_state(make_node(f"n{i}", cpu="2") for i in range(1, 6))
    yield made
    check_invariants(made)


def judge(state: ClusterState, plugins: Iterable[Plugin], pod: Pod | None = None, **how: bool) -> Judgement:
    runner = Runner(readers.make_profile(plugins), state)
    return runner.judge(Cycle(pod or make_pod("p"), state, 0.0), state.rows(), **how)


def names(state: ClusterState, rows: Iterable[Any]) -> list[str]:
    return sorted(state.node(int(row)).name for row in rows)


def rejected(state: ClusterState, judgement: Judgement) -> dict[str, tuple[str, list[str]]]:
    return {
        state.node(int(row)).name: (
            v.plugin,
            [reason.text for reason in v.rejections.given(int(v.rejections.bits[index]))],
        )
        for v in judgement.verdicts
        for index, row in enumerate(v.rows)
    }


def test_a_later_plugin_sees_only_the_rows_that_earlier_ones_passed(state: ClusterState) -> None:
    """As in kube-scheduler: the first plugin that rejects a node is the one that counts."""
    first, second, third = Picky("A", ["n1", "n2"]), Picky("B", ["n2", "n3"]), Picky("C")
    judgement = judge(state, [first, second, third])
    assert second.asked == [["n3", "n4", "n5"]]
    assert third.asked == [["n4", "n5"]]
    assert names(state, judgement.passed) == ["n4", "n5"]
    assert rejected(state, judgement) == {
        "n1": ("A", ["A says no"]),
        "n2": ("A", ["A says no"]),
        "n3": ("B", ["B says no"]),
    }


def test_nobody_is_asked_about_no_rows(state: ClusterState) -> None:
    """Once every row is lost the remaining plugins have nothing to do."""
    last = Picky("B")
    assert not len(judge(state, [Picky("A", state.node_names()), last]).passed)
    assert last.asked == []


def test_a_refusal_by_pre_filter_ends_it(state: ClusterState) -> None:
    """No filter runs; an unresolvable one leaves no node for preemption."""
    other = Picky("B")
    judgement = judge(state, [Picky("A", says=unresolvable("no such claim")), other])
    assert judgement.refusal is not None
    assert (judgement.refusal.plugin, judgement.refusal.message) == ("A", "no such claim")
    assert other.asked == []
    assert len(judgement.unresolvable_rows()) == 5
    assert judge(state, [Picky("A", says=unschedulable("wait"))]).unresolvable_rows() == set()


def test_pre_filter_narrows_the_nodes(state: ClusterState) -> None:
    """Several plugins narrow together; names that no node has do not matter; what is left out is unresolvable."""
    some, fewer = OnlyNodes(frozenset({"n1", "n2", "n9"})), OnlyNodes(frozenset({"n2", "n3"}))
    judgement = judge(state, [Picky("A", says=some), Picky("B", says=fewer)])
    assert names(state, judgement.passed) == ["n2"]
    assert judgement.excluded_by == ("A", "B")
    assert names(state, judgement.excluded) == ["n1", "n3", "n4", "n5"]
    assert judgement.unresolvable_rows() == set(map(int, judgement.excluded))


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.AMOUNTS, Reads.PODS, Reads.CLUSTER], ids=str)
def test_a_plugin_that_skips_the_pod_is_not_asked_to_filter(state: ClusterState, reads: Reads) -> None:
    """Neither afresh nor in the kept answers."""
    skips = Picky("A", state.node_names(), says=SKIP, reads=reads)
    runner = Runner(readers.make_profile([skips]), state)
    assert readers.decide(runner, state, make_pod("p")) != NOWHERE
    assert len(runner.judge(Cycle(make_pod("p"), state, 0.0), state.rows()).passed) == 5
    assert skips.asked == []


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.AMOUNTS, Reads.PODS, Reads.CLUSTER], ids=str)
def test_decide_follows_pre_filter(state: ClusterState, reads: Reads) -> None:
    """A refusal leaves no node, a narrowing only the named ones, time and again."""
    refuses = Runner(readers.make_profile([Picky("A", says=unschedulable("no"), reads=reads)]), state)
    narrows = Runner(readers.make_profile([Picky("A", says=OnlyNodes(frozenset({"n4"})), reads=reads)]), state)
    for _ in range(3):
        assert readers.decide(refuses, state, make_pod("p")) == NOWHERE
        assert readers.node_name(state, readers.decide(narrows, state, make_pod("p"))) == "n4"


def test_only_the_given_rows_are_judged(state: ClusterState) -> None:
    """Preemption asks about candidates only."""
    plugin = Picky("A", ["n1"])
    runner = Runner(readers.make_profile([plugin]), state)
    rows = np.array(sorted([row_of(state, "n1"), row_of(state, "n3")]), dtype=np.intp)
    judgement = runner.judge(Cycle(make_pod("p"), state, 0.0), rows)
    assert names(state, judgement.passed) == ["n3"]
    assert plugin.asked == [["n1", "n3"]]


def test_unresolvable_rows_are_those_with_an_unresolvable_reason(state: ClusterState) -> None:
    """One hopeless reason is enough, whatever else the plugin says."""

    class Both(Picky):
        def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
            kinds = {"n1": 1, "n2": 2, "n3": 3}
            bits = [kinds.get(cycle.state.node(int(row)).name, 0) for row in rows]
            return Rejections(np.array(bits, dtype=np.int64), (Reason("full"), Reason("wrong kind", resolvable=False)))

    judgement = judge(state, [Both("A")])
    assert names(state, judgement.unresolvable_rows()) == ["n2", "n3"]
    assert rejected(state, judgement)["n3"] == ("A", ["full", "wrong kind"])


def test_scores_are_normalised_over_the_feasible_rows_and_weighted(state: ClusterState) -> None:
    """A node that no filter passes does not stretch the scale."""
    for number, gen in enumerate([2, 4, 8, 16, 32], start=1):
        state.upsert_node(make_node(f"n{number}", labels={"gen": str(gen)}))
    profile = readers.make_profile([Picky("A", ["n4", "n5"]), readers.NodeNormal()], weights={"NodeNormal": 3})
    runner = Runner(profile, state)
    cycle = Cycle(make_pod("p"), state, 0.0)
    passed = runner.judge(cycle, state.rows()).passed
    scores = runner.score_table(cycle, passed)["NodeNormal"]
    assert dict(zip((state.node(int(r)).name for r in passed), scores.tolist(), strict=True)) == {
        "n1": 75,
        "n2": 150,
        "n3": 300,
    }
    assert readers.node_name(state, readers.decide(runner, state, make_pod("p"))) == "n3"


# --- nominations ---


def row_of(state: ClusterState, name: str) -> int:
    row = state.row_of(name)
    assert row is not None
    return row


def only_free(state: ClusterState, name: str) -> None:
    """Fill every node but this one."""
    for other in state.node_names():
        if other != name:
            state.observe_pod(make_pod(f"filler-{other}", cpu="2", node=other))


@pytest.mark.parametrize(
    ("priority", "want"),
    [
        pytest.param(0, NOWHERE, id="less important: the nominated pod counts"),
        pytest.param(10, NOWHERE, id="equally important: the nominated pod counts"),
        pytest.param(11, "n3", id="more important: it does not"),
    ],
)
def test_nominated_pods_count_as_present(state: ClusterState, priority: int, want: object) -> None:
    """For pods of equal or lower priority, in judgements and decisions alike."""
    only_free(state, "n3")
    state.nominations.set(make_pod("nominated", cpu="1500m", priority=10), "n3")
    pod = make_pod("p", cpu="1", priority=priority)
    runner = Runner(readers.default_profile(), state)
    row = readers.decide(runner, state, pod)
    assert (row if row == NOWHERE else readers.node_name(state, row)) == want
    judgement = runner.judge(Cycle(pod, state, 0.0), state.rows())
    assert names(state, judgement.passed) == ([] if want == NOWHERE else ["n3"])
    without = runner.judge(Cycle(pod, state, 0.0), state.rows(), nominated=False)
    assert names(state, without.passed) == ["n3"]


def test_a_nomination_does_not_count_against_its_own_pod(state: ClusterState) -> None:
    """The pod that is nominated to the node may have it."""
    only_free(state, "n3")
    pod = make_pod("nominated", cpu="1500m", priority=10)
    state.nominations.set(pod, "n3")
    runner = Runner(readers.default_profile(), state)
    assert runner.fits(Cycle(pod, state, 0.0), row_of(state, "n3"))
    assert readers.node_name(state, readers.decide(runner, state, pod)) == "n3"


def test_a_promised_pod_that_is_assumed_counts_once(state: ClusterState) -> None:
    """Between the assumption and the end of the nomination."""
    only_free(state, "n3")
    nominated = make_pod("nominated", cpu="900m", priority=10)
    state.nominations.set(nominated, "n3")
    state.assume(nominated, row_of(state, "n3"))
    runner = Runner(readers.default_profile(), state)
    assert readers.node_name(state, readers.decide(runner, state, make_pod("p", cpu="1"))) == "n3"


def test_promised_host_ports_are_taken(state: ClusterState) -> None:
    """Not only amounts count: the nominated pod counts with all it has."""
    only_free(state, "n3")
    state.nominations.set(make_pod("nominated", cpu="100m", ports=[80], priority=10), "n3")
    runner = Runner(readers.default_profile(), state)
    assert readers.decide(runner, state, make_pod("p", cpu="100m", ports=[80])) == NOWHERE
    assert readers.node_name(state, readers.decide(runner, state, make_pod("p", cpu="100m", ports=[81]))) == "n3"


class NeedsCompany(Plugin):
    """Wants a node without nominated pods and with the pods that are really there."""

    name: ClassVar[str] = "NeedsCompany"

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.memo[self.name] = {int(row): len(cycle.state.records_on(int(row))) for row in cycle.state.rows()}

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections:
        counts = cycle.memo[self.name]
        bits: Ints = np.array([int(counts[int(row)] != 1) for row in rows], dtype=np.int64)
        return Rejections(bits, (Reason("not exactly one pod"),))


def test_a_node_must_pass_with_and_without_its_promised_pods(state: ClusterState) -> None:
    """A nominated pod may never arrive, so it must not be what makes a node fit; PreFilter runs again."""
    state.nominations.set(make_pod("nominated", priority=10), "n2")
    state.observe_pod(make_pod("real", node="n3"))
    state.observe_pod(make_pod("real-too", node="n4"))
    state.nominations.set(make_pod("nominated-too", priority=10), "n4")
    runner = Runner(readers.make_profile([NeedsCompany()]), state)
    pod = make_pod("p")
    judgement = runner.judge(Cycle(pod, state, 0.0), state.rows())
    assert names(state, judgement.passed) == ["n3"], "n2 fails without its nominated pod, n4 with it"
    assert readers.node_name(state, readers.decide(runner, state, pod)) == "n3"


def test_asking_leaves_no_trace(state: ClusterState) -> None:
    """Promised pods stand on their nodes only while they are asked about."""
    state.nominations.set(make_pod("nominated", cpu="1", priority=10), "n3")
    before = state.resources.requested.copy()
    runner = Runner(readers.default_profile(), state)
    runner.judge(Cycle(make_pod("p", cpu="1", ports=[80]), state, 0.0), state.rows())
    assert np.array_equal(before, state.resources.requested)
    assert state.record("default/nominated") is None
