"""NodeDeclaredFeatures: a node must declare every feature that the pod needs of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.pods import PodTemplate
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, Reason, Rejections, Status

_LACKING = (Reason("node(s) didn't match Pod's required features", resolvable=False),)


class NodeDeclaredFeatures(Plugin):
    """Keeps pods off nodes that lack a feature that they need."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_OTHER | What.SELF

    def sign(self, template: PodTemplate) -> tuple[str, ...]:
        """The features that the pod needs."""
        return template.features

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps if it has them all."""
        return change.node is None or set(template.features) <= set(change.node.features)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods that need no features."""
        return None if cycle.template.features else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that lack a feature."""
        wanted = set(cycle.template.features)
        lacks = (not wanted <= set(cycle.state.node(int(row)).features) for row in rows)
        bits = np.fromiter(lacks, np.int64, len(rows))
        return Rejections(bits, _LACKING) if bits.any() else None
