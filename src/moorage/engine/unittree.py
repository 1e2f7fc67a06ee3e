"""Waiting units in the order of their queues: leaves hold heaps, and a decision walks down from the top.

At every level the queue comes first that `queueorder.precedence` puts first with the first unit below it. After a
decision only the places of the queues on its path are computed again, and those of queues whose shares changed.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from moorage.core.queueorder import Precedence, precedence
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.engine.units import Unit


class Item(NamedTuple):
    """A unit in a leaf."""

    key: tuple[Any, ...]
    """Its place in the leaf; the smallest comes first."""
    ticket: int
    """Another one than the unit's marks an item as outdated."""
    unit: Unit
    need: Amounts
    """What its next pods request."""


class UnitTree:
    """Units by leaf. Queues of `tree` must not be replaced while it holds any."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self._heaps: dict[QueueNode, list[Item]] = {}
        """Leaf -> its units."""
        self._first: dict[QueueNode, Item] = {}
        """Queue -> the first unit below it."""
        self._places: dict[QueueNode, tuple[Precedence, int]] = {}
        """Queue -> its place among its siblings, and the number of the entry that says so."""
        self._children: dict[QueueNode | None, list[tuple[Precedence, int, QueueNode]]] = {}
        """Queue -> its children that have units, a heap with outdated entries; None stands for the top."""
        self._changed: set[QueueNode] = set()
        self._numbers = 0

    def push(self, leaf: QueueNode, item: Item) -> None:
        """Add a unit."""
        heapq.heappush(self._heaps.setdefault(leaf, []), item)
        self._changed.add(leaf)

    def peek(self) -> Item | None:
        """The unit that comes next."""
        self._refresh()
        top = self._best(None)
        return None if top is None else self._first[top]

    def pop(self) -> Item | None:
        """Take out the unit that comes next."""
        self._refresh()
        node = self._best(None)
        if node is None:
            return None
        item = self._first[node]
        while node.children:
            below = self._best(node)
            if below is None:
                raise LookupError(f"queue {node.name} has no unit below it")
            node = below
        heapq.heappop(self._heaps[node])
        self._changed.add(node)
        return item

    def heads(self) -> dict[QueueNode, Item]:
        """Leaf -> its first unit."""
        self._refresh()
        return {node: item for node, item in self._first.items() if not node.children}

    def _best(self, parent: QueueNode | None) -> QueueNode | None:
        heap = self._children.get(parent)
        while heap:
            _, number, node = heap[0]
            place = self._places.get(node)
            if place is not None and place[1] == number:
                return node
            heapq.heappop(heap)
        return None

    def _refresh(self) -> None:
        """Compute the places of queues again for which something changed, the deepest first."""
        touched = self.tree.touched
        if touched:
            self._changed.update(node for node in touched if node in self._first)
            touched.clear()
        if not self._changed:
            return
        levels: dict[int, set[QueueNode]] = {}
        for node in self._changed:
            levels.setdefault(node.depth, set()).add(node)
        self._changed = set()
        for depth in range(max(levels, default=0), 0, -1):
            for node in levels.get(depth, ()):
                if self._rank(node) and node.parent is not None:
                    levels.setdefault(depth - 1, set()).add(node.parent)

    def _rank(self, node: QueueNode) -> bool:
        """Compute the place of one queue again; whether it is another one, or has another unit."""
        item = self._first_below(node)
        if item is None:
            self._first.pop(node, None)
            return self._places.pop(node, None) is not None
        place = precedence(node, item.need, self.tree.total)
        known = self._places.get(node)
        if known is not None and known[0] == place and self._first[node] is item:
            return False
        self._first[node] = item
        self._numbers += 1
        self._places[node] = place, self._numbers
        heapq.heappush(self._children.setdefault(node.parent, []), (place, self._numbers, node))
        return True

    def _first_below(self, node: QueueNode) -> Item | None:
        if node.children:
            best = self._best(node)
            return None if best is None else self._first[best]
        heap = self._heaps.get(node)
        while heap and heap[0].ticket != heap[0].unit.ticket:
            heapq.heappop(heap)
        if heap:
            return heap[0]
        self._heaps.pop(node, None)
        return None
