"""ControllerSpread: the pods of one controller must not all run on one node.

The pods of a ReplicaSet, StatefulSet, Job or CronJob that wants more than one are placed on at least

    required = min(desired, the annotation `moorage.dev/min-hosts`, 2 without it)

nodes. Until they are, nodes that already host one are rejected; after that every node is allowed. Terminating and
finished pods do not count, assumed ones do. If a Deployment owns the ReplicaSet (or a CronJob the Job), its annotation
counts and its name is in the message; but pods are counted by ReplicaSet (by Job), since a rollout removes the pods of
the old one. A controller that has not been seen yet is assumed to want two hosts.
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
from moorage.core.ownercounts import may_count_together, owner_key
from moorage.core.pods import PodTemplate
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
    """What a pod's controller asks for."""

    controller: Controller
    hosts: int
    """The least number of nodes for its pods; at least 2."""
    said: Count | None
    """What the annotation said."""


class ControllerSpread(Plugin):
    """Keeps the pods of a controller from piling up on one node."""

    name: ClassVar[str] = "ControllerSpread"
    aliases: ClassVar[tuple[str, ...]] = ("ControllerSpreadFilter",)
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | _POD_CHANGES | What.OBJECT | What.SELF
    kinds: ClassVar[frozenset[str]] = _KINDS

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether the pod has a controller that must spread."""
        return _rule_of(state, template) is not None

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:
        """The controller, as long as its pods are on too few nodes."""
        rule = _rule_of(state, template)
        if rule is None or state.owner_rows(template).places >= rule.hosts:
            return None
        return owner_key(template)

    def hosts(self, template: PodTemplate, state: ClusterState) -> int:
        """The least number of nodes for the pods of the controller, 0 if there is none; the keeper asks."""
        rule = _rule_of(state, template)
        return 0 if rule is None else rule.hosts

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod helps if it has the same owner, an object if it is the controller or may be the one above it."""
        owner = template.owner
        if owner is None:
            return False
        if change.what & What.OBJECT:
            namespace, _, name = change.key.rpartition("/")
            return namespace == template.namespace and (change.kind != owner.kind or name == owner.name)
        if change.what & _POD_CHANGES and change.pod is not None:
            return may_count_together(template, change.pod.template)
        return True

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without such a controller; say what is wrong with an annotation."""
        rule = _rule_of(cycle.state, cycle.template)
        if rule is None:
            return SKIP
        if rule.said is not None and rule.said.value is None:
            title = f"{rule.controller.kind} {cycle.template.namespace}/{rule.controller.name}"
            wrong = f'{title}: annotation {rule.said.key} is "{rule.said.text}"'
            cycle.warn(MALFORMED, f"{wrong}; write a whole number from 1 on. {DEFAULT_HOSTS} is used instead")
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that host a pod of the controller, as long as too few rows do."""
        state = cycle.state
        rule = _rule_of(state, cycle.template)
        if rule is None:
            return None
        counts = state.owner_rows(cycle.template)
        if not 0 < counts.places < rule.hosts:
            return None
        taken = state.pick(counts.dense(state.capacity), rows) > 0
        reason = Reason(f"node(s) would leave controller {rule.controller.title} on too few hosts")
        return Rejections(taken.astype(np.int64), (reason,))

    def counted(self, cycle: Cycle) -> str:
        """How many hosts the controller needs, why, and which it has."""
        state = cycle.state
        rule = _rule_of(state, cycle.template)
        if rule is None:
            return ""
        desired = "an unknown number of" if rule.controller.desired is None else rule.controller.desired
        source = "the default" if rule.said is None else f"{rule.said.key}={rule.said.text}"
        rows, numbers = state.owner_rows(cycle.template).above_zero()
        hosts = {state.node(row).name: number for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)}
        some = ", ".join(f"{name} ({hosts[name]})" for name in sorted(hosts)[:_SHOWN_HOSTS])
        wants = f"{rule.controller.title} wants {desired} pods on at least {rule.hosts} hosts ({source})"
        return f"{wants} and has {sum(hosts.values())} on {len(hosts)}" + (f": {some}" if some else "")

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Require only as many hosts as the controller's pods are on already."""
        state, pod = rejected.state, rejected.pod
        controller = controller_of(state, pod.template)
        if controller is None:
            return
        places = max(1, state.owner_rows(pod.template).places)
        key = next((key for key in MIN_HOSTS if key in controller.annotations), MIN_HOSTS[0])
        yield Remedy((Annotate(controller.kind, pod.namespace, controller.name, key, str(places)),), 2.0)


def _rule_of(state: ClusterState, template: PodTemplate) -> _Rule | None:
    """The rule of a pod's controller, None if it has none."""
    if template.owner is None or template.owner.kind not in _KINDS:
        return None
    controller = controller_of(state, template)
    if controller is None:
        return None
    hosts, said = hosts_wanted(controller.annotations, controller.desired)
    return _Rule(controller, hosts, said) if hosts > 1 else None
