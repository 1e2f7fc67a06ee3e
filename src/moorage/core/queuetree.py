"""The tree of queues: which queue is part of which, what each holds, asks for and may have.

Amounts are lists, one number for each resource of `QueueTree.resources`. What a queue holds includes all queues below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moorage.core.fairshare import UNLIMITED, Claim, divide
from moorage.core.queues import Queue
from moorage.core.resources import CPU, MEMORY

Amounts = Sequence[tuple[int, int]]
"""(index of the resource, amount), amounts above 0 only."""
MOST_LEVELS = 16
"""A queue that is deeper than this takes no pods."""
_MOST_UNNAMED = 32
"""How many resources count that pods request and no queue names."""
_FIRST = (CPU, MEMORY)


class QueueNode:
    """A queue in the tree."""

    __slots__ = (
        "allocatable", "allocated", "busy", "children", "depth", "fixed", "limit", "name", "parent", "path", "problem",
        "queue", "quota", "requested", "share", "weight",
    )  # fmt: skip

    def __init__(self, queue: Queue, resources: Sequence[str]) -> None:
        self.name = queue.name
        self.parent: QueueNode | None = None
        self.children: dict[str, QueueNode] = {}
        self.busy: dict[str, QueueNode] = {}
        """Those of the children that hold something or ask for something."""
        self.path: tuple[QueueNode, ...] = (self,)
        """The queue itself, its parent, and so on."""
        self.depth = 0
        self.problem = ""
        """Why it takes no pods; empty if it does."""
        count = len(resources)
        self.allocated = [0] * count
        """What its pods have or are promised."""
        self.fixed = [0] * count
        """The part of it that belongs to pods that may not be evicted."""
        self.requested = [0] * count
        """The same as `allocated`, and what its pods wait for."""
        self.share = [0] * count
        """Its fair share."""
        self.rule(queue, resources)

    def rule(self, queue: Queue, resources: Sequence[str]) -> None:
        """Take over quotas, weights and limits."""
        self.queue = queue
        shares = [queue.share_of(name) for name in resources]
        self.quota = [each.quota for each in shares]
        self.weight = [each.weight for each in shares]
        self.limit = [each.limit for each in shares]
        self.allocatable = [self._may_have(index) for index in range(len(shares))]
        """What it may have: its quota or its fair share, whichever is more, within its limit."""

    def grow(self, resource: str) -> None:
        """Another resource counts."""
        for amounts in (self.allocated, self.fixed, self.requested, self.share):
            amounts.append(0)
        share = self.queue.share_of(resource)
        self.quota.append(share.quota)
        self.weight.append(share.weight)
        self.limit.append(share.limit)
        self.allocatable.append(self._may_have(len(self.limit) - 1))

    def _may_have(self, index: int) -> int:
        quota = self.quota[index]
        return self.limit[index] if quota >= UNLIMITED else min(self.limit[index], max(quota, self.share[index]))

    def give(self, index: int, share: int) -> None:
        """Its share of a resource is this."""
        self.share[index] = share
        self.allocatable[index] = self._may_have(index)

    @property
    def is_leaf(self) -> bool:
        """Whether it has no children."""
        return not self.children


class QueueTree:
    """All queues. Shares are brought up to date by `settle`, where something changed since last time."""

    def __init__(self) -> None:
        self._name(())
        self.nodes: dict[str, QueueNode] = {}
        self._top: dict[str, QueueNode] = {}
        """Queues without a parent that hold or ask for something."""
        self._dirty: set[QueueNode | None] = set()
        """Queues whose children have to be given their shares again; None stands for the cluster."""
        self.touched: set[QueueNode] = set()
        """Queues whose place in the order may have changed; the reader empties it."""
        self.builds = 0
        """Rises whenever all queues are replaced."""

    def _name(self, named: Iterable[str]) -> None:
        """Count cpu, memory and these resources; what pods request besides follows."""
        self.resources: list[str] = [*_FIRST, *sorted(set(named).difference(_FIRST))]
        self._index = {name: number for number, name in enumerate(self.resources)}
        self._named = len(self.resources)
        self.total: list[int] = [0] * len(self.resources)
        """What the queues divide."""

    def names(self, resource: str) -> bool:
        """Whether a queue names the resource, or all count it."""
        return self._index.get(resource, self._named) < self._named

    def index(self, resource: str) -> int | None:
        """The index of a resource that pods request, which counts from now on; None if there are too many."""
        found = self._index.get(resource)
        if found is None and len(self.resources) - self._named < _MOST_UNNAMED:
            found = self._index[resource] = len(self.resources)
            self.resources.append(resource)
            self.total.append(0)
            for node in self.nodes.values():
                node.grow(resource)
        return found

    def build(self, queues: Mapping[str, Queue]) -> None:
        """Start over with these queues, which hold nothing yet."""
        self._name(name for queue in queues.values() for name in queue.resources)
        self.nodes = {name: QueueNode(queue, self.resources) for name, queue in queues.items()}
        self._top, self._dirty, self.touched = {}, {None}, set()
        self.builds += 1
        for node in self.nodes.values():
            parent = self.nodes.get(node.queue.parent)
            if parent is not None:
                node.parent = parent
                parent.children[node.name] = node
            elif node.queue.parent:
                node.problem = f"queue {node.name} names the parent {node.queue.parent}, which does not exist"
        for node in self.nodes.values():
            self._find_path(node)

    def _find_path(self, node: QueueNode) -> None:
        path = [node]
        while path[-1].parent is not None and len(path) <= MOST_LEVELS:
            path.append(path[-1].parent)
        node.path, node.depth = tuple(path), len(path)
        if len(path) > MOST_LEVELS:
            node.problem = f"queue {_too_deep(path)}"
        elif not node.problem:
            node.problem = path[-1].problem

    def rule(self, queue: Queue) -> None:
        """Other quotas, weights, limits or another priority for a queue that stays where it is."""
        node = self.nodes[queue.name]
        node.rule(queue, self.resources)
        self._dirty.add(node.parent)
        self.touched.update(node.path)

    def divides(self, total: Sequence[int]) -> None:
        """So much is divided from now on."""
        if total != self.total:
            self.total = list(total)
            self._dirty.add(None)

    # --- what queues hold ---

    def hold(self, leaf: QueueNode, amounts: Amounts, sign: int, *, fixed: bool) -> None:
        """Pods of a leaf got so much, or lost it with the sign -1."""
        for node in leaf.path:
            for index, amount in amounts:
                node.allocated[index] += sign * amount
                if fixed:
                    node.fixed[index] += sign * amount
        self.touched.update(leaf.path)

    def request(self, leaf: QueueNode, amounts: Amounts, sign: int) -> None:
        """Pods of a leaf ask for so much more, or less with the sign -1."""
        for node in leaf.path:
            for index, amount in amounts:
                node.requested[index] += sign * amount
            siblings = self._top if node.parent is None else node.parent.busy
            if sign > 0:
                siblings[node.name] = node
            elif not any(node.requested):
                siblings.pop(node.name, None)
                for index in range(len(self.resources)):
                    node.give(index, 0)
            self._dirty.add(node.parent)

    # --- shares ---

    def settle(self) -> None:
        """Bring shares up to date."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        if None in dirty:
            dirty |= self._divide(self._top.values(), self.total)
        levels: dict[int, set[QueueNode]] = {}
        for node in dirty:
            if node is not None:
                levels.setdefault(node.depth, set()).add(node)
        for depth in range(1, MOST_LEVELS + 1):
            for node in levels.pop(depth, ()):
                if node.problem == "" or node.busy:
                    changed = self._divide(node.busy.values(), node.share)
                    levels.setdefault(depth + 1, set()).update(changed)

    def _divide(self, siblings: Iterable[QueueNode], amounts: Sequence[int]) -> set[QueueNode]:
        """Give siblings their shares; those with children whose share is another now."""
        nodes, changed = list(siblings), set[QueueNode]()
        for index, amount in enumerate(amounts):
            claims = [
                Claim(
                    node.name, min(node.limit[index], node.requested[index]), node.quota[index], node.weight[index],
                    node.queue.priority, node.queue.created_s,
                )
                for node in nodes if node.requested[index]
            ]  # fmt: skip
            shares = divide(amount, claims) if claims else {}
            for node in nodes:
                share = shares.get(node.name, 0)
                if share != node.share[index]:
                    node.give(index, share)
                    self.touched.add(node)
                    if node.busy:
                        changed.add(node)
        return changed


def _too_deep(path: Sequence[QueueNode]) -> str:
    """Why the way up from a queue does not end."""
    name = path[0].name
    if path[0] in path[1:]:
        return f"{name} is part of itself"
    if path.count(path[-1]) > 1:
        return f"{name} is below {path[-1].name}, which is part of itself"
    return f"{name} is more than {MOST_LEVELS} levels deep"
