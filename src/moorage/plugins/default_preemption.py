"""DefaultPreemption: a pod or a gang that fits nowhere may preempt pods of lower priority.

PostFilter searches the nodes that were rejected for reasons that evictions can change (`framework.preemption`) and
nominates the best one. The engine evicts the victims; until their deletion is answered, PreEnqueue holds the pod.

`minCandidateNodesPercentage` and `minCandidateNodesAbsolute` limit the search as in kube-scheduler only if filters have
to be asked node by node. If amounts decide, all nodes are compared, since that is cheap. Nothing is random: the same
input gives the same victims.

Beyond kube-scheduler: `pdbPolicy: Strict` evicts no pod whose eviction violates a disruption budget, and at most
`maxEvictionsPerMinute` pods are evicted in any minute, and `maxEvictionsPerOwnerPerMinute` of one controller.
Preemptors that would exceed this wait until the minute has passed. 0 means no limit; the defaults are far above what a
healthy cluster needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from moorage.core.arrays import Rows
from moorage.core.disruption.ledger import BUDGET, STRICT, EvictionLimits, Refusal, owner_of
from moorage.core.evictions import Evictions
from moorage.core.gangneeds import GangNeeds
from moorage.core.pods import Pod
from moorage.core.state import ClusterState, PodRecord
from moorage.core.victims import Ranks, VictimTable, staying
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.contract import PlansGangs
from moorage.framework.cycle import Cycle
from moorage.framework.domain_preemption import DomainSearch
from moorage.framework.gang_preemption import GangFound, GangSearch
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.preemption import (
    EvictionRules,
    VictimSearch,
    VictimsFound,
    no_candidate,
    nomination_of,
    potential_rows,
)
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, GangNomination, Nomination, Status, unresolvable, unschedulable

NEVER = "Never"

_BY_POLICY = "preemption: not eligible due to preemptionPolicy=Never."
_BY_TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."
_HELD = "waiting for the preemption for this pod to be finished"
_GUARDED = "PreemptionHeldBack"
"""Reason of the event about evictions that were held back."""
_MOST = 2**31 - 1

_NO_DOMAIN_FREE = "the gang fits no domain even without less important pods."


class DefaultPreemptionArgs(PluginArgs):
    """How far a search goes, which pods it spares, and how many evictions are allowed; see the module's docstring.

    The first two say how many candidates a search node by node must find before it may end: a share of the nodes, and
    an absolute minimum.
    """

    min_candidate_nodes_percentage: Annotated[int, Field(ge=0, le=100)] = 10
    min_candidate_nodes_absolute: Annotated[int, Field(ge=0, le=_MOST)] = 100
    pdb_policy: Literal["BestEffort", "Strict"] = "BestEffort"
    max_evictions_per_minute: Annotated[int, Field(ge=0, le=_MOST)] = 10_000
    max_evictions_per_owner_per_minute: Annotated[int, Field(ge=0, le=_MOST)] = 1_000

    @model_validator(mode="after")
    def _not_both_zero(self) -> Self:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute are both 0; raise one of them")
        return self

    @property
    def limits(self) -> EvictionLimits:
        """How many evictions there may be within a minute."""
        return EvictionLimits(self.max_evictions_per_minute, self.max_evictions_per_owner_per_minute)

    def enough(self, node_count: int) -> int:
        """The number of candidates to look for among this many nodes."""
        share = node_count * self.min_candidate_nodes_percentage // 100
        return min(max(share, self.min_candidate_nodes_absolute), node_count)


class DefaultPreemption(Plugin):
    """Makes room for a pod by evicting less important ones."""

    name: ClassVar[str] = "DefaultPreemption"
    Args: ClassVar[type[PluginArgs]] = DefaultPreemptionArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What(0)
    kinds: ClassVar[frozenset[str]] = frozenset({BUDGET})
    remembers: ClassVar[Mapping[str, Any]] = {
        "_evictions": Evictions | None,
    }

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self.args: DefaultPreemptionArgs = args or DefaultPreemptionArgs()
        self.attempts = 0
        """How many times preemption was attempted."""
        self.guarded = 0
        """How many times the limit of evictions held a preemptor back."""
        self._table: VictimTable | None = None
        self._evictions: Evictions | None = None

    @property
    def pdb_policy(self) -> str:
        """Whether disruption budgets may be violated where nothing else helps."""
        return self.args.pdb_policy

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor until the deletion of its victims was answered."""
        held = self._evictions is not None and self._evictions.holds(pod.uid)
        return unresolvable(_HELD) if held else None

    # --- one pod ---

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> Nomination | Status:
        """Nominate the best node with its victims, or say why there is none."""
        self.attempts += 1
        self._evictions = cycle.state.evictions
        refused = self._not_eligible(cycle, runner, judgement)
        if refused is not None:
            return unschedulable(refused)
        rows = potential_rows(cycle.state, judgement)
        found = self._search(cycle, runner, rows, judgement)
        if found.best is None and found.needless:
            return Status(Code.ERROR, (_needless(cycle.state, found.needless),))
        if found.best is None:
            return Nomination(None, message=f"preemption: {no_candidate(cycle.state, len(rows), found.reasons)}")
        nomination = nomination_of(cycle.state, found.best, found.candidates)
        return self._held_back((cycle,), nomination.victims) or nomination

    def _search(self, cycle: Cycle, runner: Runner, rows: Rows, judgement: Judgement) -> VictimsFound:
        if not len(rows):
            return VictimsFound()
        table = self._fresh_table(cycle.state, runner.ranks)
        rules = self._rules(cycle, cycle.template.priority)
        skipped = None if judgement.refusal is not None else judgement.skipped
        return VictimSearch(cycle, runner, table, self.args.enough(len(rows)), rules).search(rows, skipped)

    def _fresh_table(self, state: ClusterState, ranks: Ranks | None) -> VictimTable:
        if self._table is None or self._table.state is not state or self._table.ranks is not ranks:
            self._table = VictimTable(state, ranks)
        self._table.refresh(state.objects.get(BUDGET, {}))
        return self._table

    def _rules(self, cycle: Cycle, priority: int) -> EvictionRules:
        if self.args.pdb_policy != STRICT:
            return EvictionRules(priority)
        return EvictionRules(priority, strict=True, spent=cycle.state.disruptions.spent(cycle.now))

    # --- a gang ---

    def post_filter_gang(self, cycles: Sequence[Cycle], runner: Runner, needs: GangNeeds) -> GangNomination | Status:
        """Nominate a node for every member, or for as many as the gang needs if there is no room for more.

        A refusal with the code UNRESOLVABLE says that evictions cannot help at present, one with UNSCHEDULABLE that the
        gang must wait for something. None of the members may have a node.
        """
        self.attempts += 1
        state = cycles[0].state
        self._evictions = state.evictions
        for cycle in cycles:
            refused = self._not_eligible(cycle, runner, self._judge_nominated(cycle, runner), _least_priority(cycles))
            if refused is not None:
                return unschedulable(refused)
        table = self._fresh_table(state, runner.ranks)
        rules = self._rules(cycles[0], _least_priority(cycles))
        budgets = state.objects.get(BUDGET, {})
        planner = runner.plugins.first(PlansGangs)
        domains = None if planner is None else planner.gang_domains(cycles, needs)
        if planner is not None and domains is not None:
            freed = DomainSearch(cycles, runner, table, budgets, rules, needs).search(planner, domains)
            if freed is None:
                return unresolvable(f"preemption: {_NO_DOMAIN_FREE}")
            return self._nominated(cycles, GangFound(freed.nodes, freed.victims))
        enough = self.args.enough(state.node_count)
        found = GangSearch(cycles, runner, table, budgets, rules, enough, needs).search()
        if not found.nodes:
            message = f"room for {found.placed} of {needs.members} pods of the gang: {found.why}"
            return unresolvable(f"preemption: {message}")
        return self._nominated(cycles, found)

    def _nominated(self, cycles: Sequence[Cycle], found: GangFound) -> GangNomination | Status:
        uids = tuple(record.pod.uid for record in reversed(found.victims))
        return self._held_back(cycles, uids) or GangNomination(found.nodes, uids, _placements(found))

    def _judge_nominated(self, cycle: Cycle, runner: Runner) -> Judgement:
        """What the filters say about the node that a member is nominated to, if any."""
        row = _nominated_row(cycle)
        rows = np.array([] if row is None else [row], dtype=np.intp)
        return Judgement(rows) if row is None else runner.judge(cycle, rows)

    # --- eligibility ---

    def _not_eligible(
        self, cycle: Cycle, runner: Runner, judgement: Judgement, priority: int | None = None
    ) -> str | None:
        """Why the pod may not preempt now; `priority` is its own unless given."""
        if cycle.template.preemption_policy == NEVER:
            return _BY_POLICY
        row = _nominated_row(cycle)
        if row is None or row in judgement.unresolvable_rows():
            return None
        least = cycle.template.priority if priority is None else priority
        if any(_makes_room(cycle.state, runner, record, least) for record in cycle.state.records_on(row)):
            return _BY_TERMINATING
        return None

    # --- limits ---

    def _held_back(self, cycles: Sequence[Cycle], uids: Iterable[str]) -> Status | None:
        """Why these evictions must wait; None if they may be carried out, which spends them, unless it is undone."""
        state, now = cycles[0].state, cycles[0].now
        records = [record for uid in uids if (record := state.record(uid)) is not None and staying(state, record)]
        pods, whose = [record.pod for record in records], cycles[0].template.scheduler_name
        refusal = state.disruptions.too_many(pods, whose, self.args.limits, now)
        if refusal is None:
            state.disruptions.spend(pods, whose, now)
            return None
        self.guarded += 1
        note = _too_many(refusal, pods)
        cycles[0].warn(_GUARDED, note)
        if refusal.retry_s is None:
            return unschedulable(f"preemption: {note}.")
        for cycle in cycles:
            cycle.expires(refusal.retry_s)
        return unschedulable(f"preemption: {note}; waiting for {ceil(refusal.retry_s - now)} s.")


