"""VolumeZone: the zone and region labels of a bound volume must be those of the node.

A label may hold several zones, separated by `__`. A node without any zone or region label accepts every volume.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from moorage.core.arrays import Mask, Rows
from moorage.core.csimigration import ZONE_SEPARATOR
from moorage.core.labelnames import BETA_REGION, BETA_ZONE, REGION, ZONE
from moorage.core.nodelabels import LabelColumns
from moorage.core.pods import PodTemplate, named_claims, names_claim
from moorage.core.selectors import Operator, Requirement
from moorage.core.state import ClusterState
from moorage.core.volumeindex import CLAIM, CLASS, VOLUME, VolumeIndex
from moorage.core.volumes import PersistentVolume, PersistentVolumeClaim
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import volume_remedies
from moorage.framework.status import SKIP, Reason, Rejections, Status, unresolvable

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_TODAY = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_CONFLICT = (Reason("node(s) had no available volume zone", resolvable=False),)


class _Place(NamedTuple):
    """What a volume requires of a node: one of these values of this label."""

    key: str
    values: tuple[str, ...]


class VolumeZone(Plugin):
    """Keeps pods with bound volumes in the zones of the volumes."""

    name: ClassVar[str] = "VolumeZone"
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_LABELS | What.OBJECT
    kinds: ClassVar[frozenset[str]] = frozenset({CLAIM, VOLUME, CLASS})
    remedies = volume_remedies

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Pods that name claims."""
        return bool(template.volumes) and any(named_claims(template))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """Of claims only the pod's own matter."""
        if change.kind != CLAIM:
            return True
        return names_claim(template, change.key)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse pods whose volumes cannot be found; skip those whose volumes have no zone or region."""
        places: list[_Place] = []
        for name in named_claims(cycle.template):
            claim = cycle.state.volumes.raw_claim(f"{cycle.template.namespace}/{name}")
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if claim.volume is None:
                problem = _unbound_problem(cycle.state.volumes, claim)
                if problem is not None:
                    return unresolvable(problem)
                continue
            volume = cycle.state.volumes.raw_volume(claim.volume)
            if volume is None:
                return unresolvable(f'persistentvolume "{claim.volume}" not found')
            places += _places(volume)
        if not places:
            return SKIP
        cycle.memo[self.name] = places
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows whose zone or region labels do not match those of a volume."""
        labels = cycle.state.labels
        conflict: Mask = np.zeros(len(rows), dtype=np.bool_)
        for place in cycle.memo.get(self.name, ()):
            conflict |= ~_admits(labels, place, rows)
        if not conflict.any():
            return None
        placed: Mask = np.zeros(len(rows), dtype=np.bool_)
        for key in _LABELS:
            placed |= labels.matching(Requirement(key, Operator.EXISTS), rows)
        return Rejections((conflict & placed).astype(np.int64), _CONFLICT)


def _unbound_problem(volumes: VolumeIndex, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim without a volume keeps its pod pending; None if it is bound once the pod is scheduled."""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = volumes.storage_class(claim.storage_class)
    if found is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return None if found.wait_for_consumer else "PersistentVolume had no name"


def _places(volume: PersistentVolume) -> Iterable[_Place]:
    """What the labels require; a label with an empty part is ignored."""
    for key in _LABELS:
        if key in volume.labels:
            values = [value.strip() for value in volume.labels[key].split(ZONE_SEPARATOR)]
            if all(values):
                yield _Place(key, tuple(values))


def _admits(labels: LabelColumns, place: _Place, rows: Rows) -> Mask:
    """A beta label of a volume may be matched by the GA label of a node that lacks the beta label."""
    found = labels.matching(Requirement(place.key, Operator.IN, place.values), rows)
    if place.key in _TODAY:
        lacks = labels.matching(Requirement(place.key, Operator.DOES_NOT_EXIST), rows)
        found = found | (lacks & labels.matching(Requirement(_TODAY[place.key], Operator.IN, place.values), rows))
    return found
