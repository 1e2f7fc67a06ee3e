"""ControllerSpread: the pods of one controller must not all run on one node.

The pods of a ReplicaSet, StatefulSet, Job or CronJob that wants more than one are placed on at least

    required = min(desired, the annotation `moorage.dev/min-hosts`, 2 without it)

nodes. A node that hosts one of them is rejected if the pods that are still to come could no longer reach the nodes that
are missing; evicting pods of the controller is no way out. As long as nodes are missing, such a node is passed over
(a soft rejection) even if it is not rejected: it is taken only if no other node fits. After that every node is allowed.

Terminating and finished pods do not count, assumed ones do. A pod that exists proves that its owner wants at least as
many as stand with it: numbers of controllers come late. If a Deployment owns the ReplicaSet (or a CronJob the Job), its
annotation counts and its name is in the message. Pods are counted by revision (by Job), since a rollout removes those
of the old one:

- Still to come are the pods of the newest revision up to the size of the Deployment. Of a revision that is older, or
  paused, no more come than its ReplicaSet wants, and it stands beside the others: their nodes count too.
- While the old revision has to run for the new one to go on (no more pods run than the strategy leaves running), nodes
  of both count, so that a rollout ends wherever it would end without the rule. What it leaves on too few nodes is for
  the keeper to repair.

A controller that has not been seen yet is assumed to want two hosts, and no further pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from moorage.core.annotations import DEFAULT_HOSTS, MIN_HOSTS, Count, hosts_wanted
from moorage.core.arrays import Rows
from moorage.core.controllers import Controller, controller_of
from moorage.core.edits import Annotate
from moorage.core.objects import CRON_JOB, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from moorage.core.ownercounts import are_of_one_workload, owner_key
from moorage.core.pods import PodTemplate
from moorage.core.sparsecounts import SparseCounts
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, Reason, Rejections, Status

MALFORMED = "MalformedAnnotation"
_KINDS = frozenset({REPLICA_SET, STATEFUL_SET, JOB, CRON_JOB, DEPLOYMENT})
_SHOWN_HOSTS = 8
_POD_CHANGES = What.POD_ADDED | What.POD_UPDATED | What.POD_REMOVED


class _Rule(NamedTuple):
    """What a pod's controller asks for, as its pods stand."""

    controller: Controller
    hosts: int
    """The least number of nodes for its pods."""
    said: Count | None
    """What the annotation said."""
    standing: SparseCounts
    """The pods that count, by row."""
    to_come: int
    """How many pods are to be placed after this one."""

    @property
    def missing(self) -> int:
        """How many nodes it lacks."""
        return max(self.hosts - self.standing.places, 0)

    @property
    def passes_over(self) -> bool:
        """Whether nodes with one of its pods are second best."""
        return self.missing > 0 and self.standing.places > 0

    @property
    def way_out(self) -> str:
        """What ends a rejection, in words."""
        name = self.key.rpartition("/")[2]
        return f"until another node takes the pod, or {name} is {self.standing.places}"

    @property
    def key(self) -> str:
        """The annotation that sets the number of nodes."""
        return next((key for key in MIN_HOSTS if key in self.controller.annotations), MIN_HOSTS[0])

    @property
    def rejects(self) -> bool:
        """Whether they are no good at all."""
        return self.passes_over and self.missing > self.to_come


