"""What the owners of pods say about gangs: a JobSet, a RayCluster or a Job that asks for it, as one value.

An owner has one gang, or one for each value of a label of its pods, and further ones for roles whose pods are made only
when others run. `core.ownerchains` finds the owner of a pod, and what the pod belongs to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.core.frozen import FrozenDict
from moorage.core.objects import OWNED_GROUPS, Namespaced, PodGroup, Workload
from moorage.core.pods import Owner
from moorage.core.selectors import Selector
from moorage.core.topologyasks import SubGroup, TopologyAsk
from moorage.core.values import dataclass

GANG_ANNOTATION = "moorage.dev/gang"
"""On a Job, StatefulSet, Deployment or other owner that is no gang by nature: `"true"` makes it one."""
NONE_LATER: FrozenDict[str, int] = FrozenDict()


class LabelledLeader(NamedTuple):
    """The pod that others are made after has this value in this label."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class GangOwner(Namespaced):
    """An object that is, or may be, above pods."""

    kind: str
    """Its id among the kinds that are read."""
    namespace: str
    name: str
    uid: str = ""
    owner: Owner | None = None
    least: int = 0
    """How many pods must be placed together; 0 if it makes no gang of its own, and those below it decide."""
    subgroups: tuple[SubGroup, ...] = ()
    """How many of each role at least, where not all pods are needed."""
    role_label: str = ""
    rank_labels: tuple[str, ...] = ()
    later: FrozenDict[str, int] = NONE_LATER
    """Roles whose pods are made only when others run, and how many of them must be placed together."""
    split_label: str = ""
    """Each value of this label of the pods is a gang; empty if all pods are one."""
    leader: LabelledLeader | None = None
    """A pod that the others are made after, and that is placed alone."""
    topology: TopologyAsk | None = None
    done: int = 0
    """How many of its pods have succeeded, and do not come back."""
    created_s: float = 0.0
    selector: Selector | None = None
    """Selects its pods; None if it has none, or they are made by others below it."""

    @property
    def together(self) -> bool:
        """Whether its pods are placed together, those aside that are made later."""
        return self.least > 1 or (self.least == 1 and self.topology is not None)

    @property
    def is_one_gang(self) -> bool:
        """Whether all of its pods are in the same gang, whatever their labels."""
        return self.leader is None and not self.later and not self.split_label

    @property
    def divides(self) -> tuple[object, ...]:
        """What decides which gang a pod is in."""
        later = frozenset(self.later)
        return self.together, self.least > 0, self.role_label, self.rank_labels, later, self.split_label, self.leader

    def part_of(self, labels: Mapping[str, str]) -> GangPart | None:
        """Where a pod with these labels belongs; None if it is placed alone."""
        if self.leader is not None and labels.get(self.leader.label) == self.leader.value:
            return None
        role = labels.get(self.role_label, "") if self.later else ""
        if role in self.later:
            return GangPart(role, self.later[role]) if self.later[role] > 1 or self.topology is not None else None
        name = ""
        if self.split_label:
            name = labels.get(self.split_label, "")
            if not name:
                return None
        return GangPart(name, self.least) if self.together else None


class GangPart(NamedTuple):
    """One gang of an owner."""

    name: str
    """Empty if it is the only one."""
    least: int


def gang_name(owner: GangOwner, part: GangPart) -> str:
    """The name of a gang of an owner: no object can be called so."""
    name = f"{owner.kind}/{owner.name}"
    return f"{name}/{part.name}" if part.name else name


def group_of(owner: GangOwner, part: GangPart, done: int, topology: TopologyAsk | None) -> PodGroup:
    """A gang as the group that a PodGroup would have been; `done` of its pods do not come back."""
    return PodGroup(
        namespace=owner.namespace,
        name=gang_name(owner, part),
        uid=owner.uid,
        api_group=OWNED_GROUPS,
        min_count=max(part.least - done, 1),
        topology=topology,
        subgroups=() if done or part.name in owner.later else owner.subgroups,
        created_s=owner.created_s,
    )


def owner_of(workload: Workload) -> GangOwner | None:
    """What a plain controller says; None if it does not ask to be a gang."""
    asks = workload.annotations.get(GANG_ANNOTATION) == "true"
    if not asks and workload.gang_least is None:
        return None
    whole = wanted_of(workload)
    least = 1 if workload.one_by_one else whole
    if workload.gang_least is not None:
        least = min(workload.gang_least, whole)
    return GangOwner(
        workload.kind,
        workload.namespace,
        workload.name,
        workload.uid,
        workload.owner,
        least,
        topology=workload.topology,
        done=max(whole - workload.desired, 0),
        created_s=workload.created_s,
        selector=workload.selector,
    )


def wanted_of(workload: Workload) -> int:
    """How many pods a controller has at once as long as none has succeeded."""
    return workload.replicas if workload.completions is None else min(workload.replicas, workload.completions)


def done_of(job: Workload) -> int:
    """How many of these pods have succeeded, and do not come back; all of them if the Job is over."""
    return 0 if job.suspended else max(wanted_of(job) - job.desired, 0)
