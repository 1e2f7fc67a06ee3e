"""Running jobs of queues as what may be taken back: which pods go together, and in which order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from moorage.core.gangs import terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.queueorder import Precedence, victim_precedence
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.core.state import ClusterState, PodRecord
from moorage.core.values import dataclass
from moorage.engine.sharing import Sharing, pod_order

_BY_KEY = attrgetter("key")


@dataclass(slots=True, eq=False)
class RunningJob:
    """Pods on nodes that belong together: those of a gang in one queue, or one."""

    leaf: QueueNode
    least: int
    """How many of these pods it needs to run at all."""
    records: list[PodRecord]
    """In their order: the last goes first."""
    spared: int = 0
    """How many more pods it has, which are not to be taken."""

    @property
    def pod(self) -> Pod:
        """One of its pods."""
        return self.records[0].pod

    @property
    def surplus(self) -> RunningJob | None:
        """What it has above its minimum; None if that is nothing."""
        above = self.records[self.least :]
        return RunningJob(self.leaf, 0, above, self.spared + self.least) if above else None


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


class StandingJob(NamedTuple):
    """A job of which something is left to take."""

    key: tuple[Any, ...]
    """Its place in its leaf; the largest gives first."""
    job: RunningJob
    left: list[PodRecord]

    @property
    def next_records(self) -> list[PodRecord]:
        """What is taken next: one pod above the minimum, else all."""
        return self.left[-1:] if len(self.left) > self.job.least else self.left


Standings = Mapping[QueueNode, Sequence[StandingJob]]
"""Leaf -> its jobs in their order; the last one gives first."""


class VictimPool:
    """The running jobs of all leaves, kept up to date and in order while a round goes on."""

    def __init__(self, state: ClusterState, sharing: Sharing, wanted: Callable[[PodRecord], bool]) -> None:
        """Pods that are not wanted count as if they were not there."""
        self._state = state
        self._sharing = sharing
        self._wanted = wanted
        self._jobs: dict[QueueNode, dict[object, RunningJob]] = {}
        self._sorted: dict[QueueNode, list[StandingJob]] = {}
        groups: dict[tuple[QueueNode, object], list[PodRecord]] = {}
        for pod, member, holds in state.queues.entries():
            record = state.record(pod.uid)
            if holds and record is not None and member.leaf is not None and wanted(record):
                groups.setdefault((member.leaf, _job_key(pod)), []).append(record)
        for (_, key), records in groups.items():
            self._put(key, records)

    def _put(self, key: object, records: Sequence[PodRecord]) -> None:
        job = running_job(self._state, self._sharing, records)
        self._jobs.setdefault(job.leaf, {})[key] = job

    def note(self, pod: Pod) -> None:
        """A pod came to a node, left one or moved."""
        leaf, key = self._sharing.member(pod).leaf, _job_key(pod)
        if leaf is None:
            return
        self._jobs.get(leaf, {}).pop(key, None)
        self._sorted.pop(leaf, None)
        alone = self._state.record(pod.uid)
        standing = [] if alone is None else [alone]
        if pod.template.gang is not None:
            standing = _members(self._state, self._sharing, pod.template.gang, leaf)
        records = [each for each in standing if self._state.queues.counts(each.pod.uid) and self._wanted(each)]
        if records:
            self._put(key, records)

    @property
    def leaves(self) -> list[QueueNode]:
        """Leaves that have something to take."""
        return [leaf for leaf, jobs in self._jobs.items() if jobs]

    def standing(self, leaf: QueueNode) -> list[StandingJob]:
        """The jobs of a leaf in their order. Do not change it."""
        found = self._sorted.get(leaf)
        if found is None:
            found = sorted((self.stand(job) for job in self._jobs.get(leaf, {}).values()), key=_BY_KEY)
            self._sorted[leaf] = found
        return found

    def stand(self, job: RunningJob) -> StandingJob:
        """A job of which nothing is taken yet."""
        return standing_job(self._sharing, job, job.records)

    def ripe(
        self, jobs: Sequence[StandingJob], since_s: Callable[[PodRecord], float], least_s: float, now: float
    ) -> tuple[Sequence[StandingJob], float]:
        """Jobs that have run for so long, and of the others what they have above their minimum; and when the first of
        the others will have, which is never if there are none. `since_s` says since when a pod has run.
        """
        if not least_s:
            return jobs, inf
        found, first_s = list[StandingJob](), inf
        for each in jobs:
            ripe_s = least_s + min(map(since_s, each.job.records))
            if ripe_s <= now:
                found.append(each)
                continue
            first_s = min(first_s, ripe_s)
            if (surplus := each.job.surplus) is not None:
                found.append(self.stand(surplus))
        return sorted(found, key=_BY_KEY), first_s


def standing_job(sharing: Sharing, job: RunningJob, left: list[PodRecord]) -> StandingJob:
    """A job of which these pods are left."""
    return StandingJob(sharing.pod_key(job.pod, len(left) + job.spared), job, left)


class VictimOrder:
    """Units of running jobs in the order in which they are taken: exactly the reverse of that of placing.

    Queues are compared by what they would keep without the whole of the job that gives next.
    """

    def __init__(self, sharing: Sharing, tree: QueueTree, standings: Standings) -> None:
        self._sharing = sharing
        self._tree = tree
        self._taken: dict[QueueNode, list[int]] = {}
        self._leaves = {leaf: list(jobs) for leaf, jobs in standings.items() if jobs}
        self._below: dict[QueueNode | None, dict[QueueNode, None]] = {}
        for leaf in self._leaves:
            for node in leaf.path:
                self._below.setdefault(node.parent, {})[node] = None
        self._places: dict[QueueNode, tuple[Precedence, QueueNode, VictimUnit]] = {}
        """Queue -> its place, the leaf below it that gives next, and what; only the path of what is taken changes."""

    def __iter__(self) -> Iterator[VictimUnit]:
        while self._below.get(None):
            _, leaf, unit = self._worst(None)
            self._take(leaf, unit)
            yield unit

    def _take(self, leaf: QueueNode, unit: VictimUnit) -> None:
        for node in leaf.path:
            self._places.pop(node, None)
            taken = self._taken.setdefault(node, [0] * len(node.allocated))
            for index, amount in unit.amounts:
                taken[index] += amount
        jobs = self._leaves[leaf]
        worst = jobs.pop()
        left = worst.left[: -len(unit.records)]
        if left:
            insort(jobs, standing_job(self._sharing, worst.job, left), key=_BY_KEY)
        elif not jobs:
            for node in leaf.path:
                if node is leaf or not self._below.get(node):
                    del self._below[node.parent][node]

    def _worst(self, parent: QueueNode | None) -> tuple[Precedence, QueueNode, VictimUnit]:
        """The place of the child that gives first."""
        return max((self._place(node) for node in self._below[parent]), key=_PLACE)

    def _place(self, node: QueueNode) -> tuple[Precedence, QueueNode, VictimUnit]:
        found = self._places.get(node)
        if found is None:
            leaf, unit = (node, self._next(node)) if node in self._leaves else self._worst(node)[1:]
            taken = self._taken.get(node) or [0] * len(node.allocated)
            job = self._sharing.need([record.pod for record in self._leaves[leaf][-1].left])
            place = victim_precedence(node, taken, job, self._tree.total)
            found = self._places[node] = place, leaf, unit
        return found

    def _next(self, leaf: QueueNode) -> VictimUnit:
        worst = self._leaves[leaf][-1]
        records = worst.next_records
        return VictimUnit(worst.job, tuple(records), self._sharing.need([record.pod for record in records]))


def _PLACE(found: tuple[Precedence, QueueNode, VictimUnit]) -> Precedence:  # noqa: N802
    return found[0]


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


def jobs_of(
    state: ClusterState, sharing: Sharing, lost: Iterable[PodRecord]
) -> Iterator[tuple[RunningJob, list[PodRecord]]]:
    """The jobs that lost pods, with these and those that still stand, and the pods that were lost."""
    groups: dict[tuple[QueueNode, object], list[PodRecord]] = {}
    for record in lost:
        leaf = sharing.member(record.pod).leaf
        if leaf is not None:
            groups.setdefault((leaf, _job_key(record.pod)), []).append(record)
    for (leaf, _), records in groups.items():
        gang = records[0].pod.template.gang
        standing = [] if gang is None else _members(state, sharing, gang, leaf)
        yield running_job(state, sharing, [*standing, *records]), records


def _members(state: ClusterState, sharing: Sharing, gang: GangKey, leaf: QueueNode) -> list[PodRecord]:
    """The pods of a gang on nodes, as far as they belong to a queue: others of it may be elsewhere, or in none."""
    return [each for each in state.gangs.standing(gang).values() if sharing.member(each.pod).leaf is leaf]


def without(standings: Standings, sharing: Sharing, uids: set[str]) -> dict[QueueNode, list[StandingJob]]:
    """The same jobs without some of their pods."""
    return {leaf: sorted(_without(jobs, sharing, uids), key=_BY_KEY) for leaf, jobs in standings.items()}


def _without(jobs: Iterable[StandingJob], sharing: Sharing, uids: set[str]) -> Iterator[StandingJob]:
    for each in jobs:
        records = [record for record in each.left if record.pod.uid not in uids]
        if len(records) == len(each.left):
            yield each
        elif records:
            job = RunningJob(each.job.leaf, each.job.least, records, each.job.spared)
            yield standing_job(sharing, job, records)


def _job_key(pod: Pod) -> object:
    return pod.template.gang or pod.uid
