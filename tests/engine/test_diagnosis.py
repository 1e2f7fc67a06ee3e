"""Why a pod fits nowhere, in kube-scheduler's words and order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from moorage.core.arrays import Rows
from moorage.engine.diagnosis import rejecting_plugins, rejections_by_row, unschedulable_message
from moorage.framework.runner import Judgement, PluginRejections
from moorage.framework.status import Code, Reason, Rejections, Status

CPU, MEMORY = Reason("Insufficient cpu"), Reason("Insufficient memory")
NO_CPU_AT_ALL = Reason("Insufficient cpu", resolvable=False)
TAINT = Reason("node(s) had untolerated taint(s)", resolvable=False)


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.intp)


def verdict(plugin: str, bits: dict[int, int], *reasons: Reason) -> PluginRejections:
    """Which bits are set on which row."""
    return PluginRejections(plugin, rows(*bits), Rejections(np.array(list(bits.values()), dtype=np.int64), reasons))


def judged(*verdicts: PluginRejections, excluded_by: Sequence[str] = (), excluded: Sequence[int] = ()) -> Judgement:
    return Judgement(rows(), verdicts, None, tuple(excluded_by), rows(*excluded))


@pytest.mark.parametrize(
    ("judgement", "nodes", "want"),
    [
        pytest.param(
            judged(verdict("Fit", {0: 1, 1: 1, 2: 1}, CPU)),
            3,
            "0/3 nodes are available: 3 Insufficient cpu.",
            id="one reason",
        ),
        pytest.param(
            judged(verdict("Fit", {0: 1, 1: 3, 2: 2}, CPU, MEMORY)),
            3,
            "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
            id="a node counts for each of its reasons",
        ),
        pytest.param(
            judged(verdict("Taints", {0: 1}, TAINT), verdict("Fit", {1: 1}, CPU)),
            2,
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).",
            id="capitals before small letters",
        ),
        pytest.param(
            judged(verdict("Taints", {0: 1, 1: 1}, TAINT), verdict("Fit", dict.fromkeys(range(2, 12), 1), CPU)),
            12,
            "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s).",
            id="10 before 2",
        ),
        pytest.param(
            judged(verdict("Fit", {0: 1, 1: 2}, CPU, NO_CPU_AT_ALL)),
            2,
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="resolvable or not, the same words count together",
        ),
        pytest.param(
            judged(verdict("Fit", {3: 1}, CPU), excluded_by=["NodeAffinity", "A"], excluded=[0, 1, 2]),
            4,
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [A NodeAffinity].",
            id="nodes that PreFilter left out",
        ),
        pytest.param(
            Judgement(rows(), (), Status(Code.UNRESOLVABLE, ("claim not found", "nor another"), "Volumes")),
            4,
            "0/4 nodes are available: claim not found, nor another.",
            id="PreFilter refused the pod",
        ),
        pytest.param(judged(), 0, "no nodes available to schedule pods", id="no nodes"),
    ],
)
def test_the_message(judgement: Judgement, nodes: int, want: str) -> None:
    """Numbers and reasons, sorted bytewise."""
    assert unschedulable_message(judgement, nodes) == want


def test_whose_changed_mind_could_help() -> None:
    """Everyone who rejected a node or left it out; only the refusing plugin where PreFilter refused."""
    both = judged(verdict("Fit", {0: 1}, CPU), excluded_by=["NodeAffinity"], excluded=[1])
    assert rejecting_plugins(both) == {"Fit", "NodeAffinity"}
    refused = Judgement(rows(), (), Status(Code.UNSCHEDULABLE, ("no",), "Volumes"))
    assert rejecting_plugins(refused) == {"Volumes"}


def test_each_rejected_row_names_its_plugin_and_all_its_reasons() -> None:
    """For explanations and preemption."""
    judgement = judged(
        verdict("Taints", {5: 1}, TAINT), verdict("Fit", {1: 3}, CPU, MEMORY), excluded_by=["B", "A"], excluded=[7]
    )
    assert rejections_by_row(judgement) == {
        5: ("Taints", ["node(s) had untolerated taint(s)"]),
        1: ("Fit", ["Insufficient cpu", "Insufficient memory"]),
        7: ("A", ["node(s) didn't satisfy plugin(s) [A B]"]),
    }
