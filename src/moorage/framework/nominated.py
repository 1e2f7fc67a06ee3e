"""Nominated pods as seen by the pod that is being scheduled: which of them count as present (`Nominations.binds`).

Pods of queues that are being evicted leave room for pods of queues that were promised it. So on each node as many of
these promises do not count as what is still leaving will serve: a unit whose own victims are gone need not wait until
those of others are.

What they request is kept as columns for the priority that was asked about last. The columns follow the nominations node
by node, so a decision does not pay for nominations that have not changed.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Ints, Rows
from moorage.core.columns import PODS_COLUMN
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.framework.cycle import Cycle

_FEW = 4
"""Up to this many rows are looked up one by one."""


class NominatedAmounts(NamedTuple):
    """Rows with nominated pods, and what these request: column -> amounts, shape (n,), where not all zero."""

    rows: Rows
    amounts: dict[int, Ints]


class NominatedPods:
    """The nominated pods of one state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._known: tuple[object, ...] = ()
        """What the columns hold for, beside the nominations."""
        self._position = -1
        self._pod_position = -1
        self._columns: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        """What nominated pods request that count for the pod that was asked about last, int64[columns, capacity]."""

    def among(self, cycle: Cycle, rows: Rows) -> NominatedAmounts | None:
        """What the nominated pods that count for this one request on these rows (ascending); None if there are none."""
        if not self._state.nominations or not len(rows):
            return None
        if len(rows) <= _FEW:
            pods = [self.pods(cycle, int(row)) for row in rows]
            crowded = rows[[bool(each) for each in pods]]
            columns = np.zeros((len(self._state.resources.names), len(crowded)), dtype=np.int64)
            for index, nominated in enumerate(filter(None, pods)):
                self._add(columns, index, nominated)
        else:
            self._follow(cycle.template)
            crowded = rows[self._state.pick(self._columns[PODS_COLUMN], rows) > 0]
            crowded, columns = self._without_own(cycle, crowded, self._columns[:, crowded])
        if not len(crowded):
            return None
        return NominatedAmounts(
            crowded, {int(column): columns[column] for column in np.flatnonzero(columns.any(axis=1))}
        )

    def pods(self, cycle: Cycle, row: int) -> list[Pod]:
        """The pods nominated to a row that count for this one."""
        return self._counting(row, cycle.template, cycle.pod.uid)

    def _without_own(
        self, cycle: Cycle, crowded: Rows, columns: npt.NDArray[np.int64]
    ) -> tuple[Rows, npt.NDArray[np.int64]]:
        """The same without the pod's own nomination."""
        own = self._state.nominations.node_of(cycle.pod.uid)
        found = np.flatnonzero(crowded == self._state.row_of(own)) if own is not None else ()
        for index in found:
            columns[:, index] = 0
            self._add(columns, int(index), self.pods(cycle, int(crowded[index])))
            if not columns[PODS_COLUMN, index]:
                return np.delete(crowded, index), np.delete(columns, index, axis=1)
        return crowded, columns

    # --- the columns ---

    def _follow(self, template: PodTemplate) -> None:
        state, nominations = self._state, self._state.nominations
        changed, moved = nominations.since(self._position), state.pod_log.since(self._pod_position)
        known = (nominations.bound_from(template), state.queues.assignments, state.node_log.position)
        shape = (len(state.resources.names), state.capacity)
        if self._known != known or self._columns.shape != shape or changed is None or moved is None:
            self._known, self._columns = known, np.zeros(shape, dtype=np.int64)
            changed, moved = nominations.nodes(), []
        self._position, self._pod_position = nominations.position, state.pod_log.position
        rows = {row for node in changed if (row := state.row_of(node)) is not None}
        if moved and state.queues.active:  # what is leaving may be less
            rows.update(row for row in set(moved) if state.alive[row] and nominations.on(state.node(row).name))
        for row in rows:
            self._columns[:, row] = 0
            self._add(self._columns, row, self._counting(row, template))

    def _add(self, columns: npt.NDArray[np.int64], index: int, pods: list[Pod]) -> None:
        for pod in pods:
            for column, amount in self._state.resources.vector(pod.requests).pairs:
                columns[column, index] += amount

    def _counting(self, row: int, template: PodTemplate, own: str = "") -> list[Pod]:
        state, least = self._state, self._state.nominations.bound_from(template)
        found, promised = list[Pod](), list[Pod]()
        for pod in state.nominations.on(state.node(row).name):
            if state.record(pod.uid) is None and pod.uid != own:
                if state.queues.governs(pod.template):
                    promised.append(pod)
                elif pod.template.priority >= least:
                    found.append(pod)
        return [*found, *self._unserved(row, promised)] if promised else found

    def _unserved(self, row: int, promised: list[Pod]) -> list[Pod]:
        """Those of the promised pods for which pods that are being evicted will not leave enough; the first ones."""
        state, left = self._state, Counter[str]()
        for record in state.records_on(row):
            pod = record.pod
            going = state.evictions.evicting(pod.uid) or (pod.deleted_s is not None and pod.preempted)
            if going and state.queues.governs(pod.template):
                left.update(dict(record.pod.requests.amounts))
        if not left:
            return promised
        found = []
        for pod in reversed(promised):
            if all(left[name] >= amount for name, amount in pod.requests.amounts):
                left.subtract(dict(pod.requests.amounts))
            else:
                found.append(pod)
        return found[::-1]
