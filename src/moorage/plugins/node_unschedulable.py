"""NodeUnschedulable: cordoned nodes accept only pods that tolerate this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.edits import Uncordon
from moorage.core.pods import PodTemplate
from moorage.core.taints import UNSCHEDULABLE_TAINT_KEY, Taint, is_tolerated
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import Reason, Rejections

_UNSCHEDULABLE = (Reason("node(s) were unschedulable", resolvable=False),)
_TAINT = Taint(UNSCHEDULABLE_TAINT_KEY)


class NodeUnschedulable(Plugin):
    """Keeps pods off nodes with `spec.unschedulable`, unless they tolerate the taint of that name."""

    name: ClassVar[str] = "NodeUnschedulable"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_TAINTS | What.SELF

    def sign(self, template: PodTemplate) -> bool:
        """Whether the pod tolerates cordoned nodes."""
        return is_tolerated(_TAINT, template.tolerations)

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps if it is schedulable now, a change of the pod if it tolerates cordoned nodes now."""
        if change.what is What.SELF:
            return self.sign(template)
        return change.node is None or not change.node.unschedulable

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject cordoned rows."""
        cordoned = cycle.state.pick(cycle.state.unschedulable, rows)
        if not cordoned.any() or self.sign(cycle.template):
            return None
        return Rejections(cordoned.astype(np.int64), _UNSCHEDULABLE)

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Uncordon the node."""
        yield Remedy((Uncordon(rejected.state.node(rejected.row).name),), 1.5)
