"""Gangs: pods that are placed together or not at all, and how they may be disturbed.

`GangIndex` knows the members that are on nodes, `terms_of` the rules of a gang. Both are pure; pending members are in
the queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.frozen import FrozenDict
from moorage.core.membership import SELF_SIZED, Declared, GangKey, gang_key
from moorage.core.objects import (
    DEPLOYMENT,
    JOB,
    NATIVE_GROUPS,
    OWNED_KIND,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    PodGroup,
    Workload,
    object_key,
)
from moorage.core.pods import Pod, PodTemplate

if TYPE_CHECKING:
    from moorage.core.state import ClusterState, PodRecord

NATIVE_KIND = "PodGroup"
COSCHEDULING_KIND = "PodGroup.scheduling.x-k8s.io"
KAI_KIND = "PodGroup.scheduling.run.ai"
VOLCANO_KIND = "PodGroup.scheduling.volcano.sh"
GROVE_KIND = "PodGang"
_KINDS_BY = {
    Declared.SPEC: (NATIVE_KIND,),
    Declared.LABEL: (COSCHEDULING_KIND, NATIVE_KIND),
    Declared.ANNOTATION: (COSCHEDULING_KIND, NATIVE_KIND),
    Declared.VOLCANO: (VOLCANO_KIND,),
    Declared.KAI: (KAI_KIND,),
    Declared.GROVE: (GROVE_KIND,),
    Declared.KUEUE: (),
    Declared.YUNIKORN: (),
    Declared.OWNER: (OWNED_KIND,),
}
"""Where the PodGroup of a gang is looked for, in this order."""
GROUP_KINDS = (NATIVE_KIND, COSCHEDULING_KIND, KAI_KIND, VOLCANO_KIND, GROVE_KIND)
"""The kinds of objects that are a gang."""
PRIORITY_CLASS = "PriorityClass"
SIZE_KINDS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, REPLICATION_CONTROLLER)
"""Controllers whose replica counts give the size of a gang that says nothing else."""
POD_MAKERS = frozenset({REPLICA_SET, STATEFUL_SET, JOB, REPLICATION_CONTROLLER})
"""Those that make the pods themselves, from a template that names the gang."""
READ_KINDS = frozenset({*GROUP_KINDS, PRIORITY_CLASS, *SIZE_KINDS})
"""Kinds of a cluster that the terms of a gang depend on."""
GANG_KINDS = READ_KINDS | {OWNED_KIND}
"""The same, with the groups that follow from the owners of pods."""


class Disruption(Enum):
    """Which members are evicted together with one of them."""

    SINGLE = auto()
    """None of the others."""
    WHOLE = auto()
    """All members."""
    MINIMUM = auto()
    """All members, if the gang would fall below its minimum."""


class GangTerms(NamedTuple):
    """What holds for a gang."""

    min_count: int | None
    """How many members must be placed together; None if that depends on the members seen so far."""
    disruption: Disruption = Disruption.MINIMUM
    priority: int | None = None
    """The group's own; None where the members' counts."""
    topology_key: str | None = None
    min_resources: FrozenDict[str, int] = FrozenDict()
    timeout_s: float | None = None
    group: PodGroup | None = None
    estimated: bool = False
    """Whether a further member may change the number: it may have another controller."""

    @property
    def least_left(self) -> float:
        """Where an eviction leaves fewer members than this, the others have to go too."""
        if self.disruption is Disruption.SINGLE:
            return 0
        return inf if self.disruption is Disruption.WHOLE or self.min_count is None else self.min_count


Place = tuple[str, str]
"""Kind and `namespace/name` of a controller."""
_NO_RECORDS: Mapping[str, PodRecord] = {}


_NO_MAKERS: Mapping[Place, Workload] = {}


class GangIndex:
    """The members of every gang that are on nodes, assumed ones included, and the controllers that create members."""

    def __init__(self) -> None:
        self._standing: dict[GangKey, dict[str, PodRecord]] = {}
        self._makers: dict[GangKey, dict[Place, Workload]] = {}
        self.moving: frozenset[str] = frozenset()
        """Members, by uid, whose successor has another node at once: they are evicted without the others."""

    def __bool__(self) -> bool:
        return bool(self._standing)

    def stand(self, key: GangKey, record: PodRecord) -> None:
        """A member came to a node."""
        self._standing.setdefault(key, {})[record.pod.uid] = record

    def leave(self, key: GangKey, uid: str) -> None:
        """A member left its node."""
        members = self._standing[key]
        del members[uid]
        if not members:
            del self._standing[key]

    def standing(self, key: GangKey) -> Mapping[str, PodRecord]:
        """The members on nodes by uid, those that are being deleted included. Do not change it."""
        return self._standing.get(key, _NO_RECORDS)

    def keys(self) -> list[GangKey]:
        """The gangs that have a member on a node."""
        return list(self._standing)

    def note_maker(self, before: Workload | None, after: Workload | None) -> None:
        """A controller of `POD_MAKERS` came, changed or went."""
        for workload in (before, after):
            key = None if workload is None else _made_for(workload)
            if workload is None or key is None:
                continue
            place = workload.kind, workload.key
            if workload is after:
                self._makers.setdefault(key, {})[place] = workload
            elif self._makers[key].pop(place) and not self._makers[key]:
                del self._makers[key]

    def makers(self, key: GangKey) -> Mapping[Place, Workload]:
        """The controllers whose pods are members, whether they have created one or not. Do not change it."""
        return self._makers.get(key, _NO_MAKERS)


def _made_for(workload: Workload) -> GangKey | None:
    return gang_key(workload.namespace, None, workload.template_labels, workload.template_annotations)


def lasting(state: ClusterState, key: GangKey) -> list[PodRecord]:
    """The members that are on nodes and not being deleted."""
    standing = state.gangs.standing(key)
    if not standing:
        return []
    going = state.evictions.ordered
    return [record for uid, record in standing.items() if record.pod.deleted_s is None and uid not in going]


def group_object(state: ClusterState, key: GangKey) -> PodGroup | None:
    """The PodGroup of a gang, of the kind that its members name."""
    objects = state.objects
    for kind in _KINDS_BY[key.by]:
        if known := objects.get(kind):
            found = known.get(key.object_key)
            if isinstance(found, PodGroup):
                return found
    return None


def terms_of(state: ClusterState, key: GangKey, waiting: Collection[Pod] = ()) -> GangTerms | None:
    """What holds for a gang; None while its PodGroup object is missing. `waiting` are members that have no node."""
    group = group_object(state, key)
    if group is not None:
        return _by_object(state, group)
    if key.by not in SELF_SIZED:
        return None
    templates = [pod.template for pod in waiting]
    if standing := state.gangs.standing(key):
        templates += [record.pod.template for record in standing.values()]
    said = [template.gang_size for template in templates if template.gang_size is not None]
    return GangTerms(max(said)) if said else GangTerms(_desired(state, key, set(templates)), estimated=True)


def said_of_gangs(state: ClusterState, thing: object) -> tuple[object, ...] | None:
    """What the needs of gangs take from an object; None if it does not exist or says nothing."""
    if isinstance(thing, Workload):
        return thing.desired, thing.deleting
    if isinstance(thing, PodGroup):
        return _by_object(state, thing)._replace(group=None), thing.scheduled
    return None


def own_priority(state: ClusterState, key: GangKey) -> int | None:
    """The priority of the gang's PodGroup; None where there is none, or it leaves that to the members."""
    group = group_object(state, key)
    return None if group is None else _priority(state, group)


