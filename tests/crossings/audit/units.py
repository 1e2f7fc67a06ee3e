"""Which pods belong together, and how many of them there must be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.crossings.audit.scene import (
    Object,
    Scene,
    controller,
    is_leaving,
    is_over,
    labels,
    metadata,
    name_of,
    namespace_of,
    node_of,
    notes,
    spec,
    uid_of,
)

GROUP = "PodGroup"
_NAMES = ("moorage.dev/pod-group", "pod-group")
_OBJECTS = ("pod-group-name", "scheduling.k8s.io/group-name")
"""Annotations that name a PodGroup of KAI and of Volcano."""
_LABEL = "scheduling.x-k8s.io/pod-group"
_LEAST = "moorage.dev/pod-group-min-available"


@dataclass
class Unit:
    """A pod, or all living members of a gang."""

    name: str
    members: list[Object] = field(default_factory=list)
    least: int | None = 1
    """How many must be together; None where nobody says so."""
    is_gang: bool = False

    @property
    def standing(self) -> list[Object]:
        return [each for each in self.members if node_of(each)]

    @property
    def waiting(self) -> list[Object]:
        return [each for each in self.members if not node_of(each)]

    @property
    def partial(self) -> bool:
        """Whether some of it runs, and too little."""
        return self.least is not None and 0 < len(self.standing) < self.least


def gang_of(scene: Scene, pod: Object) -> str:
    """The name of the pod's gang; empty for a pod without one."""
    named = _object_of(pod) or next((notes(pod)[key] for key in _NAMES if key in notes(pod)), "")
    if named:
        return f"{namespace_of(pod)}/{named}"
    top = _owning_gang(scene, pod)
    return "" if top is None else f"{namespace_of(pod)}/{metadata(top)['name']}"


def _object_of(pod: Object) -> str:
    """The name of the pod's PodGroup object."""
    named = (spec(pod).get("schedulingGroup") or {}).get("podGroupName") or labels(pod).get(_LABEL)
    return str(named or next((notes(pod)[key] for key in _OBJECTS if key in notes(pod)), ""))


def _owning_gang(scene: Scene, pod: Object) -> Object | None:
    """The owner that makes its pods a gang."""
    owner = scene.owner_of(pod)
    while owner is not None:
        if notes(owner).get("moorage.dev/gang") == "true":
            return owner
        owner = scene.owner_of(owner)
    return None


def units(scene: Scene, pods: Iterable[Object] | None = None) -> list[Unit]:
    """Everything that lives, by gang."""
    found: dict[str, Unit] = {}
    for pod in scene.pods.values() if pods is None else pods:
        if is_over(pod) or is_leaving(pod):
            continue
        gang = gang_of(scene, pod)
        unit = found.setdefault(gang or uid_of(pod), Unit(gang or name_of(pod), is_gang=bool(gang)))
        unit.members.append(pod)
    for unit in found.values():
        if unit.is_gang:
            unit.least = least_of(scene, unit)
    return list(found.values())


def least_of(scene: Scene, unit: Unit) -> int | None:
    """How many members must be together."""
    pod = unit.members[0]
    group = _object_of(pod)
    if group:
        found = scene.of(GROUP).get((namespace_of(pod), group))
        if found is None:
            return None
        gang = (spec(found).get("schedulingPolicy") or {}).get("gang") or {}
        least = spec(found).get("minMember", gang.get("minCount"))
        return None if least is None else int(least)
    said = [int(notes(each)[_LEAST]) for each in unit.members if _LEAST in notes(each)]
    if said:
        return max(said)
    owners = {uid_of(owner): owner for owner in map(scene.owner_of, unit.members) if owner is not None}
    tops = [scene.owner_of(owner) or owner for owner in owners.values()]
    counts = {uid_of(top): _wanted(top) for top in tops}
    return sum(counts.values()) or None


def _wanted(owner: Object) -> int:
    about = spec(owner)
    if owner["kind"] == "Job":
        return int(about.get("parallelism", 1))
    return int(about.get("replicas", 1))


def is_made_again(scene: Scene, pod: Object) -> bool:
    """Whether somebody makes another one when the pod goes."""
    return bool(controller(pod)) and scene.owner_of(pod) is not None
