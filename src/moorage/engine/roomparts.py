"""What a round of making room is about: who claims room, what has to go for it, what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.core.disruption.ledger import DisruptionReason, goes
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.quantity import fineness
from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.state import ClusterState, PodRecord
from moorage.engine.sharedjobs import RunningJob, StandingJob, VictimUnit
from moorage.engine.units import QueuedPod, Unit


class Order(NamedTuple):
    """What is to be done for a unit."""

    unit: Unit
    leaf: QueueNode
    nodes: dict[str, str]
    """Pod -> its node."""
    victims: list[str]
    moves: dict[str, str]
    """Those of the victims that have a place elsewhere, and where."""
    why: list[str]
    """Of each victim."""


class ClaimPlan(NamedTuple):
    """A solution."""

    placed: dict[str, str]
    """Pod -> its node, in the order in which they were placed: those of the claimant, and those that move."""
    lost: list[VictimUnit]
    """What finds no place again, in the order in which it was taken."""
    moves: frozenset[str]
    """Those that move."""


class Claimant(NamedTuple):
    """A unit, or the part of it that is being placed."""

    unit: Unit
    leaf: QueueNode
    entries: list[QueuedPod]
    need: Amounts
    preemptible: bool
    priority: int
    reclaims: bool = False
    """Whether it got its room by taking back a share."""

    @property
    def gang(self) -> GangKey | None:
        """The gang that it is."""
        return self.unit.gang


class Returning:
    """A victim that is to be placed again."""

    def __init__(self, job: RunningJob, records: Sequence[PodRecord]) -> None:
        self.job = job
        self.leaf = job.leaf
        gone = {record.pod.uid for record in records}
        self.records = [record for record in job.records if record.pod.uid in gone]

    @property
    def gang(self) -> GangKey | None:
        """The gang that it belongs to."""
        return self.job.pod.template.gang

    def next_records(self) -> list[PodRecord]:
        """As many as it lacks to its minimum, else one."""
        active = len(self.job.records) - len(self.records)
        return self.records[: max(1, self.job.least - active)]


Held = Mapping[QueueNode, Sequence[int]]
Allowed = Callable[[Claimant, list[VictimUnit], Held], bool]
"""Whether a claimant may cost others so much; with what queues held before, where that is not what they hold now."""


def always(_: Claimant, __: list[VictimUnit], ___: Held) -> bool:
    """Whatever it costs."""
    return True


def nothing(_: Claimant, lost: list[VictimUnit], __: Held) -> bool:
    """As long as all find a place again."""
    return not lost


def comes_back(record: PodRecord) -> bool:
    """Whether a pod that leaves its node comes back elsewhere: somebody makes it again, or it has not begun to run."""
    return record.assumed or goes(record.pod.template, DisruptionReason.MOVE)


def movable(jobs: Sequence[StandingJob]) -> Sequence[StandingJob]:
    """The jobs of which all pods come back elsewhere."""
    return [each for each in jobs if all(map(comes_back, each.left))]


def largest_part(need: Amounts, total: Sequence[int]) -> float:
    """The largest part that this is of what there is of a resource."""
    return max((amount / total[index] for index, amount in need if total[index]), default=0.0)


def enough_free(state: ClusterState, need: Amounts) -> bool:
    """Whether all nodes together have enough left."""
    resources, rows = state.resources, state.rows()
    for index, amount in need:
        name = state.queues.tree.resources[index]
        column = resources.known(name)
        if column is None:
            continue  # devices of claims
        left = resources.allocatable[column, rows] - resources.requested[column, rows]
        if int(left.clip(0).sum()) * fineness(name) < amount:
            return False
    return True


def frees_enough(state: ClusterState, pod: Pod, node: str, units: Iterable[VictimUnit]) -> bool:
    """Whether a node has enough for a pod once these are gone, as far as amounts go."""
    resources, row = state.resources, state.row_of(node)
    if row is None:
        return False
    freed: Counter[int] = Counter()
    for record in (record for unit in units for record in unit.records if record.node == node):
        freed.update(dict(record.vector.pairs))
    left = resources.allocatable[:, row] - resources.requested[:, row]
    wanted = resources.vector(pod.requests)
    return not wanted.unknown and all(left[column] + freed[column] >= amount for column, amount in wanted.pairs)


def is_plain(state: ClusterState, pod: Pod) -> bool:
    """Whether amounts decide where a pod may get room: no other pods, volumes or devices matter to it."""
    template = pod.template
    bound = template.has_pod_terms or template.spread or template.volumes or template.claims
    return not bound and not state.pod_terms