def _priority(state: ClusterState, group: PodGroup) -> int | None:
    if group.priority is not None or not group.priority_class:
        return group.priority
    found = state.object(PRIORITY_CLASS, group.priority_class)
    return None if found is None else int(found.value)


def _by_object(state: ClusterState, group: PodGroup) -> GangTerms:
    native = Disruption.WHOLE if group.evict_whole else Disruption.SINGLE
    return GangTerms(
        max(group.min_count, 1),
        native if group.api_group == NATIVE_GROUPS else Disruption.MINIMUM,
        _priority(state, group),
        group.topology_key,
        group.min_resources,
        group.schedule_timeout_s,
        group,
    )


def _desired(state: ClusterState, key: GangKey, templates: Iterable[PodTemplate]) -> int | None:
    """The sum of the desired replicas of the members' controllers; None if one of them has none that is known.

    Controllers without a pod count too: a pod that was released or lost is recreated.
    """
    found = {place: maker for place, maker in state.gangs.makers(key).items() if not maker.deleting}
    for template in templates:
        owner = template.owner
        if owner is None or owner.kind not in SIZE_KINDS:
            return None
        place = (owner.kind, object_key(template.namespace, owner.name))
        if place not in found:
            workload = state.object(*place)
            if not isinstance(workload, Workload):
                return None
            found[place] = workload
    return _sum_of(state, found) or None