def _makes_room(state: ClusterState, runner: Runner, record: PodRecord, priority: int) -> bool:
    """Whether a less important pod is leaving because of a preemption."""
    pod = record.pod
    leaving = (pod.deleted_s is not None and pod.preempted) or state.evictions.evicting(pod.uid)
    return leaving and (pod.template.priority if runner.ranks is None else runner.ranks.rank(record)) < priority


def _nominated_row(cycle: Cycle) -> int | None:
    """The row of the node that the pod is nominated to."""
    name = cycle.state.nominations.node_of(cycle.pod.uid) or cycle.pod.nominated_node
    return cycle.state.row_of(name) if name else None


def _least_priority(cycles: Sequence[Cycle]) -> int:
    """The priority of a gang as a preemptor: that of its least important member."""
    return min(cycle.template.priority for cycle in cycles)


def _placements(found: GangFound) -> str:
    pods, nodes, victims = len(found.nodes), len(set(found.nodes.values())), len(found.victims)
    return (
        f"preemption: found a potential placement for {pods} pods of the gang on {nodes} nodes, "
        f"preempting {victims} victims"
    )


def _too_many(refusal: Refusal, victims: Sequence[Pod]) -> str:
    """Which limit would be exceeded, and by what."""
    if refusal.owner is None:
        whose, argument, count = "", "maxEvictionsPerMinute", len(victims)
    else:
        pods = [pod for pod in victims if owner_of(pod) == refusal.owner]
        owner = pods[0].template.owner
        name = f"pod {pods[0].key}" if owner is None else f"{owner.kind} {pods[0].namespace}/{owner.name}"
        whose, argument, count = f" of {name}", "maxEvictionsPerOwnerPerMinute", len(pods)
    limit = f"{argument} allows {refusal.limit} evictions{whose} within a minute"
    return limit if refusal.retry_s is not None else f"it takes {count}, but {limit}"


def _needless(state: ClusterState, rows: Iterable[int]) -> str:
    """Rejected by an extender, not for lack of room, which is an error in kube-scheduler."""
    lines = sorted(f'expected at least one victim pod on node "{state.node(row).name}"' for row in rows)
    text = ", ".join(lines)
    return f"preemption: [{text}]" if len(lines) > 1 else f"preemption: {text}"
