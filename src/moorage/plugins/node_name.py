"""NodeName: a pod that names its node goes there or nowhere.

A pod with `spec.nodeName` counts as bound and never enters the queue; it is judged only when it is explained. So the
node's name is not part of what `sign` returns, and pods without one skip the plugin.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.pods import PodTemplate
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, OnlyNodes, Reason, Rejections, Status

_OTHER_NODE = (Reason("node(s) didn't match the requested node name", resolvable=False),)


class NodeName(Plugin):
    """Keeps a pod on the node that it names."""

    name: ClassVar[str] = "NodeName"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.NODE_ADDED

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing of a pending pod."""

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:
        """Only the node that the pod names."""
        return OnlyNodes(frozenset({cycle.pod.node})) if cycle.pod.node else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject every row but that of the named node."""
        if not cycle.pod.node:
            return None
        named = cycle.state.row_of(cycle.pod.node)
        return Rejections((rows != (-1 if named is None else named)).astype(np.int64), _OTHER_NODE)
