"""SpotPlacement: workloads that can lose a replica run on spot capacity, others on on-demand nodes.

Pods of a workload with one desired replica, bare pods, pods of owners that Moorage does not know and pods that opt out
(`moorage.dev/spot: "never"`, annotation or label) prefer on-demand nodes; with `singleReplica: Require` they require
them. Pods of a workload with several replicas prefer spot nodes, except for the first n: n is `keepOnDemand`, or the
annotation `moorage.dev/on-demand-base` on the controller or else on the pod.

- As long as fewer than n live pods of the controller are on on-demand nodes, on-demand nodes are preferred; from then
  on spot nodes are.
- The last pods wait for room on nodes that are not spot: spot nodes are rejected if, with one more pod there, fewer
  than n of the desired pods could be elsewhere. Pods of other revisions of a Deployment that are elsewhere count for n
  as long as they live, so a rollout never waits for a place that its predecessor holds.

What is preferred is taken while it is feasible: other nodes are rejected softly, so no score of another plugin
outweighs the rule. Where soft rejections are not heard, or none of the preferred nodes is feasible, scores decide: 100
for what is preferred, 50 for nodes of unknown capacity, 0 for the other.

Live pods are counted as ControllerSpread counts them: by ReplicaSet or Job, without terminating ones, with assumed
ones. Pods of a DaemonSet belong to their node and are left alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from moorage.core.annotations import ON_DEMAND_BASE, SPOT, Count, annotated_count
from moorage.core.arrays import Ints, Rows
from moorage.core.capacity import Capacity, CapacityAim, CapacityTypes
from moorage.core.controllers import CONTROLLER_KINDS, Controller, controller_of
from moorage.core.edits import Annotate
from moorage.core.objects import DAEMON_SET
from moorage.core.ownercounts import are_of_one_workload, deployment_of, owner_key
from moorage.core.pods import PodTemplate
from moorage.core.sparsecounts import SparseCounts
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.capacity_arguments import CapacityLabelArgs, label_key
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, Reason, Rejections, Status

MALFORMED = "MalformedAnnotation"
NEVER = "never"
SINGLE, MULTIPLE = "single", "multiple"
_NOT_ON_DEMAND = (Reason("node(s) were not on-demand, which pods without replicas need", resolvable=False),)
_RATHER_SPOT = (Reason("node(s) were not spot, which the pod prefers", resolvable=False),)
_RATHER_ON_DEMAND = (Reason("node(s) were not on-demand, which the pod prefers", resolvable=False),)
_BEST, _NEUTRAL = 100, 50
_TO_SPOT: Ints = np.array([_NEUTRAL, _BEST, 0], dtype=np.int64)
_TO_ON_DEMAND: Ints = np.array([_NEUTRAL, 0, _BEST], dtype=np.int64)
"""Scores by `Capacity`."""
_SPOT, _ON_DEMAND = int(Capacity.SPOT), int(Capacity.ON_DEMAND)
_PODS = What.POD_ADDED | What.POD_UPDATED | What.POD_REMOVED


class SingleReplica(StrEnum):
    """Whether workloads without replicas prefer or require on-demand nodes."""

    PREFER = "Prefer"
    REQUIRE = "Require"


class Unlabelled(StrEnum):
    """The capacity type of nodes that have none of the labels."""

    UNKNOWN = "Unknown"
    SPOT = "Spot"
    ON_DEMAND = "OnDemand"


_CAPACITIES = {
    Unlabelled.UNKNOWN: Capacity.UNKNOWN,
    Unlabelled.SPOT: Capacity.SPOT,
    Unlabelled.ON_DEMAND: Capacity.ON_DEMAND,
}


class SpotPlacementArgs(PluginArgs):
    """Which pods go where, and which labels count; `unlabelled` is for clouds that label spot nodes only."""

    single_replica: Annotated[SingleReplica, Field(strict=False)] = SingleReplica.PREFER
    keep_on_demand: Annotated[int, Field(ge=0)] = 0
    replica_class_label: str | None = None
    capacity_labels: Annotated[tuple[CapacityLabelArgs, ...], Field(strict=False)] = ()
    unlabelled: Annotated[Unlabelled, Field(strict=False)] = Unlabelled.UNKNOWN

    @field_validator("replica_class_label")
    @classmethod
    def _is_label_key(cls, key: str | None) -> str | None:
        return key if key is None else label_key(key)


class _Policy(NamedTuple):
    """The rule for a pod."""

    several: bool
    """Whether the pod can be lost because it has other replicas."""
    controller: Controller | None = None
    keep: int = 0
    """How many pods of the controller stay on on-demand nodes; 0 unless there are several."""
    said: Count | None = None
    """The value of the annotation."""


class _Standing(NamedTuple):
    """Live pods of a controller."""

    all: int
    spot: int
    on_demand: int

    @property
    def elsewhere(self) -> int:
        """Those that are not on spot capacity."""
        return self.all - self.spot


_NOBODY = _Standing(0, 0, 0)


class SpotPlacement(Plugin):
    """Sends pods to spot or on-demand nodes."""

    name: ClassVar[str] = "SpotPlacement"
    Args: ClassVar[type[PluginArgs]] = SpotPlacementArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_LABELS | _PODS | What.OBJECT | What.SELF
    kinds: ClassVar[frozenset[str]] = CONTROLLER_KINDS

    def __init__(self, args: SpotPlacementArgs | None = None) -> None:
        self.args: SpotPlacementArgs = args or SpotPlacementArgs()
        more = (each.label() for each in self.args.capacity_labels)
        self._types = CapacityTypes(more, _CAPACITIES[self.args.unlabelled])

    @property
    def capacity_types(self) -> CapacityTypes:
        """How it recognises spot nodes; the keeper asks, so that both agree."""
        return self._types

    def capacity_aim(self, template: PodTemplate, state: ClusterState) -> CapacityAim | None:
        """All on on-demand nodes, or all but some on spot nodes; None where that is not known."""
        policy = self._policy(state, template) if _is_movable(template) else None
        if policy is None or policy.controller is None or policy.controller.size is None:
            return None
        if not policy.several:
            return CapacityAim(None)
        return CapacityAim(policy.keep, last_on_demand=self._said(template) != MULTIPLE)

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """All but pods of a DaemonSet."""
        return _is_movable(template)

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:
        """The workload, if some of its pods must stay on on-demand nodes."""
        policy = self._policy(state, template) if _is_movable(template) else None
        if policy is None or not policy.keep or policy.controller is None:
            return None
        return deployment_of(template) or owner_key(template)

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps unless it is spot, a pod of the same workload, an object that may be the controller."""
        if change.node is not None:
            return self._types.of(change.node.labels) is not Capacity.SPOT
        owner = template.owner
        if change.what & _PODS:
            return change.pod is None or are_of_one_workload(template, change.pod.template)
        if change.what & What.OBJECT:
            namespace, _, name = change.key.rpartition("/")
            same = owner is not None and (change.kind != owner.kind or name == owner.name)
            return same and namespace == template.namespace
        return True

    # --- Filter ---

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods of DaemonSets; warn of an annotation that cannot be parsed."""
        if not _is_movable(cycle.template):
            return SKIP
        policy = self._policy_in(cycle)
        if policy.said is not None and policy.said.value is None and policy.controller is not None:
            title = f"{policy.controller.kind} {cycle.template.namespace}/{policy.controller.name}"
            wrong = f'{title}: annotation {policy.said.key} is "{policy.said.text}"'
            cycle.warn(MALFORMED, f"{wrong}; write a whole number from 0 on. {policy.keep} is used instead")
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject all but on-demand rows, or spot rows if the controller has enough pods there."""
        state, policy = cycle.state, self._policy_in(cycle)
        if not _is_movable(cycle.template):
            return None
        if not policy.several:
            if self.args.single_replica is not SingleReplica.REQUIRE:
                return None
            capacities = state.pick(self._types.column(state), rows)
            return Rejections((capacities != _ON_DEMAND).astype(np.int64), _NOT_ON_DEMAND)
        if not policy.keep or policy.controller is None:
            return None
        if self._may_be_on_spot(state, cycle.template, policy.keep, policy.controller.desired):
            return None
        text = f"node(s) were spot, and controller {policy.controller.title} keeps {policy.keep} pod(s) on on-demand"
        capacities = state.pick(self._types.column(state), rows)
        return Rejections((capacities == _SPOT).astype(np.int64), (Reason(text, resolvable=False),))

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Take other rows than those that the pod prefers only if there are none of these, whatever the scores are."""
        if not _is_movable(cycle.template):
            return None
        capacities = cycle.state.pick(self._types.column(cycle.state), rows)
        if self._prefers_spot(cycle):
            return Rejections((capacities != _SPOT).astype(np.int64), _RATHER_SPOT)
        return Rejections((capacities != _ON_DEMAND).astype(np.int64), _RATHER_ON_DEMAND)

    def _may_be_on_spot(self, state: ClusterState, template: PodTemplate, keep: int, desired: int | None) -> bool:
        """Whether enough pods are elsewhere, or can still come there, if this one is on spot capacity."""
        own, workload = self._standing(state, template), self._workload_standing(state, template)
        if workload.elsewhere >= keep:
            return True
        wanted = own.all + 1 if desired is None else desired
        return own.spot < wanted - (keep - (workload.elsewhere - own.elsewhere))

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Keep none of the controller's pods on on-demand nodes."""
        pod = rejected.pod
        controller = controller_of(rejected.state, pod.template)
        if controller is not None:
            yield Remedy((Annotate(controller.kind, pod.namespace, controller.name, ON_DEMAND_BASE[0], "0"),), 3.0)

    def counted(self, cycle: Cycle) -> str:
        """Whether the pod can be lost, and where the pods of its controller are."""
        if not _is_movable(cycle.template):
            return ""
        policy, standing = self._policy_in(cycle), self._standing(cycle.state, cycle.template)
        sort = MULTIPLE if policy.several else SINGLE
        owner = "no known controller" if policy.controller is None else policy.controller.title
        kept = f", {policy.keep} of them to stay on on-demand nodes" if policy.keep else ""
        return f"{owner}, {sort}: {standing.spot} on spot and {standing.on_demand} on on-demand nodes{kept}"

    # --- Score ---

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Skip pods of DaemonSets."""
        return None if _is_movable(cycle.template) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """100 for what the pod prefers, 50 for unknown capacity, 0 for the other, int64[len(rows)]."""
        table = _TO_SPOT if self._prefers_spot(cycle) else _TO_ON_DEMAND
        return table.take(cycle.state.pick(self._types.column(cycle.state), rows))

    # --- the rule for a pod ---

    def _prefers_spot(self, cycle: Cycle) -> bool:
        policy = self._policy_in(cycle)
        if policy.keep and policy.controller is not None:
            return self._standing(cycle.state, cycle.template).on_demand >= policy.keep
        return policy.several

    def _policy_in(self, cycle: Cycle) -> _Policy:
        found: _Policy | None = cycle.memo.get(self.name)
        if found is None:
            found = cycle.memo[self.name] = self._policy(cycle.state, cycle.template)
        return found

    def _policy(self, state: ClusterState, template: PodTemplate) -> _Policy:
        controller = controller_of(state, template)
        if not self._is_several(template, controller):
            return _Policy(several=False, controller=controller)
        said = None
        if controller is not None:
            said = annotated_count(controller.annotations, ON_DEMAND_BASE, 0)
            said = said or annotated_count(template.annotations, ON_DEMAND_BASE, 0)
        keep = self.args.keep_on_demand if said is None or said.value is None else said.value
        if controller is not None and controller.size is not None:
            keep = min(keep, controller.size)  # more would wait for pods that nobody makes
        return _Policy(True, controller, keep, said)

    def _is_several(self, template: PodTemplate, controller: Controller | None) -> bool:
        if NEVER in (template.annotations.get(SPOT), template.labels.get(SPOT)):
            return False
        said = self._said(template)
        if said in (SINGLE, MULTIPLE):
            return said == MULTIPLE
        return controller is not None and controller.size is not None and controller.size > 1

    def _said(self, template: PodTemplate) -> str | None:
        """What the label says that names the class."""
        return template.labels.get(self.args.replica_class_label) if self.args.replica_class_label else None

    def _standing(self, state: ClusterState, template: PodTemplate) -> _Standing:
        return self._counted(state, state.owner_rows(template))

    def _workload_standing(self, state: ClusterState, template: PodTemplate) -> _Standing:
        """With the pods of other revisions."""
        return self._counted(state, state.workload_rows(template))

    def _counted(self, state: ClusterState, counts: SparseCounts) -> _Standing:
        if not counts.total:
            return _NOBODY
        rows, numbers = counts.above_zero()
        found = np.bincount(self._types.column(state).take(rows), numbers, minlength=len(Capacity)).tolist()
        return _Standing(counts.total, int(found[_SPOT]), int(found[_ON_DEMAND]))


def _is_movable(template: PodTemplate) -> bool:
    return template.owner is None or template.owner.kind != DAEMON_SET
