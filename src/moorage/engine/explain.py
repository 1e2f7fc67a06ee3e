"""Why this node and not another: the rejection or the scores of every node, computed anew, never on the hot path."""

from __future__ import annotations

from dataclasses import field

from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.diagnosis import reasons_by_row, rejections_by_row
from moorage.framework.contract import TellsDetails
from moorage.framework.cycle import Cycle
from moorage.framework.details import Detail
from moorage.framework.runner import Judgement, Runner

PASSED_OVER = "taken only if no other node fits"
"""What a soft rejection means."""


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """One node: which plugin rejected it and why, or every plugin's normalised score times its weight.

    Or who passes it over and why: it fits, and is taken if no other node fits.
    """

    rejected: dict[str, list[str]] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    details: tuple[Detail, ...] = ()
    """More about the rejection, where the plugin can tell."""
    passed_over: dict[str, list[str]] = field(default_factory=dict)
    """Soft rejections that stand."""

    @property
    def competes(self) -> bool:
        """Whether its score counts."""
        return not self.rejected and not self.passed_over

    @property
    def total(self) -> int:
        """The sum that nodes are compared by."""
        return sum(self.scores.values())


def explain(runner: Runner, state: ClusterState, pod: Pod, now: float) -> dict[str, NodeExplanation]:
    """Judge and score every node for the pod as the state is now; node name -> explanation, ordered by name."""
    cycle = Cycle(pod, state, now)
    rows = state.rows()
    judgement = runner.judge(cycle, rows)
    found: dict[str, NodeExplanation] = {}
    if judgement.refusal is not None:
        refused = {judgement.refusal.plugin: list(judgement.refusal.reasons)}
        return {name: NodeExplanation(rejected=dict(refused)) for name in sorted(state.node_names())}
    details = _details(runner, cycle, judgement)
    for row, (plugin, reasons) in rejections_by_row(judgement).items():
        found[state.node(row).name] = NodeExplanation(rejected={plugin: reasons}, details=details.get(row, ()))
    left, passed_over = runner.prefer(cycle, judgement.passed)
    for row, (plugin, reasons) in reasons_by_row(passed_over).items():
        found[state.node(row).name] = NodeExplanation(passed_over={plugin: reasons})
    if len(left):
        table = runner.score_table(cycle, left)
        for index, row in enumerate(left):
            scores = {name: int(column[index]) for name, column in table.items()}
            found[state.node(int(row)).name] = NodeExplanation(scores=scores)
    return dict(sorted(found.items()))


def _details(runner: Runner, cycle: Cycle, judgement: Judgement) -> dict[int, tuple[Detail, ...]]:
    """Row -> what the plugin that rejected it can tell beside its reasons."""
    telling = {plugin.name: plugin for plugin in runner.plugins.having(TellsDetails)}
    found: dict[int, tuple[Detail, ...]] = {}
    for verdict in judgement.verdicts:
        if verdict.plugin in telling:
            told = telling[verdict.plugin].details(cycle, verdict.rows)
            found |= {row: tuple(details) for row, details in told.items()}
    return found
