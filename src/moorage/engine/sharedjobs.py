"""Running jobs of queues as what may be taken back: which pods go together, and in which order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from moorage.core.gangs import terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.queueorder import victim_precedence
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.core.state import ClusterState, PodRecord
from moorage.core.values import dataclass
from moorage.engine.sharing import Sharing, pod_order

_BY_KEY = attrgetter("key")


@dataclass(slots=True, eq=False)
class RunningJob:
    """Pods on nodes that belong together: those of a gang, or one."""

    leaf: QueueNode
    least: int
    """How many pods it needs to run at all."""
    records: list[PodRecord]
    """In their order: the last goes first."""

    @property
    def pod(self) -> Pod:
        """One of its pods."""
        return self.records[0].pod


@dataclass(frozen=True, slots=True, eq=False)
class VictimUnit:
    """What is taken at once."""

    job: RunningJob
    records: tuple[PodRecord, ...]
    amounts: Amounts

    @property
    def nodes(self) -> list[str]:
        """The nodes that it touches."""
        return list(dict.fromkeys(record.node for record in self.records))


class _Standing(NamedTuple):
    """A job of which something is left to take."""

    key: tuple[Any, ...]
    """Its place in its leaf; the largest gives first."""
    job: RunningJob
    left: list[PodRecord]

    @property
    def next_records(self) -> list[PodRecord]:
        """What is taken next: one pod above the minimum, else all."""
        return self.left[-1:] if len(self.left) > self.job.least else self.left


class VictimOrder:
    """Units of running jobs in the order in which they are taken: exactly the reverse of that of placing."""

    def __init__(self, sharing: Sharing, tree: QueueTree, jobs: Iterable[RunningJob]) -> None:
        self._sharing = sharing
        self._tree = tree
        self._taken: dict[QueueNode, list[int]] = {}
        self._leaves: dict[QueueNode, list[_Standing]] = {}
        """Leaf -> its jobs in their order; the last one gives first."""
        for job in jobs:
            self._put(job, job.records)
        self._below: dict[QueueNode | None, set[QueueNode]] = {}
        for leaf in self._leaves:
            for node in leaf.path:
                self._below.setdefault(node.parent, set()).add(node)

    def _put(self, job: RunningJob, left: list[PodRecord]) -> None:
        item = _Standing(self._sharing.pod_key(job.pod, len(left)), job, left)
        insort(self._leaves.setdefault(job.leaf, []), item, key=_BY_KEY)

    def __iter__(self) -> Iterator[VictimUnit]:
        while self._below.get(None):
            leaf = self._worst_leaf()
            unit = self._next(leaf)
            self._take(leaf, unit)
            yield unit

    def _next(self, leaf: QueueNode) -> VictimUnit:
        worst = self._leaves[leaf][-1]
        records = worst.next_records
        return VictimUnit(worst.job, tuple(records), self._sharing.need([record.pod for record in records]))

    def _take(self, leaf: QueueNode, unit: VictimUnit) -> None:
        for node in leaf.path:
            taken = self._taken.setdefault(node, [0] * len(node.allocated))
            for index, amount in unit.amounts:
                taken[index] += amount
        jobs = self._leaves[leaf]
        worst = jobs.pop()
        left = worst.left[: -len(unit.records)]
        if left:
            self._put(worst.job, left)
        elif not jobs:
            self._drop(leaf)

    def _drop(self, leaf: QueueNode) -> None:
        for node in leaf.path:
            if node is leaf or not self._below.get(node):
                self._below[node.parent].discard(node)

    def _worst_leaf(self) -> QueueNode:
        children = self._below[None]
        while True:
            node = max(children, key=self._precedence)
            if not node.children:
                return node
            children = self._below[node]

    def _precedence(self, node: QueueNode) -> tuple[object, ...]:
        leaf = node
        while leaf.children:
            leaf = max(self._below[leaf], key=self._precedence)
        taken = self._taken.get(node) or [0] * len(node.allocated)
        return victim_precedence(node, taken, self._next(leaf).amounts, self._tree.total)


def running_jobs(state: ClusterState, sharing: Sharing, wanted: Callable[[PodRecord], bool]) -> list[RunningJob]:
    """The jobs of queues with those pods on nodes that are wanted; others count as if they were not there."""
    groups: dict[GangKey | str, list[PodRecord]] = {}
    for pod, member, holds in state.queues.entries():
        record = state.record(pod.uid)
        if holds and record is not None and member.leaf is not None and wanted(record):
            groups.setdefault(pod.template.gang or pod.uid, []).append(record)
    return [running_job(state, sharing, records) for records in groups.values()]


def running_job(state: ClusterState, sharing: Sharing, records: Sequence[PodRecord]) -> RunningJob:
    """The job of pods that belong together."""
    records = sorted(records, key=lambda record: pod_order(record.pod))
    pod = records[0].pod
    leaf, least = sharing.member(pod).leaf, 1
    if leaf is None:
        raise LookupError(f"pod {pod.key} belongs to no queue")
    if pod.template.gang is not None:
        terms = terms_of(state, pod.template.gang)
        least = len(records) if terms is None or terms.min_count is None else terms.min_count
    return RunningJob(leaf, least, records)
