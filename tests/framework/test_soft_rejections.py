"""Soft rejections: nodes that are taken only if no other fits, whatever scores and promises say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Ints, Rows
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.runner import Runner
from moorage.framework.status import SKIP, Reason, Rejections, Status
from moorage.testing import make_node, make_pod, make_state
from tests.framework import readers

POD = make_pod("p")


class Avoids(Plugin):
    """Passes over the named nodes; skips calm pods."""

    name: ClassVar[str] = "Avoids"

    def __init__(self, *nodes: str, called: str = "Avoids", reads: Reads = Reads.CLUSTER) -> None:
        super().__init__()
        self.name = called  # type: ignore[misc] # one class stands for several plugins here
        self.reads = reads  # type: ignore[misc]
        self.nodes = nodes

    def sign(self, template: Any) -> str:
        return template.labels.get("calm", "")  # type: ignore[no-any-return]

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return SKIP if cycle.template.labels.get("calm") else None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - it rejects softly only
        return None

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        bits = [int(cycle.state.node(int(row)).name in self.nodes) for row in rows]
        return Rejections(np.array(bits, dtype=np.int64), (Reason(f"{self.name} had rather not"),))


class AvoidsCompany(Avoids):
    """Passes over nodes with pods."""

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        bits = [int(len(cycle.state.records_on(int(row))) > 0) for row in rows]
        return Rejections(np.array(bits, dtype=np.int64), (Reason("company"),))


class Likes(Plugin):
    """Scores by the label `liked`, normalised to the most of the rows that it is given."""

    name: ClassVar[str] = "Likes"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.array([int(cycle.state.node(int(row)).labels.get("liked", "0")) for row in rows], dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        return scores * 100 // max(1, int(scores.max()))


@pytest.fixture
def state() -> ClusterState:
    return make_state(make_node(f"n{i}", cpu="2", labels={"liked": str(i)}) for i in range(1, 5))


def runner_of(state: ClusterState, *plugins: Plugin) -> Runner:
    return Runner(readers.make_profile(plugins), state)


def chosen(state: ClusterState, *plugins: Plugin, pod: Any = POD) -> Any:
    return readers.node_name(state, readers.decide(runner_of(state, *plugins), state, pod))


def names(state: ClusterState, rows: Iterable[Any]) -> list[str]:
    return [state.node(int(row)).name for row in rows]


@pytest.mark.parametrize("reads", list(Reads), ids=str)
@pytest.mark.parametrize(
    ("avoided", "want"),
    [
        ((), "n4"),
        (("n4",), "n3"),
        (("n4", "n3", "n2"), "n1"),
        (("n4", "n3", "n2", "n1"), "n4"),
    ],
    ids=["none", "the best", "all but one", "all: dropped"],
)
def test_they_stand_if_they_leave_a_node(state: ClusterState, reads: Reads, avoided: Any, want: str) -> None:
    """Whatever the scores are, and however long the plugin's answers are kept."""
    assert chosen(state, Avoids(*avoided, reads=reads), Likes()) == want


def test_each_plugin_in_the_order_of_the_profile(state: ClusterState) -> None:
    """A plugin that would leave nothing of what the earlier ones left is not heard; they are."""
    first, second = Avoids("n4", "n3", called="First"), Avoids("n1", "n2", called="Second")
    assert chosen(state, first, second, Likes()) == "n2"
    assert chosen(state, second, first, Likes()) == "n4"
    assert chosen(state, first, Avoids("n2", called="Third"), second, Likes()) == "n1"


def test_a_plugin_that_skips_the_pod_is_not_asked(state: ClusterState) -> None:
    """As with Filter."""
    assert chosen(state, Avoids("n4"), Likes(), pod=make_pod("c", labels={"calm": "yes"})) == "n4"


def test_no_filter_and_no_search_for_victims_sees_them(state: ClusterState) -> None:
    """`judge`, `fits` and `takes` answer for a node as if nothing had been said: it can be taken."""
    runner = runner_of(state, Avoids("n1", "n2"), Likes())
    judgement = runner.judge(Cycle(POD, state, 0.0), state.rows())
    assert names(state, judgement.passed) == ["n1", "n2", "n3", "n4"]
    assert not judgement.verdicts
    row = state.row_of("n1")
    assert row is not None
    assert runner.fits(Cycle(POD, state, 0.0), row)
    assert runner.takes(Cycle(POD, state, 0.0), row)
    assert runner.room(Cycle(POD, state, 0.0), state.rows()).all()


def test_scores_are_normalised_over_the_nodes_that_are_left(state: ClusterState) -> None:
    """The two that are left differ by half of all points, not by a quarter."""
    runner = runner_of(state, Avoids("n3", "n4"), Likes())
    cycle = Cycle(POD, state, 0.0)
    left = runner.prefer(cycle, state.rows())
    assert names(state, left.rows) == ["n1", "n2"]
    assert [(each.plugin, names(state, each.rows)) for each in left.passed_over] == [("Avoids", ["n3", "n4"])]
    assert runner.score_table(cycle, left.rows)["Likes"].tolist() == [50, 100]
    # Points of others (of extenders) follow their rows: of the two that are left, the first one has more.
    assert runner.best_of(cycle, state.rows(), np.array([60, 0, 900, 900], dtype=np.int64)) == left.rows[0]
    assert cycle.feasible == 2


@pytest.mark.parametrize("reads", [Reads.PODS, Reads.CLUSTER], ids=str)
def test_a_promised_pod_counts(state: ClusterState, reads: Reads) -> None:
    """A node is passed over for a pod that is nominated to it, as for one that stands there."""
    company = AvoidsCompany(reads=reads)
    runner = runner_of(state, company, Likes())
    state.nominations.set(make_pod("promised", priority=5), "n4")
    state.observe_pod(make_pod("there", node="n3"))
    assert readers.node_name(state, readers.decide(runner, state, POD)) == "n2"
    assert chosen(state, company, Likes(), pod=make_pod("more", priority=9)) == "n4", "a lower promise does not count"