def _sum_of(state: ClusterState, workloads: Mapping[Place, Workload]) -> int:
    """How many pods they want; the ReplicaSets of one Deployment, of which a rollout makes more, no more than that."""
    counts: dict[Place, int] = {}
    above: dict[Place, Workload] = {}
    for place, workload in workloads.items():
        deployment = deployment_of(workload)
        found = None if deployment is None else state.object(*deployment)
        whose = place
        if deployment is not None and isinstance(found, Workload) and deployment not in workloads:
            whose, above[deployment] = deployment, found
        counts[whose] = counts.get(whose, 0) + workload.desired
    for place, known in above.items():
        counts[place] = _rolled_out(state, workloads, known, counts[place])
    return sum(counts.values())


def _rolled_out(state: ClusterState, workloads: Collection[Place], deployment: Workload, count: int) -> int:
    """How many members a Deployment wants while its ReplicaSets want so many; others of them may be of no gang.

    A rollout makes more pods for a while, or fewer between two steps.
    """
    if count >= deployment.desired:
        return deployment.desired
    place = (deployment.kind, deployment.key)
    sets: Collection[Workload] = state.objects.get(REPLICA_SET, {}).values()
    others = (each for each in sets if deployment_of(each) == place)
    elsewhere = sum(each.desired for each in others if (each.kind, each.key) not in workloads)
    return max(count, deployment.desired - elsewhere)


def deployment_of(workload: Workload) -> Place | None:
    """The Deployment of a ReplicaSet; None for others."""
    owner = workload.owner
    if owner is None or owner.kind != DEPLOYMENT or workload.kind != REPLICA_SET:
        return None
    return DEPLOYMENT, object_key(workload.namespace, owner.name)


def taken_along(state: ClusterState, victims: Iterable[PodRecord]) -> list[PodRecord]:
    """The members of gangs that are evicted together with these pods, in a stable order."""
    if not state.gangs:
        return []
    going: dict[GangKey, set[str]] = {}
    for record in victims:
        key = record.pod.template.gang
        if key is not None and record.pod.uid not in state.gangs.moving:
            going.setdefault(key, set()).add(record.pod.uid)
    found: list[PodRecord] = []
    for key, uids in going.items():
        stay = (record for record in lasting(state, key) if record.pod.uid not in state.gangs.moving)
        rest = [record for record in stay if record.pod.uid not in uids]
        terms = terms_of(state, key) if rest else None
        if terms is not None and len(rest) < terms.least_left:
            found.extend(sorted(rest, key=lambda record: record.pod.key))
    return found


def eviction_priority(state: ClusterState, record: PodRecord) -> int:
    """The priority that a preemptor must exceed to evict this pod and, if its gang is evicted with it, all of the
    gang.
    """
    priority = record.pod.template.priority
    key = record.pod.template.gang
    if key is None:
        return priority
    return max([priority, *(other.pod.template.priority for other in taken_along(state, (record,)))])
