"""What every queue has, may have and waits for at one moment, by names of resources: for answers, not for decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moorage.core.queueorder import dominant_share
from moorage.core.queues import Queue
from moorage.core.queuetree import MOST_LEVELS, QueueNode, QueueTree
from moorage.core.state import ClusterState


class QueueHolding(NamedTuple):
    """What a queue and those below it have of one resource."""

    allocated: int = 0
    """What their pods have or are promised."""
    requested: int = 0
    """The same, and what their pods wait for."""
    share: int = 0
    """The fair share."""

    @property
    def waiting(self) -> int:
        """What their pods wait for."""
        return self.requested - self.allocated


class QueueAccount(NamedTuple):
    """One queue."""

    queue: Queue
    level: int
    """How many queues are above it."""
    problem: str
    """Why it takes no pods; empty if it does, or the queues below it."""
    holdings: Mapping[str, QueueHolding]
    """By resource: those that it names, and those that its pods ask for."""
    dominant_share: float
    """The largest part that it has of what it may have of a resource."""


def queue_accounts(state: ClusterState) -> list[QueueAccount]:
    """All queues, each before the queues below it, by name; those whose parents lead nowhere stand at the end."""
    if not state.queues.active:
        return []
    tree = state.queues.settle(state)
    tops = sorted((node for node in tree.nodes.values() if node.parent is None), key=lambda node: node.name)
    sound = [node for node in tops if not node.problem]
    found = [each for top in (*sound, *(node for node in tops if node.problem)) for each in _below(tree, top, 0)]
    listed = {account.queue.name for account in found}
    return [*found, *(_account(tree, tree.nodes[name], 0) for name in sorted(tree.nodes) if name not in listed)]


def queue_problems(queues: Mapping[str, Queue]) -> dict[str, str]:
    """Name -> why a queue takes no pods; only queues of which something can be said."""
    tree = QueueTree()
    tree.build(queues)
    return {name: node.problem for name, node in tree.nodes.items() if node.problem}


def _below(tree: QueueTree, node: QueueNode, level: int) -> Iterator[QueueAccount]:
    yield _account(tree, node, level)
    for name in sorted(node.children) if level < MOST_LEVELS else ():
        yield from _below(tree, node.children[name], level + 1)


def _account(tree: QueueTree, node: QueueNode, level: int) -> QueueAccount:
    holdings = {
        name: QueueHolding(node.allocated[index], node.requested[index], node.share[index])
        for index, name in sorted(enumerate(tree.resources), key=lambda pair: pair[1])
        if name in node.queue.resources or node.requested[index]
    }
    part = dominant_share(node.allocated, node.allocatable, tree.total)
    return QueueAccount(node.queue, level, node.problem, holdings, part)
