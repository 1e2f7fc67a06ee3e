"""The end of a running job that lets a waiting pod of a queue, or its gang, start: the earliest known, or the smallest.

A job is a gang as a whole, the pods of a Job, or one pod. Those whose pods would come back under another name are none:
what a ReplicaSet, say, has lost it makes again. All pods on nodes are looked at once, and sums tell whose end could be
enough; only of a few that is found out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Mask
from moorage.core.edits import Edits, EndedPod, EndJob
from moorage.core.objects import JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Workload, object_key
from moorage.core.pods import Pod
from moorage.core.queueledger import Membership
from moorage.core.queuetree import QueueNode
from moorage.core.state import NOWHERE, ClusterState, PodRecord
from moorage.core.times import coming_s
from moorage.core.values import dataclass
from moorage.engine.counterfactual.moves import movable, size
from moorage.engine.counterfactual.scene import Scene

END_COST = 100.0
"""Nobody can do it: whatever can be done comes first."""
_MOST_PODS = 64
"""Jobs of more pods are no small change."""
_MOST_TRIED = 12
"""Of so many with a known end, and of as many others, it is found out whether their end is enough."""
_MOST_LOOKS = 2048
"""The same of sums."""
_MOST_FOUND = 3
_REPLACED = frozenset({REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET})


@dataclass(frozen=True, slots=True)
class _Job:
    """Pods on nodes that end together."""

    records: Sequence[PodRecord]
    ends_s: float | None
    jobs: tuple[str, ...] = ()
    """The Job objects that made them, as far as they are known."""

    @property
    def order(self) -> tuple[float, int, int, str]:
        """The earliest known end first, then the smallest."""
        ends_s = inf if self.ends_s is None else self.ends_s
        return ends_s, len(self.records), sum(map(size, self.records)), self.records[0].pod.key

    @property
    def edits(self) -> Edits:
        pod = self.records[0].pod
        owner, title = pod.template.owner, f"pod {pod.key}"
        if pod.template.gang is not None:
            title = f"pod group {pod.template.gang.object_key}"
        elif owner is not None and owner.kind == JOB:
            title = f"Job {pod.namespace}/{owner.name}"
        pods = tuple(sorted(EndedPod(record.pod.name, record.pod.uid) for record in self.records))
        return (EndJob(title, pod.namespace, pods, self.jobs, self.ends_s),)


def job_ends(scene: Scene, pod: Pod, open_rows: Mask) -> Iterator[tuple[float, Edits]]:
    """Ends with their cost; `open_rows` are those on which the pod could stand if others left, bool[height]."""
    enough = _Enough(scene, pod, open_rows)
    singles, groups = _running(scene, pod, enough)
    jobs = sorted((*_few(enough.of(singles), scene.now_s), *groups), key=lambda each: each.order)
    count = 0
    for some in ([each for each in jobs if (each.ends_s is None) is unknown] for unknown in (False, True)):
        for job in islice((each for each in some[:_MOST_LOOKS] if enough.may_be(each.records)), _MOST_TRIED):
            if scene.fits_without(job.records):
                yield END_COST + count, job.edits
                count += 1
            if count >= _MOST_FOUND:
                return


def _few(records: Sequence[PodRecord], now_s: float) -> Iterator[_Job]:
    """Of single pods those that end first, and the smallest; one that should have ended may do so at any time."""
    ends_s = {record.pod.uid: coming_s(record.pod.ends_s, now_s) for record in records}
    known = (record for record in records if ends_s[record.pod.uid] is not None)
    first = nsmallest(_MOST_TRIED, known, key=lambda record: ends_s[record.pod.uid] or 0.0)
    others = nsmallest(_MOST_TRIED, (record for record in records if ends_s[record.pod.uid] is None), key=size)
    return (_Job((record,), ends_s[record.pod.uid]) for record in (*first, *others))


def _running(scene: Scene, waiting: Pod, enough: _Enough) -> tuple[list[PodRecord], Iterator[_Job]]:
    """The single pods on nodes, and the other jobs; without that of the waiting pod."""
    singles: list[PodRecord] = []
    groups: dict[object, list[PodRecord]] = {}
    for pod, member, holds in scene.state.queues.entries():
        record = scene.state.record(pod.uid) if holds else None
        if record is None or record.row == NOWHERE or not enough.concerns(record.pod, member):
            continue
        owner = pod.template.owner
        if pod.template.gang is not None or (owner is not None and owner.kind == JOB):
            groups.setdefault(_job_key(pod), []).append(record)
        elif movable(record) and (owner is None or owner.kind not in _REPLACED):
            singles.append(record)
    groups.pop(scene.unit or _job_key(waiting), None)
    return singles, (_group(scene.state, records, scene.now_s) for records in groups.values() if _ends(records))


def _job_key(pod: Pod) -> object:
    """What the pods of a job have in common; a uid alone may be that of a Job elsewhere, as anybody can write it."""
    owner = pod.template.owner
    if pod.template.gang is not None or owner is None or owner.kind != JOB:
        return pod.template.gang or pod.uid
    return pod.namespace, owner.uid or owner.name


def _ends(records: Sequence[PodRecord]) -> bool:
    """Whether pods that belong together may end as a whole, and do not come back."""
    owners = (record.pod.template.owner for record in records)
    return (
        len(records) <= _MOST_PODS
        and all(map(movable, records))
        and not any(each is not None and each.kind in _REPLACED for each in owners)
    )


def _group(state: ClusterState, records: Sequence[PodRecord], now_s: float) -> _Job:
    jobs = {each.name: each for each in _jobs_of(state, records)}
    return _Job(records, coming_s(_end_of(records, jobs), now_s), tuple(sorted(jobs)))


def _jobs_of(state: ClusterState, records: Iterable[PodRecord]) -> Iterator[Workload]:
    """The Job objects that made the pods, as far as they are known."""
    for template in {id(record.pod.template): record.pod.template for record in records}.values():
        owner = template.owner
        if owner is not None and owner.kind == JOB:
            job = state.object(JOB, object_key(template.namespace, owner.name))
            if isinstance(job, Workload) and (not owner.uid or not job.uid or owner.uid == job.uid):
                yield job


def _end_of(records: Iterable[PodRecord], jobs: dict[str, Workload]) -> float | None:
    """When the last of the pods has ended; None if that is not known. What a Job loses to a deadline it makes again."""
    last_s = -inf
    for pod in (record.pod for record in records):
        ends_s, owner = pod.ends_s, pod.template.owner
        if owner is not None and owner.kind == JOB:
            ends_s = jobs[owner.name].ends_s if owner.name in jobs else None
        if ends_s is None:
            return None
        last_s = max(last_s, ends_s)
    return last_s


class _Lack(NamedTuple):
    """What a queue would have too much of."""

    node: QueueNode
    resource: int
    amount: int
    fixed: bool
    """Whether only pods that may not be evicted count."""


class _Enough:
    """Whether the end of pods could be enough, going by amounts: on nodes, and in queues."""

    def __init__(self, scene: Scene, pod: Pod, open_rows: Mask) -> None:
        state, resources = scene.state, scene.state.resources
        self._queues = state.queues
        pods = _next_pods(scene, pod)
        self._lacks = list(_lacks(scene, pods))
        self._open = open_rows
        self._least = _least(state, pods)
        height = len(open_rows)
        self._free = np.array(
            [resources.allocatable[c, :height] - resources.requested[c, :height] for c in self._least]
        )
        """What is free of the resources that all of the pods need, int64[resources, height]."""
        self._amounts = np.array([*self._least.values()])[:, np.newaxis]
        self._room = self._fitting(self._free)
        self._lacking = len(pods) - int(self._room[open_rows].sum())
        """How many more pods have to find room."""

    def _fitting(self, free: Ints) -> Ints:
        """For how many of the pods such rows have room, int64[n]."""
        found: Ints = (np.clip(free, 0, None) // self._amounts).min(axis=0)
        return found

    def concerns(self, pod: Pod, member: Membership) -> bool:
        """Whether a pod counts for all queues that would have too much, or is in a queue or meant to end at all."""
        if member.leaf is None:
            owner = pod.template.owner
            return not self._lacks and (pod.ends_s is not None or (owner is not None and owner.kind == JOB))
        if not self._lacks:
            return True
        path = member.leaf.path
        return all(each.node in path and not (each.fixed and member.preemptible) for each in self._lacks)

    def of(self, records: Sequence[PodRecord]) -> list[PodRecord]:
        """Those of single pods whose end could be enough."""
        kinds = {id(record.vector): record for record in records}  # those of one vector request the same
        if self._lacks:
            few = {kind for kind, record in kinds.items() if not self._frees_queues((record,))}
            records = [record for record in records if id(record.vector) not in few]
        if self._lacking <= 0 or not records:
            return list(records)
        freed = {kind: self._freed(record) for kind, record in kinds.items()}
        rows = np.fromiter((record.row for record in records), dtype=np.intp, count=len(records))
        more = np.array([freed[id(record.vector)] for record in records]).T
        gained = self._fitting(self._free[:, rows] + more) - self._room[rows]
        return [records[index] for index in np.flatnonzero((gained >= self._lacking) & self._open[rows]).tolist()]

    def _freed(self, record: PodRecord) -> list[int]:
        taken = dict(record.vector.pairs)
        return [taken.get(column, 0) for column in self._least]

    def _frees_queues(self, records: Iterable[PodRecord]) -> bool:
        freed = dict(self._queues.held(record.pod for record in records)) if self._lacks else {}
        return all(freed.get(each.resource, 0) >= each.amount for each in self._lacks)

    def may_be(self, records: Sequence[PodRecord]) -> bool:
        """Whether the end of all of these could be."""
        if not self._frees_queues(records):
            return False
        if self._lacking <= 0:
            return True
        gone: dict[int, Ints] = {}
        for record in records:
            if self._open[record.row]:
                gone[record.row] = gone.get(record.row, 0) + np.array(self._freed(record))
        rows = list(gone)
        if not rows:
            return False
        gained = self._fitting(self._free[:, rows] + np.array([*gone.values()]).T) - self._room[rows]
        return int(gained.sum()) >= self._lacking


def _next_pods(scene: Scene, pod: Pod) -> list[Pod]:
    """The pods that have to find a node together."""
    needs = scene.gang_needs
    return [pod] if needs is None else scene.members[: max(1, needs.members)]


def _least(state: ClusterState, pods: Iterable[Pod]) -> dict[int, int]:
    """Resource column -> what each of these pods requests at least, if that is anything; one place in any case."""
    vectors = [dict(state.resources.vector(each.requests).pairs) for each in pods]
    least = {column: min(vector.get(column, 0) for vector in vectors) for column in vectors[0]}
    return {column: amount for column, amount in least.items() if amount}


def _lacks(scene: Scene, pods: Sequence[Pod]) -> Iterator[_Lack]:
    queues = scene.state.queues
    member = queues.member(pods[0].template)
    need = queues.need(pods)
    for node in () if member.leaf is None else member.leaf.path:
        for index, amount in need:
            if node.allocated[index] + amount > node.limit[index]:
                yield _Lack(node, index, node.allocated[index] + amount - node.limit[index], fixed=False)
            if not member.preemptible and node.fixed[index] + amount > node.quota[index]:
                yield _Lack(node, index, node.fixed[index] + amount - node.quota[index], fixed=True)
