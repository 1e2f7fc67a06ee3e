"""OnePodPerNode: a node holds at most one unfinished pod of a scheduler.

Pods of other schedulers do not count. A pod that is being deleted counts until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import Reason, Rejections

_TAKEN = (Reason("node(s) already had a pod of this scheduler"),)


class OnePodPerNode(Plugin):
    """Keeps pods off nodes that have a pod of the same scheduler."""

    name: ClassVar[str] = "OnePodPerNode"
    reads: ClassVar[Reads] = Reads.PODS
    wakes: ClassVar[What] = What.NODE_ADDED | What.POD_REMOVED
    one_pod_per_node: ClassVar[bool] = True

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self._taken = _TakenRows()

    def sign(self, template: PodTemplate) -> str:
        """The scheduler's name, nothing else."""
        return template.scheduler_name

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod that leaves helps if it is of this scheduler; a new node is free."""
        if change.what is not What.POD_REMOVED or change.pod is None:
            return True
        return change.pod.template.scheduler_name == template.scheduler_name

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows that have a pod of this scheduler."""
        return Rejections(self._taken.among(cycle.state, cycle.template.scheduler_name, rows), _TAKEN)

    def counted(self, cycle: Cycle) -> str:
        """How many nodes have a pod of this scheduler."""
        state, name = cycle.state, cycle.template.scheduler_name
        taken = int(self._taken.among(state, name, state.rows()).sum())
        return f"{taken} of {state.node_count} nodes have a pod of {name}"

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        """Whether the row has no pod of this scheduler."""
        return not _holds(cycle.state, row, cycle.template.scheduler_name)


class _TakenRows:
    """Which rows have pods of one scheduler; follows the changes of the state, as a class asks about all rows."""

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._scheduler = ""
        self._position = -1
        self._column: Ints = np.zeros(0, dtype=np.int64)
        """int64[capacity]: 1 where the scheduler has a pod."""

    def among(self, state: ClusterState, scheduler: str, rows: Rows) -> Ints:
        """1 where a row is taken, shape (len(rows),)."""
        self._follow(state, scheduler)
        return self._column[rows]

    def _follow(self, state: ClusterState, scheduler: str) -> None:
        """Bring the column up to date. A row that gets another node has no pods; pods that come or go are logged."""
        same = state is self._state and scheduler == self._scheduler and state.capacity == len(self._column)
        changed = state.pod_log.since(self._position) if same else None
        if changed is None or len(changed) > state.capacity:
            self._recount(state, scheduler)
        else:
            self._look_at(state, scheduler, set(changed))
        self._state, self._scheduler, self._position = state, scheduler, state.pod_log.position

    def _recount(self, state: ClusterState, scheduler: str) -> None:
        self._column = np.zeros(state.capacity, dtype=np.int64)
        for record in state.records():
            if record.row != NOWHERE and record.pod.template.scheduler_name == scheduler:
                self._column[record.row] = 1

    def _look_at(self, state: ClusterState, scheduler: str, rows: Iterable[int]) -> None:
        for row in rows:
            self._column[row] = _holds(state, row, scheduler)


def _holds(state: ClusterState, row: int, scheduler: str) -> bool:
    return any(record.pod.template.scheduler_name == scheduler for record in state.records_on(row))
