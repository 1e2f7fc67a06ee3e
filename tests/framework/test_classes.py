"""The table of classes stays bounded, forgets everything about dropped classes, and keeps those that are asked for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.framework import classes
from moorage.framework.classes import ClassTable, PluginError, PodClass, make_scorers, pre_filter, wanted_scorers
from moorage.framework.cycle import Cycle
from moorage.framework.instances import Instances
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, Code, OnlyNodes, Status, unresolvable
from moorage.framework.views import Scorer
from moorage.testing import make_node, make_pod, make_state
from tests.framework import readers


@pytest.fixture
def state() -> ClusterState:
    return make_state(make_node(f"n{i}") for i in range(4))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ClassTable:
    """Keeps four classes and twelve templates."""
    monkeypatch.setattr(classes, "_KEPT_CLASSES", 4)
    monkeypatch.setattr(classes, "_MOST_CLASSES", 4)
    monkeypatch.setattr(classes, "_KEPT_TEMPLATES", 12)
    plugins = Instances(readers.make_profile([readers.NodeScore(), readers.AmountsPlugin()]))
    return ClassTable(plugins, make_scorers(plugins, {}))


def find(table: ClassTable, state: ClusterState, pod: Pod) -> PodClass:
    return table.find(Cycle(pod, state, 0.0))


def test_pods_that_look_equal_to_the_plugins_share_a_class(table: ClassTable, state: ClusterState) -> None:
    """Names, annotations and labels that no plugin reads do not matter; requests do."""
    first = find(table, state, make_pod("a", cpu="100m"))
    assert find(table, state, make_pod("b", cpu="100m", annotations={"x": "y"})) is first
    assert find(table, state, make_pod("c", cpu="200m")) is not first
    assert find(table, state, make_pod("d", cpu="100m", labels={"loud": "yes"})) is not first


def test_classes_and_templates_stay_bounded(table: ClassTable, state: ClusterState) -> None:
    """Every pod different: nothing grows, and a dropped class is known by no template any more."""
    pods = [make_pod(f"p{number}", cpu=f"{number}m") for number in range(100)]
    for pod in pods:
        find(table, state, pod)
        assert len(table._by_signs) <= 4
        kept = {id(found) for found in table._by_signs.values()}
        known = [found for each in pods if (found := table._by_template.get(each.template)) is not None]
        assert len(known) == len(table._by_template) <= 12
        assert all(found.pod_class() is None or id(found.pod_class()) in kept for found in known)


def test_templates_of_one_class_stay_bounded(table: ClassTable, state: ClusterState) -> None:
    """Pods of one class whose annotations all differ."""
    pods = [make_pod("p", cpu="1", annotations={"n": str(number)}) for number in range(50)]
    found = find(table, state, pods[0])
    for pod in pods:
        assert find(table, state, pod) is found
        assert len(table._by_template) <= 12


def test_templates_of_pods_that_are_gone_are_forgotten(table: ClassTable, state: ClusterState) -> None:
    """The class stays, for the next pod that looks so."""
    pods = [make_pod("p", cpu="1", annotations={"n": str(number)}) for number in range(10)]
    found = {id(find(table, state, pod)) for pod in pods}
    pods.clear()
    assert len(table._by_template) == 0
    assert len(table._by_signs) == 1
    assert found == {id(find(table, state, make_pod("q", cpu="1")))}


def test_a_class_in_use_outlives_many_others(table: ClassTable, state: ClusterState) -> None:
    """A burst of equal pods among ever different ones keeps its answers."""
    steady = make_pod("steady", cpu="777m")
    found = find(table, state, steady)
    for number in range(60):
        find(table, state, make_pod(f"p{number}", cpu=f"{number}m"))
        assert find(table, state, steady) is found


def test_a_dropped_class_lends_its_memory_only_once(table: ClassTable, state: ClusterState) -> None:
    """Two living classes never share a rank array, however many were dropped, used or not."""
    for number in range(80):
        for pod in (make_pod(f"p{number}", cpu=f"{number}m"), make_pod("q", cpu=f"{number % 5}m")):
            find(table, state, pod).view.refresh(Cycle(pod, state, 0.0))
            arrays = [id(found.view.rank) for found in table._by_signs.values() if len(found.view.rank)]
            assert len(set(arrays)) == len(arrays)


class Says(Plugin):
    """Answers PreFilter with what it was made with."""

    name: ClassVar[str] = "Says"
    reads: ClassVar[Reads] = Reads.NODE

    def __init__(self, answer: Status | OnlyNodes | None, called: str = "Says") -> None:
        super().__init__()
        self._answer = answer
        self.name = called  # type: ignore[misc] # one class stands for several plugins here

    def sign(self, template: PodTemplate) -> Hashable:  # noqa: ARG002 - part of the interface
        return None

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:  # noqa: ARG002 - part of the interface
        return self._answer


class Scores(Says):
    """Scores, too, if PreScore lets it."""

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        return None if isinstance(self._answer, OnlyNodes) else self._answer

    def score(self, cycle: Cycle, rows: Rows) -> Ints:  # noqa: ARG002 - part of the interface
        return np.zeros(len(rows), dtype=np.int64)


def only(*names: str) -> OnlyNodes:
    return OnlyNodes(frozenset(names))


def cycle_of(state: ClusterState) -> Cycle:
    return Cycle(make_pod("p"), state, 0.0)


def test_the_first_refusal_of_pre_filter_counts(state: ClusterState) -> None:
    """It carries the plugin's name."""
    said = pre_filter(
        [Says(None, "A"), Says(SKIP, "B"), Says(unresolvable("no"), "C"), Says(unresolvable("never"), "D")],
        cycle_of(state),
    )
    assert said.refusal == Status(Code.UNRESOLVABLE, ("no",), "C")


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param([Says(only(), "A")], "node(s) didn't satisfy plugin A", id="one plugin"),
        pytest.param(
            [Says(only("n1"), "B"), Says(only("n2"), "A")],
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
            id="two plugins",
        ),
    ],
)
def test_no_common_node_is_a_refusal(state: ClusterState, plugins: list[Says], want: str) -> None:
    """kube-scheduler's words where PreFilter plugins leave nothing together."""
    said = pre_filter(plugins, cycle_of(state))
    assert said.refusal is not None
    assert (said.refusal.code, said.refusal.message) == (Code.UNRESOLVABLE, want)


def test_pre_score_skips_passes_or_fails(state: ClusterState) -> None:
    """SKIP leaves the plugin out, an error ends the decision."""
    skips, passes = scorer(SKIP), scorer(None)
    assert wanted_scorers([skips, passes], cycle_of(state), state.rows()) == (passes,)
    with pytest.raises(PluginError, match="running PreScore plugin Bad: out of order"):
        wanted_scorers([scorer(Status(Code.ERROR, ("out of order",)), "Bad")], cycle_of(state), state.rows())


def scorer(answer: Status | None, name: str = "Says") -> Scorer:
    plugin = Scores(answer, name)
    return Scorer(plugin, 1, plugin)
