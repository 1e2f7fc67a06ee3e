"""The tree of queues: which queue is part of which, what each holds, asks for and may have.

Amounts are lists of fine ones, one for each resource of `QueueTree.resources`. What a queue holds includes all queues
below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.core.fairshare import UNLIMITED, Claim, divide
from moorage.core.frozen import FrozenDict
from moorage.core.quantity import fineness
from moorage.core.queues import Queue
from moorage.core.resources import CPU, MEMORY

Amounts = Sequence[tuple[int, int]]
"""(index of the resource, amount), by index, amounts above 0 only."""
MOST_LEVELS = 16
"""A queue that is deeper than this takes no pods."""
PAIR = 2
"""Cpu and memory, which are the first two resources; most pods request nothing else."""
_MOST_UNNAMED = 32
"""How many resources count that pods request and no queue names."""
_FAR = 1 << 20
"""More pods than a limit is looked ahead for."""
_FIRST = (CPU, MEMORY)
_UNUSED: FrozenDict[str, int] = FrozenDict()


Bound = tuple[int, int, int]
"""A queue's share of a resource, its quota, and of what amounts are a part: what the queue may have, of unlimited
resources the total."""


def together(parts: Iterable[Amounts]) -> Amounts:
    """The sum of amounts."""
    every = list(parts)
    if every and all(each is every[0] for each in every):  # as is usual: pods of a gang are alike
        return tuple((index, amount * len(every)) for index, amount in every[0])
    total: Counter[int] = Counter()
    for amounts in every:
        total.update(dict(amounts))
    return tuple(sorted(total.items()))


class OrderTerms(NamedTuple):
    """What the place of a queue in the order follows from besides what it holds, see `queueorder`."""

    bounds: Sequence[Bound]
    """By resource."""
    rank: int
    """The higher the priority of the queue, the smaller; even."""
    tie: bytes
    """What decides among queues with equal shares: the smaller claim, the age, the name."""


PairTerms = tuple[int, bytes, int, int, int, int, int, int]
"""Rank, tie, and the bounds of cpu and of memory: flat, as this is read very often."""


class QueueNode:
    """A queue in the tree."""

    __slots__ = (
        "accounts", "allocatable", "allocated", "busy", "caps", "children", "depth", "fixed", "headroom", "limit",
        "lost", "name", "pair", "parent", "path", "problem", "queue", "quota", "requested", "share", "terms", "usage",
        "weight",
    )  # fmt: skip

    def __init__(self, queue: Queue, resources: Sequence[str], children: dict[str, QueueNode]) -> None:
        self.name = queue.name
        self.parent: QueueNode | None = None
        self.children = children
        self.busy: dict[str, QueueNode] = {}
        """Those of the children that hold something or ask for something."""
        self.path: tuple[QueueNode, ...] = (self,)
        """The queue itself, its parent, and so on; of one whose parents lead nowhere itself alone."""
        self.depth = 0
        self.problem = ""
        """Why it takes no pods; empty if it does."""
        self.lost = False
        """Whether the way up from it does not end."""
        count = len(resources)
        self.allocated = [0] * count
        """What its pods have or are promised."""
        self.accounts: tuple[list[int], ...] = (self.allocated,)
        """The same of every queue of the path."""
        self.headroom = 0
        """Until the tree has handed out something so often, no limit of the path is reached; see `has_room`."""
        self.fixed = [0] * count
        """The part of it that belongs to pods that may not be evicted."""
        self.requested = [0] * count
        """The same as `allocated`, and what its pods wait for."""
        self.share = [0] * count
        """Its fair share."""
        self.usage: Mapping[str, int] = _UNUSED
        """Its part of what there was lately, by resource, in millionths; only where that matters."""
        self.terms: OrderTerms | None
        """What its place in the order follows from; None once that has to be worked out again."""
        self.pair: PairTerms | None
        """The same where only cpu and memory count, and it may have something of both."""
        self.rule(queue, resources)

    def rule(self, queue: Queue, resources: Sequence[str]) -> None:
        """Take over quotas, weights and limits."""
        self.terms = self.pair = None
        self.queue = queue
        shares = [queue.share_of(name) for name in resources]
        self.quota = [each.quota for each in shares]
        self.weight = [each.weight for each in shares]
        self.limit = [each.limit for each in shares]
        self.caps = [(index, most) for index, most in enumerate(self.limit) if most < UNLIMITED]
        """Its limits by resource, where it has one."""
        self.allocatable = [self._may_have(index) for index in range(len(shares))]
        """What it may have: its quota or its fair share, whichever is more, within its limit."""

    def grow(self, resource: str) -> None:
        """Another resource counts, which no queue names."""
        self.terms = self.pair = None
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
        self.terms = self.pair = None

    def below(self) -> list[QueueNode]:
        """It and all queues below it, each once."""
        found = {self: None}
        for node in (todo := [self]):
            new = [each for each in node.children.values() if each not in found]
            found.update(dict.fromkeys(new))
            todo += new
        return list(found)


class Demand:
    """What pods that are alike count for."""

    __slots__ = ("amounts", "leaf", "preemptible")

    def __init__(self, leaf: QueueNode | None, amounts: Amounts, *, preemptible: bool = True) -> None:
        self.leaf = leaf
        """Where they count; None outside of any share."""
        self.amounts = amounts
        """What counts of the requests of each."""
        self.preemptible = preemptible
        """Whether they may be evicted."""


class QueueTree:
    """All queues. Shares are brought up to date by `settle`, where something changed since last time."""

    def __init__(self) -> None:
        self._named: Counter[str] = Counter()
        """Resource -> how many queues name it."""
        self._name()
        self.nodes: dict[str, QueueNode] = {}
        self._parts: dict[str, dict[str, QueueNode]] = {}
        """Name -> the queues that name it as their parent, whether it exists or not."""
        self._top: dict[str, QueueNode] = {}
        """Queues without a parent that hold or ask for something."""
        self.dirty: set[QueueNode | None] = set()
        """Queues whose children have to be given their shares again; None stands for the cluster."""
        self.asking: dict[Demand, int] = {}
        """What pods count for -> how many more of them ask for it than is counted yet."""
        self.moved: set[QueueNode] = set()
        """Leaves that got or lost something, so that the places of all on their paths may be others; so with all that
        follow, the reader empties it."""
        self.touched: set[QueueNode] = set()
        """Queues whose own place in the order may have changed."""
        self.reshaped: list[QueueNode] = []
        """Queues that are elsewhere in the tree than before, or no part of it any more."""
        self.handed = 0
        """How often something was handed out; far more whenever limits, paths or what pods ask for may be others."""
        self._largest = [0] * len(self.resources)
        """The most that a pod asked for, of each resource."""
        self._usage_factor = 0
        self._usage: Mapping[str, Mapping[str, int]] = {}
        """How much usage counts, and that of each queue by resource."""
        self.builds = 0
        """Rises whenever all queues are replaced."""

    def _name(self) -> None:
        """Count cpu, memory and what queues name; what pods request besides follows."""
        self.resources: list[str] = [*_FIRST, *sorted(set(self._named).difference(_FIRST))]
        self._index = {name: number for number, name in enumerate(self.resources)}
        self._named_count = len(self.resources)
        self.total: list[int] = [0] * len(self.resources)
        """What the queues divide."""

    def names(self, resource: str) -> bool:
        """Whether a queue names the resource, or all count it."""
        return self._index.get(resource, self._named_count) < self._named_count

    def index(self, resource: str) -> int | None:
        """The index of a resource that pods request, which counts from now on; None if there are too many."""
        found = self._index.get(resource)
        if found is None and len(self.resources) - self._named_count < _MOST_UNNAMED:
            found = self._index[resource] = len(self.resources)
            self.resources.append(resource)
            self.total.append(0)
            self._largest.append(0)
            for node in self.nodes.values():
                node.grow(resource)
        return found

    @property
    def unnamed(self) -> range:
        """Resources that no queue names."""
        return range(self._named_count, len(self.resources))

    def unused(self) -> set[int]:
        """Resources that no queue names and none of their pods asks for any more."""
        self._count_requests()
        return {index for index in self.unnamed if not any(top.requested[index] for top in self._top.values())}

    # --- queues ---

    def build(self, queues: Mapping[str, Queue]) -> None:
        """Start over with these queues, which hold nothing yet."""
        self._named = Counter(name for queue in queues.values() for name in queue.resources)
        self._name()
        self.nodes, self._parts, self._top, self.dirty = {}, {}, {}, {None}
        self.moved, self.touched, self.reshaped, self.asking = set(), set(), [], {}
        self._largest = [0] * len(self.resources)
        self.builds += 1
        for queue in queues.values():
            self._node(queue)
        for node in self.nodes.values():
            node.parent = self.nodes.get(node.queue.parent)
        for node in self.nodes.values():
            self._find_path(node)

    def counts_like(self, before: Queue | None, after: Queue | None) -> bool:
        """Whether the same resources are named by queues if this one changes so; else `build` is needed."""
        was = frozenset[str]() if before is None else before.resources.keys()
        now = frozenset[str]() if after is None else after.resources.keys()
        lost = any(self._named[name] == 1 and name not in _FIRST for name in was - now)
        return not lost and all(map(self.names, now))

    def put(self, queue: Queue) -> set[str] | None:
        """A new queue, or other terms of one that exists; the names of queues that may take other pods now.

        None if that cannot be told, and `build` is needed: queues that are part of themselves came or went.
        """
        node = self.nodes.get(queue.name)
        if node is None:
            self._named.update(queue.resources.keys())
            node = self._node(queue)
            return self._reshape(node, list(node.children.values()), {queue.name, queue.parent})
        before = node.queue
        self._named.subtract(before.resources.keys())
        self._named.update(queue.resources.keys())
        self.rule(queue)
        names = set() if before.namespaces == queue.namespaces else {queue.name}
        if before.parent == queue.parent:
            return names
        self._part(before.parent, queue.name)
        self._parts.setdefault(queue.parent, {})[queue.name] = node
        return self._reshape(node, [], names | {before.parent, queue.parent})

    def drop(self, name: str) -> set[str] | None:
        """A queue is gone; returns the same."""
        node = self.nodes.pop(name)
        self._named.subtract(node.queue.resources.keys())
        self._part(node.queue.parent, name)
        children, node.children = list(node.children.values()), {}
        if not children:
            self._parts.pop(name, None)
        return self._reshape(node, children, {name, node.queue.parent})

    def _node(self, queue: Queue) -> QueueNode:
        """Add a queue, which has no path yet."""
        parts = self._parts.setdefault(queue.name, {})
        node = self.nodes[queue.name] = QueueNode(queue, self.resources, parts)
        node.usage = self._usage.get(queue.name, _UNUSED)
        self._parts.setdefault(queue.parent, {})[queue.name] = node
        return node

    def _part(self, parent: str, name: str) -> None:
        """A queue does not name this parent any more."""
        parts = self._parts[parent]
        del parts[name]
        if not parts and parent not in self.nodes:
            del self._parts[parent]

    def _reshape(self, node: QueueNode, others: list[QueueNode], names: set[str]) -> set[str] | None:
        """A queue came, moved or went; `others` get another parent by that. Returns the names and those with another
        problem than before, None if some are or were part of themselves.
        """
        self._count_requests()
        self.handed += _FAR
        roots = [*others, node]
        below = list(dict.fromkeys(each for root in roots for each in root.below()))
        for root in roots:
            self._lift(root, -1)
        for root in roots:
            root.parent = self.nodes.get(root.queue.parent) if self.nodes.get(root.name) is root else None
        for each in below:
            problem, lost = each.problem, each.lost
            self._find_path(each)
            if each.lost or lost:
                return None
            if each.problem != problem:
                names.add(each.name)
        for root in reversed(roots):
            self._lift(root, 1)
        self.reshaped += below
        return names

    def _lift(self, node: QueueNode, sign: int) -> None:
        """What a queue holds and asks for counts above it, or does no more."""
        for above in node.path[1:]:
            for mine, theirs in (
                (node.allocated, above.allocated), (node.fixed, above.fixed), (node.requested, above.requested),
            ):  # fmt: skip
                for index, amount in enumerate(mine):
                    theirs[index] += sign * amount
        for each in node.path:
            self._note_busy(each, none=each is node and sign < 0)
        self.touched.update(node.path)

    def _find_path(self, node: QueueNode) -> None:
        path = [node]
        while path[-1].parent is not None and len(path) <= MOST_LEVELS:
            path.append(path[-1].parent)
        top = path[-1]
        node.problem, node.lost = "", False
        if len(path) > MOST_LEVELS:
            node.problem = f"queue {_too_deep(path)}"
            path = [node]
            node.lost = True
        elif top.queue.parent:
            node.problem = f"queue {top.name} names the parent {top.queue.parent}, which does not exist"
        node.path, node.depth = tuple(path), len(path)
        node.accounts = tuple([each.allocated for each in path])

    def rule(self, queue: Queue) -> None:
        """Other quotas, weights, limits or another priority for a queue that stays where it is."""
        node = self.nodes[queue.name]
        node.rule(queue, self.resources)
        self.handed += _FAR
        self.dirty.add(node.parent)
        self.touched.add(node)

    def used(self, factor: int, usage: Mapping[str, Mapping[str, int]]) -> None:
        """What queues used lately counts so much; all shares may be others by that."""
        if (factor, usage) == (self._usage_factor, self._usage):
            return
        self._usage_factor, self._usage = factor, usage
        self.dirty.add(None)
        for node in self.nodes.values():
            node.usage = usage.get(node.name, _UNUSED)
            if node.busy:
                self.dirty.add(node)

    def divides(self, total: Sequence[int]) -> None:
        """So much is divided from now on."""
        if total != self.total:
            self.total = list(total)
            self.dirty.add(None)
            for node in self.nodes.values():
                node.terms = node.pair = None
            todo = list(self._top.values())
            for node in todo:  # grows: those that ask for something, as dominant shares are parts of something else now
                todo += node.busy.values()
            self.touched.update(todo)

    # --- what queues hold ---

    def hold(self, demand: Demand, sign: int) -> None:
        """A pod got what it counts for, or lost it with the sign -1."""
        amounts, leaf = demand.amounts, demand.leaf
        if leaf is None:
            return
        if sign < 0:
            amounts = [(index, -amount) for index, amount in amounts]
        else:
            self.handed += 1
        if len(amounts) == PAIR:  # as is usual: written out, as this is done for every decision
            (first, one), (second, other) = amounts
            for allocated in leaf.accounts:
                allocated[first] += one
                allocated[second] += other
        else:
            for index, amount in amounts:
                for allocated in leaf.accounts:
                    allocated[index] += amount
        if not demand.preemptible:
            for index, amount in amounts:
                for node in leaf.path:
                    node.fixed[index] += amount
        self.moved.add(leaf)

    def asks(self, amounts: Amounts) -> None:
        """Pods may ask for so much."""
        largest = self._largest
        if any(amount > largest[index] for index, amount in amounts):
            self.handed += _FAR
            for index, amount in amounts:
                largest[index] = max(largest[index], amount)

    def has_room(self, leaf: QueueNode) -> bool:
        """Whether any pod of a leaf is within the limits of all queues of its path; if not, the limits decide.

        How many pods may be handed something, wherever, before one of them could be reached is noted in the leaf, so
        that they are looked at again only then.
        """
        if self.handed < leaf.headroom:
            return True
        pods = _FAR
        for node in leaf.path:
            for index, most in node.caps:
                if largest := self._largest[index]:
                    pods = min(pods, (most - node.allocated[index]) // largest)
        leaf.headroom = self.handed + pods
        return pods > 0

    def request(self, demand: Demand, sign: int) -> None:
        """A pod asks for what it counts for, or does no more with the sign -1; it counts when shares are asked for."""
        asking = self.asking
        asking[demand] = asking.get(demand, 0) + sign
        if sign < 0 and demand.leaf is not None:  # the first of its units may be gone
            self.moved.add(demand.leaf)

    def _count_requests(self) -> None:
        for demand, count in self.asking.items():
            for node in demand.leaf.path if count and demand.leaf is not None else ():
                for index, amount in demand.amounts:
                    node.requested[index] += amount * count
                self._note_busy(node)
        self.asking.clear()

    def _note_busy(self, node: QueueNode, *, none: bool = False) -> None:
        """Whether a queue asks for anything decides on whether it gets a share; with `none` it does not any more.

        One that is gone gets none, even if its pods have not been assigned again yet.
        """
        siblings = self._top if node.parent is None else node.parent.busy
        if any(node.requested) and not none and self.nodes.get(node.name) is node:
            siblings[node.name] = node
        elif siblings.get(node.name) is node:
            del siblings[node.name]
            for index in range(len(node.share)):
                node.give(index, 0)
        self.dirty.add(node.parent)

    # --- shares ---

    def settle(self) -> None:
        """Bring shares up to date, where anything is `asking` or `dirty`."""
        self._count_requests()
        dirty, self.dirty = self.dirty, set()
        if None in dirty:
            dirty |= self._divide(self._top.values(), self.total)
        levels: dict[int, set[QueueNode]] = {}
        for node in dirty:
            if node is not None and self.nodes.get(node.name) is node:
                levels.setdefault(node.depth, set()).add(node)
        for depth in range(1, MOST_LEVELS + 1):
            for node in levels.pop(depth, ()):
                if node.problem == "" or node.busy:
                    changed = self._divide(node.busy.values(), node.share)
                    levels.setdefault(depth + 1, set()).update(changed)

    def _divide(self, siblings: Iterable[QueueNode], amounts: Sequence[int]) -> set[QueueNode]:
        """Give siblings their shares; those with children whose share is another now."""
        nodes, changed = list(siblings), set[QueueNode]()
        for index, (name, amount) in enumerate(zip(self.resources, amounts, strict=True)):
            claims = [
                Claim(
                    node.name, min(node.limit[index], node.requested[index]), node.quota[index], node.weight[index],
                    node.queue.priority, node.queue.created_s, node.usage.get(name, 0),
                )
                for node in nodes if node.requested[index]
            ]  # fmt: skip
            shares, alike = (
                divide(amount, claims, self._usage_factor, fineness(name)) if claims else {},
                dict[int, int](),
            )
            for node in nodes:
                share = shares.get(node.name, 0)
                share = alike.setdefault(share, share)  # equal numbers are one object, which is at hand then
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
