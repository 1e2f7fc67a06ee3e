"""NodeVolumeLimits: a CSI driver attaches a limited number of volumes to a node, and only where it is installed.

The volumes of the pods on the node count, and attachments that belong to none of these pods. In-tree volumes count for
the CSI driver that they were migrated to. A missing driver matters only if its CSIDriver says so.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.csimigration import BY_KIND
from moorage.core.pods import PodTemplate, PodVolume
from moorage.core.state import ClusterState
from moorage.core.volumeindex import ATTACHMENT, CLAIM, CLASS, CSI_DRIVER, CSI_NODE, VOLUME
from moorage.core.volumeuse import UNLIMITED
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import volume_remedies
from moorage.framework.status import MAX_REASONS, SKIP, Reason, Rejections, Status

_EXCEEDED = Reason("node(s) exceed max volume count")


class NodeVolumeLimits(Plugin):
    """Keeps pods off nodes that cannot attach their volumes."""

    name: ClassVar[str] = "NodeVolumeLimits"
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.POD_REMOVED | What.OBJECT
    kinds: ClassVar[frozenset[str]] = frozenset({CLAIM, VOLUME, CLASS, CSI_NODE, CSI_DRIVER, ATTACHMENT})
    remedies = volume_remedies

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Pods with volumes that a CSI driver may have to attach."""
        return bool(template.volumes) and any(map(_may_count, template.volumes))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod that leaves must have had such volumes; of claims only the pod's own matter."""
        if change.what is What.POD_REMOVED and change.pod is not None:
            return any(map(_may_count, change.pod.template.volumes))
        if change.kind == CLAIM:
            return any(f"{template.namespace}/{volume.claim}" == change.key for volume in template.volumes)
        return True

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without such volumes."""
        return None if any(map(_may_count, cycle.template.volumes)) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows where a driver is missing, else those where one would have too many volumes."""
        state = cycle.state
        state.volume_use.refresh(state.capacity)
        try:
            # A node without a CSINode has no migrated in-tree volumes and no limits.
            everywhere = state.volume_use.volumes_of(cycle.pod, csi_node=False, strict=True)
            volumes = state.volume_use.volumes_of(cycle.pod, csi_node=True)
        except KeyError as error:
            return _missing_claim(f"{cycle.template.namespace}/{error.args[0]}", error.args[0], rows)
        reasons = [_EXCEEDED]
        bits: Ints = np.zeros(len(rows), dtype=np.int64)
        for driver in dict.fromkeys(volumes.values()):
            missing = _missing(state, driver, rows, everywhere=driver in everywhere.values())
            if missing is not None and len(reasons) < MAX_REASONS:
                bits[missing & (bits == 0)] = 1 << len(reasons)
                reasons.append(Reason(f"{driver} CSI driver is not installed on the node"))
        for driver in dict.fromkeys(volumes.values()):
            names = [name for name, owner in volumes.items() if owner == driver]
            exceeded = _exceeded(state, driver, names, rows)
            if exceeded is not None:
                bits[exceeded & (bits == 0)] = 1
        return Rejections(bits, reasons) if bits.any() else None


def _may_count(volume: PodVolume) -> bool:
    return volume.claim is not None or (volume.disk is not None and volume.disk[0] in BY_KIND)


def _missing_claim(key: str, name: str, rows: Rows) -> Rejections:
    reason = Reason(f'looking up PVC {key}: persistentvolumeclaim "{name}" not found', resolvable=False)
    return Rejections(np.ones(len(rows), dtype=np.int64), (reason,))


def _missing(state: ClusterState, driver: str, rows: Rows, *, everywhere: bool) -> Mask | None:
    """Rows that lack a driver whose CSIDriver keeps pods off nodes without it; None if there are none."""
    found = state.volumes.csi_driver(driver)
    if found is None or not found.prevent_scheduling_if_missing:
        return None
    installed = state.volume_use.installed(driver)
    missing = np.ones(len(rows), dtype=np.bool_) if installed is None else ~installed[rows]
    if not everywhere:
        names = (state.node(int(row)).name for row in rows)
        missing &= np.fromiter((state.volumes.csi_node(name) is not None for name in names), np.bool_, len(rows))
    return missing if missing.any() else None


def _exceeded(state: ClusterState, driver: str, volumes: list[str], rows: Rows) -> Mask | None:
    """Rows on which these volumes exceed the limit; those that a pod there uses already do not count."""
    use = state.volume_use
    limits = use.limits(driver)
    if limits is None:
        return None
    new: Ints = np.full(state.capacity, len(volumes), dtype=np.int64)
    for volume in volumes:
        new[list(use.holders(volume))] -= 1
    attached = use.attached(driver)
    total = new if attached is None else new + attached
    exceeded: Mask = (limits != UNLIMITED) & (new > 0) & (total > limits)
    return exceeded[rows]
