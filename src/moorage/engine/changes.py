"""From what was observed to what it can mean for waiting pods."""

from __future__ import annotations

from moorage.core.nodes import Node
from moorage.framework.changes import Change, What


def node_change(before: Node | None, after: Node) -> Change | None:
    """What a new version of a node changes for placement; None if nothing."""
    if before is None:
        return Change(What.NODE_ADDED, node=after)
    what = What(0)
    if before.allocatable != after.allocatable:
        what |= What.NODE_ALLOCATABLE
    if before.labels != after.labels:
        what |= What.NODE_LABELS
    if before.taints != after.taints or before.unschedulable != after.unschedulable:
        what |= What.NODE_TAINTS
    if (before.images, before.features, before.annotations) != (after.images, after.features, after.annotations):
        what |= What.NODE_OTHER
    return Change(what, node=after) if what else None
