"""Which pods may be moved for a reason that is not urgent, and which nodes could be emptied.

A pod may be moved if a controller replaces it at once without loss of work, neither it nor its node opts out, and its
disruption budgets would let it go by itself. Pods that belong to their node (daemons, static pods) do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import field
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Mask
from moorage.core.budgets import Budgets
from moorage.core.disruption.ledger import DO_NOT_DISRUPT, DisruptionReason, belongs_to_node, goes
from moorage.core.nodes import Node
from moorage.core.pods import RUNNING, Pod
from moorage.core.state import ClusterState, PodRecord
from moorage.core.values import dataclass

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_MOST_BUDGETS = 1
"""The API server refuses to evict pods that several budgets cover."""

Spared = Callable[[Pod], bool]
"""Whether a pod is left alone for a reason of the caller's, such as that it was moved a moment ago."""


def may_be_moved(pod: Pod) -> bool:
    """Whether a controller replaces the pod at once and no work is lost, and it does not opt out."""
    stands = pod.phase == RUNNING and pod.deleted_s is None
    return stands and goes(pod.template, DisruptionReason.REPACK)


def within_budgets(budgets: Budgets, pod: Pod) -> bool:
    """Whether the budgets would let this pod go if no other goes at the same time."""
    if len(budgets.covering(pod)) > _MOST_BUDGETS:
        return False
    return all(budgets.allowed[number] > 0 for number in budgets.charged(pod))


def opts_out(node: Node) -> bool:
    """Whether the node is not to be emptied; autoscalers read the same annotations."""
    annotations = node.annotations
    return annotations.get(SCALE_DOWN_DISABLED) == "true" or annotations.get(DO_NOT_DISRUPT) == "true"


class Mover(NamedTuple):
    """A pod that would have to move if its node were emptied."""

    pod: Pod
    row: int
    node: str
    amounts: tuple[tuple[int, int], ...]
    """What it takes, by the columns of the resources."""


@dataclass(slots=True)
class Census:
    """The nodes of a state at one moment."""

    open: Mask
    """Rows of nodes that take pods and stay, bool[capacity]."""
    movers: dict[int, list[Mover]] = field(default_factory=dict)
    """Rows that could be emptied -> the pods that would have to move; none where a node is empty already."""
    guests: dict[int, list[Mover]] = field(default_factory=dict)
    """Rows of open nodes -> the pods there that may move, whether all may or not."""
    in_use: int = 0
    """How many nodes have pods that do not belong to them."""

    @property
    def empty(self) -> list[int]:
        """Rows without pods that count, which can stay empty."""
        return [row for row, movers in self.movers.items() if not movers]


def take_census(
    state: ClusterState,
    budgets: Budgets,
    leaving: Mask | None = None,
    *,
    spared: Spared | None = None,
    planned: Container[str] = (),
) -> Census:
    """Look at every node and pod once; `leaving` are rows of nodes that go away for another reason.

    `planned` has the uids of pods whose budgets are not asked: they belong to a plan, and every move of theirs makes
    their budgets allow nothing for a moment.
    """
    census = Census(np.zeros(state.capacity, dtype=np.bool_))
    for row in map(int, state.rows()):
        node, counted = state.node(row), _counted(state.records_on(row))
        census.in_use += bool(counted)
        if not node.ready or node.unschedulable or node.deleting or (leaving is not None and leaving[row]):
            continue
        census.open[row] = True
        staying = [record for record in counted if record.pod.deleted_s is None]
        census.guests[row] = [mover_of(record) for record in staying if _goes(record, budgets, spared, planned)]
        if not opts_out(node) and len(census.guests[row]) == len(staying):
            census.movers[row] = census.guests[row]
    return census


def _counted(records: Iterable[PodRecord]) -> list[PodRecord]:
    return [record for record in records if not record.pod.finished and not belongs_to_node(record.pod.template)]


def _goes(record: PodRecord, budgets: Budgets, spared: Spared | None, planned: Container[str]) -> bool:
    pod = record.pod
    if record.assumed or not may_be_moved(pod) or (spared is not None and spared(pod)):
        return False
    return pod.uid in planned or within_budgets(budgets, pod)


def mover_of(record: PodRecord) -> Mover:
    """The pod of a record as it stands now."""
    return Mover(record.pod, record.row, record.node, record.vector.pairs)


def amounts(state: ClusterState, movers: Iterable[Mover]) -> Ints:
    """What pods take together, int64[resources]."""
    total: Ints = np.zeros(len(state.resources.names), dtype=np.int64)
    for mover in movers:
        for column, amount in mover.amounts:
            total[column] += amount
    return total