class ControllerSpread(Plugin):
    """Keeps the pods of a controller from piling up on one node."""

    name: ClassVar[str] = "ControllerSpread"
    aliases: ClassVar[tuple[str, ...]] = ("ControllerSpreadFilter",)
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | _POD_CHANGES | What.OBJECT | What.SELF
    kinds: ClassVar[frozenset[str]] = _KINDS

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether the pod has a controller that may have to spread: how many pods it wants may be known too late."""
        controller = _controller(state, template)
        return controller is not None and hosts_wanted(controller.annotations, None)[0] > 1

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:
        """The controller, as long as its pods are on too few nodes."""
        rule = _rule_of(state, template)
        return None if rule is None or not rule.missing else owner_key(template)

    def hosts(self, template: PodTemplate, state: ClusterState) -> int:
        """The least number of nodes for the pods of the controller, 0 if there is none; the keeper asks."""
        controller = _controller(state, template)
        hosts = 0 if controller is None else hosts_wanted(controller.annotations, controller.desired)[0]
        return hosts if hosts > 1 else 0

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod helps if it is of the same workload, an object if it is the controller or may be the one above it."""
        owner = template.owner
        if owner is None:
            return False
        if change.what & What.OBJECT:
            namespace, _, name = change.key.rpartition("/")
            return namespace == template.namespace and (change.kind != owner.kind or name == owner.name)
        if change.what & _POD_CHANGES and change.pod is not None:
            return are_of_one_workload(template, change.pod.template)
        return True

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without such a controller; say what is wrong with an annotation."""
        if not self.concerns(cycle.template, cycle.state):
            return SKIP
        rule = _rule_of(cycle.state, cycle.template)
        if rule is not None and self.name not in cycle.memo:
            cycle.memo[self.name] = _copy_of(rule.standing) if rule.passes_over else None
        if rule is not None and rule.said is not None and rule.said.value is None:
            title = f"{rule.controller.kind} {cycle.template.namespace}/{rule.controller.name}"
            wrong = f'{title}: annotation {rule.said.key} is "{rule.said.text}"'
            cycle.warn(MALFORMED, f"{wrong}; write a whole number from 1 on. {DEFAULT_HOSTS} is used instead")
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that host a pod of the controller, if too few pods are to come for the rows that are missing."""
        rule = self._rule(cycle)
        if rule is None or not rule.rejects or _goes_on(cycle, rule):
            return None
        few = f"node(s) would leave controller {rule.controller.title} on too few hosts"
        return _taken(cycle, rule, rows, f"{few} ({rule.standing.places} of {rule.hosts}): {rule.way_out}")

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Pass over rows that host a pod of the controller, as long as too few rows do."""
        rule = self._rule(cycle)
        if rule is None or not rule.passes_over:
            return None
        return _taken(cycle, rule, rows, f"node(s) hosted controller {rule.controller.title} already, which wants more")

    def _rule(self, cycle: Cycle) -> _Rule | None:
        """The rule; pods that have only left in a what-if of this decision are still there for it.

        Otherwise a pod could make room for itself by evicting its siblings.
        """
        return _rule_of(cycle.state, cycle.template, cycle.memo.get(self.name))

    def counted(self, cycle: Cycle) -> str:
        """How many hosts the controller needs, why, and which it has."""
        state = cycle.state
        rule = _rule_of(state, cycle.template)
        if rule is None:
            return ""
        desired = "an unknown number of" if rule.controller.desired is None else rule.controller.desired
        source = "the default" if rule.said is None else f"{rule.said.key}={rule.said.text}"
        rows, numbers = rule.standing.above_zero()
        hosts = {state.node(row).name: number for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)}
        some = ", ".join(f"{name} ({hosts[name]})" for name in sorted(hosts)[:_SHOWN_HOSTS])
        wants = f"{rule.controller.title} wants {desired} pods on at least {rule.hosts} hosts ({source})"
        has = f"{sum(hosts.values())} on {len(hosts)}" + (f": {some}" if some else "")
        return f"{wants} and has {has}" + (f"; {rule.to_come} to come after this one" if rule.missing else "")

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Require only as many hosts as the controller's pods are on already."""
        state, pod = rejected.state, rejected.pod
        rule = _rule_of(state, pod.template)
        if rule is None:
            return
        controller, places = rule.controller, max(1, rule.standing.places)
        yield Remedy((Annotate(controller.kind, pod.namespace, controller.name, rule.key, str(places)),), 2.0)


def _controller(state: ClusterState, template: PodTemplate) -> Controller | None:
    """The pod's controller, if it is of a kind that spreads."""
    if template.owner is None or template.owner.kind not in _KINDS:
        return None
    return controller_of(state, template)


def _rule_of(state: ClusterState, template: PodTemplate, before: SparseCounts | None = None) -> _Rule | None:
    """The rule of a pod's controller, None if it has none; `before` are pods that count although they may be gone."""
    controller = _controller(state, template)
    if controller is None:
        return None
    own = state.owner_rows(template)
    proven = own.total + 1
    wanted = controller.size if controller.kind == DEPLOYMENT else controller.desired
    hosts, said = hosts_wanted(controller.annotations, None if wanted is None else max(wanted, proven))
    if hosts < 2:
        return None
    made = 0 if controller.made is None else controller.made
    standing = state.workload_rows(template) if controller.beside else own
    if before is not None:
        standing, own_total = _either(standing, before), max(own.total, before.total)
        return _Rule(controller, hosts, said, standing, max(made - own_total - 1, 0))
    return _Rule(controller, hosts, said, standing, max(made - proven, 0))


def _goes_on(cycle: Cycle, rule: _Rule) -> bool:
    """Whether the old revision still has to run for the pod's own to go on, and both together are on enough nodes."""
    if rule.controller.rollout is None:
        return False
    all_revisions = cycle.state.workload_rows(cycle.template)
    rolling = rule.standing.total < all_revisions.total <= rule.controller.rollout
    return rolling and all_revisions.places >= rule.hosts


def _taken(cycle: Cycle, rule: _Rule, rows: Rows, text: str) -> Rejections:
    """A rejection of the rows with pods that count; evictions are no way out."""
    taken = cycle.state.pick(rule.standing.dense(cycle.state.capacity), rows) > 0
    return Rejections(taken.astype(np.int64), (Reason(text, resolvable=False),))


def _copy_of(counts: SparseCounts) -> SparseCounts:
    found = SparseCounts()
    found.add_all(counts)
    return found


def _either(counts: SparseCounts, before: SparseCounts) -> SparseCounts:
    """For each row the higher of two counts."""
    found = _copy_of(counts)
    for row, number in zip(*before.above_zero(), strict=True):
        lacking = int(number) - found.get(int(row))
        if lacking > 0:
            found.add(int(row), lacking)
    return found
