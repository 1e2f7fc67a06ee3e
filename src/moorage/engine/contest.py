"""Jobs that compete for places in the order of queues, as long as a what-if lasts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from moorage.core.membership import GangKey
from moorage.core.queueorder import Precedence, precedence
from moorage.core.queuetree import Amounts, QueueNode


class _Competing(Protocol):
    @property
    def leaf(self) -> QueueNode: ...

    @property
    def gang(self) -> GangKey | None: ...


J = TypeVar("J", bound=_Competing)


class Contest(Generic[J]):
    """Jobs by leaf. Others that wait have no part in it: they would hold a place that they cannot take."""

    def __init__(
        self,
        jobs: Iterable[J],
        total: Sequence[int],
        key: Callable[[J], tuple[Any, ...]],
        need: Callable[[J], Amounts],
    ) -> None:
        """`total` is what the cluster has, `key` the place of a job in its leaf, `need` what its next pods request."""
        self._total, self._key, self._need = total, key, need
        self._numbers = count()
        self._leaves: dict[QueueNode, list[tuple[tuple[Any, ...], int, J]]] = {}
        self._below: dict[QueueNode | None, dict[QueueNode, None]] = {}
        self._places: dict[QueueNode, tuple[Precedence, Amounts, QueueNode]] = {}
        """Queue -> its place, what is needed next below it, and by which leaf."""
        for job in jobs:
            self._add(job)

    def _add(self, job: J) -> None:
        if job.leaf not in self._leaves:
            self._leaves[job.leaf] = []
            for node in job.leaf.path:
                self._below.setdefault(node.parent, {})[node] = None
        self._changed(job.leaf)
        heapq.heappush(self._leaves[job.leaf], (self._key(job), next(self._numbers), job))

    def first(self) -> J | None:
        """The job that comes next."""
        if not self._leaves:
            return None
        return self._leaves[self._best(None)[2]][0][2]

    def done(self, job: J, *successors: J) -> None:
        """The first job is out, and others compete from now on; what its queue has may be another amount now."""
        leaf, jobs = job.leaf, self._leaves[job.leaf]
        heapq.heappop(jobs)
        self._changed(leaf)
        if job.gang is not None:  # others of the gang may have another place by that
            jobs[:] = sorted((self._key(each) if each.gang == job.gang else key, n, each) for key, n, each in jobs)
        for each in successors:
            self._add(each)
        if not self._leaves[leaf]:
            self._drop(leaf)

    def discard(self, leaf: QueueNode, wanted: Callable[[J], bool]) -> None:
        """Jobs of a leaf are out, except those that are wanted."""
        jobs = self._leaves.get(leaf)
        if jobs is None:
            return
        jobs[:] = sorted(each for each in jobs if wanted(each[2]))
        self._changed(leaf)
        if not jobs:
            self._drop(leaf)

    def _changed(self, leaf: QueueNode) -> None:
        for node in leaf.path:
            self._places.pop(node, None)

    def _drop(self, leaf: QueueNode) -> None:
        del self._leaves[leaf]
        for node in leaf.path:
            if node is leaf or not self._below.get(node):
                del self._below[node.parent][node]

    def _best(self, parent: QueueNode | None) -> tuple[Precedence, Amounts, QueueNode]:
        return min((self._place(node) for node in self._below[parent]), key=lambda place: place[0])

    def _place(self, node: QueueNode) -> tuple[Precedence, Amounts, QueueNode]:
        found = self._places.get(node)
        if found is None:
            jobs = self._leaves.get(node)
            need, leaf = (self._need(jobs[0][2]), node) if jobs else self._best(node)[1:]
            found = self._places[node] = precedence(node, need, self._total), need, leaf
        return found
