"""VolumeRestrictions: disks that two pods cannot share on a node, and claims that only one pod may use at all.

GCE disks, iSCSI targets and RBD images can be shared read-only; an EBS disk cannot be shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import PodTemplate, named_claims, names_claim
from moorage.core.state import ClusterState
from moorage.core.volumeindex import CLAIM
from moorage.core.volumes import READ_WRITE_ONCE_POD
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import volume_remedies
from moorage.framework.status import SKIP, Reason, Rejections, Status, unresolvable

_REASONS = (
    Reason("node(s) had no available disk"),
    Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod"
    ),
)
_DISK_BIT, _CLAIM_BIT = 1, 2
_DISK_KINDS = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})

Disk = tuple[str, str, bool]


class VolumeRestrictions(Plugin):
    """Keeps pods off nodes where their disk is in use, and pending while their claim is."""

    name: ClassVar[str] = "VolumeRestrictions"
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.POD_REMOVED | What.OBJECT
    kinds: ClassVar[frozenset[str]] = frozenset({CLAIM})
    remedies = volume_remedies

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Pods that name claims or disks."""
        return bool(template.volumes) and bool(named_claims(template) or _disks(template))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A claim that the pod names, or a pod that leaves with a claim or disk that this one wants."""
        if change.what is What.OBJECT:
            return names_claim(template, change.key)
        if change.what is not What.POD_REMOVED or change.pod is None:
            return True
        gone = change.pod.template
        shared = gone.namespace == template.namespace and not {*named_claims(template)}.isdisjoint(named_claims(gone))
        return shared or _collide(_disks(template), _disks(gone))

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse pods whose claims do not exist; skip those that no other pod can conflict with."""
        template = cycle.template
        for name in named_claims(template):
            if cycle.state.volumes.raw_claim(f"{template.namespace}/{name}") is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
        return None if _disks(template) or _claim_taken(cycle) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows where a disk is taken, and every other row if a claim is."""
        state = cycle.state
        column: Ints = np.full(state.capacity, _CLAIM_BIT if _claim_taken(cycle) else 0, dtype=np.int64)
        for kind, identity, read_only in _disks(cycle.template):
            column[list(state.volume_use.rows_with_disk(kind, identity, read_only))] = _DISK_BIT
        bits = column[rows]
        return Rejections(bits, _REASONS) if bits.any() else None


def _disks(template: PodTemplate) -> list[Disk]:
    return [volume.disk for volume in template.volumes if volume.disk is not None and volume.disk[0] in _DISK_KINDS]


def _claim_taken(cycle: Cycle) -> bool:
    """Whether a claim of the pod is ReadWriteOncePod and used by a pod on a node."""
    state = cycle.state
    for name in named_claims(cycle.template):
        key = f"{cycle.template.namespace}/{name}"
        claim = state.volumes.raw_claim(key)
        if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes and state.volume_use.in_use(key):
            return True
    return False


def _collide(wanted: Iterable[Disk], held: list[Disk]) -> bool:
    return any(a[:2] == b[:2] and not (a[2] and b[2]) for a in wanted for b in held)
