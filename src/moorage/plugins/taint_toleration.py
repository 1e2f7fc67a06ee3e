"""TaintToleration: a node's NoSchedule and NoExecute taints must be tolerated, PreferNoSchedule ones preferably.

Nodes share few distinct sets of taints, so both answers are computed once per set and gathered by the nodes' set ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.edits import DropTaint, Tolerate, Uncordon
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.core.taints import (
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT_KEY,
    Taint,
    Toleration,
    barring,
    is_barred,
    is_tolerated,
)
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import Reason, Rejections

_MAX_SCORE = 100
_KEPT_TABLES = 1024
_KEPT_TOLERATIONS = 1 << 16
"""In all tables, some 200 bytes each."""
_TROUBLE = "node.kubernetes.io/"
"""Prefix of the keys of taints that report a problem of the node."""
_UNTOLERATED = (Reason("node(s) had untolerated taint(s)", resolvable=False),)

Tolerations = tuple[Toleration, ...]


class _Table:
    """For one tuple of tolerations, by taint set id: 1 where it rejects the pod; number of PreferNoSchedule taints."""

    def __init__(self) -> None:
        self.barred: Ints = np.zeros(0, dtype=np.int64)
        self.discouraging: Ints = np.zeros(0, dtype=np.int64)
        self.bars_any = False

    def extend(self, tolerations: Tolerations, sets: list[tuple[Taint, ...]]) -> None:
        """Add the sets that are new; sets never change or disappear."""
        new = sets[len(self.barred) :]
        barred = [int(is_barred(taints, tolerations)) for taints in new]
        discouraging = [_count_discouraging(taints, tolerations) for taints in new]
        self.barred = np.append(self.barred, np.array(barred, dtype=np.int64))
        self.discouraging = np.append(self.discouraging, np.array(discouraging, dtype=np.int64))
        self.bars_any = self.bars_any or any(barred)


class TaintToleration(Plugin):
    """Keeps pods off tainted nodes unless they tolerate the taints."""

    name: ClassVar[str] = "TaintToleration"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_TAINTS | What.SELF

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self._sets: list[tuple[Taint, ...]] | None = None
        self._tables: dict[Tolerations, _Table] = {}
        self._tolerations = 0

    def sign(self, template: PodTemplate) -> Tolerations:
        """The tolerations, nothing else."""
        return template.tolerations

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps if its taints are tolerated now."""
        return change.node is None or not is_barred(change.node.taints, template.tolerations)

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        table = self._table(cycle.state, cycle.template.tolerations)
        if not table.bars_any:
            return None
        return Rejections(table.barred.take(cycle.state.pick(cycle.state.taints.ids, rows)), _UNTOLERATED)

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Tolerate the taints, remove them, or uncordon the node if they mean that it is cordoned."""
        node = rejected.state.node(rejected.row)
        missing = list(barring(node.taints, rejected.pod.template.tolerations))
        if node.unschedulable:
            # A cordoned node has a taint, too, which is removed when it is uncordoned.
            rest = [taint for taint in missing if taint.key != UNSCHEDULABLE_TAINT_KEY]
            if len(rest) < len(missing):
                yield Remedy((Uncordon(node.name), *map(Tolerate, rest)), 1.5 + _cost(rest))
        yield Remedy(tuple(map(Tolerate, missing)), _cost(missing))
        yield Remedy(tuple(DropTaint(node.name, taint) for taint in missing), _cost(missing) + 1.5)

    def remedy_groups(self, state: ClusterState, rows: Rows) -> Ints:
        """Nodes with the same taints need the same tolerations."""
        return state.taints.ids[rows].astype(np.int64)

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        table = self._table(cycle.state, cycle.template.tolerations)
        return table.discouraging.take(cycle.state.pick(cycle.state.taints.ids, rows))

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """The most taints score 0, none score 100."""
        most = int(scores.max(initial=0))
        if most == 0:
            return np.full(len(scores), _MAX_SCORE, dtype=np.int64)
        return np.subtract(_MAX_SCORE, scores * _MAX_SCORE // most)

    def _table(self, state: ClusterState, tolerations: Tolerations) -> _Table:
        if self._sets is not state.taints.sets:
            self._sets = state.taints.sets
            self._tables.clear()
            self._tolerations = 0
        table = self._tables.get(tolerations)
        if table is None:
            self._tolerations += len(tolerations)
            if len(self._tables) >= _KEPT_TABLES or self._tolerations > _KEPT_TOLERATIONS:
                self._tables.clear()
                self._tolerations = len(tolerations)
            table = self._tables[tolerations] = _Table()
        if len(table.barred) < len(state.taints.sets):
            table.extend(tolerations, state.taints.sets)
        return table


def _cost(taints: Iterable[Taint]) -> float:
    return sum(6.0 if taint.key.startswith(_TROUBLE) else 2.0 for taint in taints)


def _count_discouraging(taints: tuple[Taint, ...], tolerations: Tolerations) -> int:
    return sum(t.effect == PREFER_NO_SCHEDULE and not is_tolerated(t, tolerations) for t in taints)
