"""DefaultPreemption: a pod that fits nowhere may take the place of pods of lower priority.

PostFilter searches the nodes that were rejected for reasons which removing pods can change (`framework.preemption`)
and nominates the best one. The engine evicts the victims; until their deletion is answered, PreEnqueue holds the pod.

`minCandidateNodesPercentage` and `minCandidateNodesAbsolute` bound the search as in kube-scheduler only where filters
have to be asked node by node. Where amounts decide, all nodes are compared, since that is cheap; and nothing is drawn
at random: same input, same victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from moorage.core.arrays import Rows
from moorage.core.evictions import Evictions
from moorage.core.pods import Pod
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import VictimTable
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.preemption import Found, VictimSearch, nomination_of
from moorage.framework.reasons import available
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Nomination, Status, unresolvable, unschedulable

BUDGETS = "PodDisruptionBudget"
NEVER = "Never"

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_BY_POLICY = "preemption: not eligible due to preemptionPolicy=Never."
_BY_TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."
_HELD = "waiting for the preemption for this pod to be finished"


class DefaultPreemptionArgs(PluginArgs):
    """How many candidates a search node by node must find before it may end, as a share of the nodes and at least."""

    min_candidate_nodes_percentage: Annotated[int, Field(ge=0, le=100)] = 10
    min_candidate_nodes_absolute: Annotated[int, Field(ge=0, le=2**31 - 1)] = 100

    @model_validator(mode="after")
    def _not_both_zero(self) -> Self:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute are both 0; raise one of them")
        return self

    def enough(self, node_count: int) -> int:
        """The number of candidates to look for among so many nodes."""
        share = node_count * self.min_candidate_nodes_percentage // 100
        return min(max(share, self.min_candidate_nodes_absolute), node_count)


class DefaultPreemption(Plugin):
    """Makes room for a pod by evicting less important ones."""

    name: ClassVar[str] = "DefaultPreemption"
    Args: ClassVar[type[PluginArgs]] = DefaultPreemptionArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What(0)
    kinds: ClassVar[frozenset[str]] = frozenset({BUDGETS})

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self.args: DefaultPreemptionArgs = args or DefaultPreemptionArgs()
        self._table: VictimTable | None = None
        self._evictions: Evictions | None = None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor until the deletion of its victims was answered."""
        held = self._evictions is not None and self._evictions.holds(pod.uid)
        return unresolvable(_HELD) if held else None

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> Nomination | Status:
        """Nominate the best node with its victims, or say why there is none."""
        self._evictions = cycle.state.evictions
        refused = _not_eligible(cycle, judgement)
        if refused is not None:
            return unschedulable(refused)
        rows = _potential_rows(cycle.state, judgement)
        found = self._search(cycle, runner, rows, judgement)
        if found.best is None and found.needless:
            return Status(Code.ERROR, (_needless(cycle.state, found.needless),))
        if found.best is None:
            return Nomination(None, message=_no_candidate(cycle.state, len(rows), found.reasons))
        return nomination_of(cycle.state, found.best, found.candidates)

    def _search(self, cycle: Cycle, runner: Runner, rows: Rows, judgement: Judgement) -> Found:
        if not len(rows):
            return Found()
        if self._table is None or self._table.state is not cycle.state:
            self._table = VictimTable(cycle.state)
        self._table.refresh(cycle.state.objects.get(BUDGETS, {}))
        skipped = None if judgement.refusal is not None else judgement.skipped
        return VictimSearch(cycle, runner, self._table, self.args.enough(len(rows))).search(rows, skipped)


def _not_eligible(cycle: Cycle, judgement: Judgement) -> str | None:
    """Why the pod may not evict anybody now."""
    if cycle.template.preemption_policy == NEVER:
        return _BY_POLICY
    state, pod = cycle.state, cycle.pod
    nominated = state.nominations.node_of(pod.uid) or pod.nominated_node
    row = state.row_of(nominated) if nominated else None
    if row is None or row in judgement.unresolvable_rows():
        return None
    if any(_makes_room(state, record, cycle.template.priority) for record in state.records_on(row)):
        return _BY_TERMINATING
    return None


def _makes_room(state: ClusterState, record: PodRecord, priority: int) -> bool:
    """Whether a less important pod is leaving because of a preemption."""
    pod = record.pod
    leaving = (pod.deleted_s is not None and pod.preempted) or state.evictions.evicting(pod.uid)
    return leaving and pod.template.priority < priority


def _potential_rows(state: ClusterState, judgement: Judgement) -> Rows:
    """Rows on which evictions could help."""
    if judgement.refusal is None:
        return judgement.resolvable_rows()
    if judgement.refusal.code is Code.UNSCHEDULABLE:
        return state.rows()
    return np.zeros(0, dtype=np.intp)


def _needless(state: ClusterState, rows: Iterable[int]) -> str:
    """Rejected by an extender, not for lack of room: to kube-scheduler this is an error."""
    lines = sorted(f'expected at least one victim pod on node "{state.node(row).name}"' for row in rows)
    text = ", ".join(lines)
    return f"preemption: [{text}]" if len(lines) > 1 else f"preemption: {text}"


def _no_candidate(state: ClusterState, looked_at: int, reasons: Counter[str]) -> str:
    counts = Counter(reasons)
    hopeless = state.node_count - looked_at
    if hopeless:
        counts[_NOT_HELPFUL] += hopeless
    return f"preemption: {available(state.node_count, counts)}"
