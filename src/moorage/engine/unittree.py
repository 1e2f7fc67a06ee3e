"""Waiting units in the order of their queues: leaves hold heaps, and a decision walks down from the top.

At every level the queue comes first that `queueorder.precedence` puts first with the first unit below it. After a
decision only the places of the queues on its path are computed again, and those of queues whose shares changed.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, NamedTuple

from moorage.core.queueorder import Precedence, precedence
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.engine.units import Unit

_FEW = 64
"""How many outdated items a heap may have beside as many as it needs."""


class Item(NamedTuple):
    """A unit in a leaf."""

    key: tuple[Any, ...]
    """Its place in the leaf; the smallest comes first."""
    ticket: int
    """Another one than the unit's marks an item as outdated."""
    unit: Unit
    need: Amounts
    """What its next pods request."""


class _Place:
    """A queue that has units, or had."""

    __slots__ = ("below", "entry", "first", "most", "node", "parent", "units")

    def __init__(self, node: QueueNode | None, parent: _Place | None) -> None:
        self.node = node
        self.parent = parent
        self.units: list[Item] = []
        """A heap of its units if it is a leaf; some are outdated."""
        self.below: list[_Entry] = []
        """A heap of the queues below it that have units; some entries are outdated."""
        self.first: Item | None = None
        """The first unit below it."""
        self.entry: _Entry | None = None
        """What stands for it in the heap of its parent; None while it has no unit."""
        self.most = _FEW
        """How many items a heap may have before outdated ones are dropped."""


_Entry = tuple[Precedence, int, _Place]
"""The place of a queue among its siblings, a number that no other entry has, and the queue."""


class UnitTree:
    """Units by leaf."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self._root = _Place(None, None)
        self._places: dict[QueueNode, _Place] = {}
        self._changed: set[_Place] = set()
        self._numbers = count()

    def push(self, leaf: QueueNode, item: Item) -> None:
        """Add a unit."""
        place = self._places.get(leaf) or self._place(leaf)
        units = place.units
        heapq.heappush(units, item)
        self._changed.add(place)
        if len(units) > place.most:
            units[:] = sorted(each for each in units if each.ticket == each.unit.ticket)
            place.most = 2 * len(units) + _FEW

    def _place(self, node: QueueNode) -> _Place:
        found = self._places.get(node)
        if found is None:
            parent = self._root if node.parent is None else self._place(node.parent)
            found = self._places[node] = _Place(node, parent)
        return found

    def peek(self) -> Item | None:
        """The unit that comes next."""
        self._refresh()
        top = self._best(self._root)
        return None if top is None else top.first

    def pop(self) -> Item | None:
        """Take out the unit that comes next."""
        self._refresh()
        place = self._best(self._root)
        if place is None:
            return None
        item = place.first
        while place.below and (below := self._best(place)) is not None:
            place = below
        heapq.heappop(place.units)
        self._changed.add(place)
        return item

    def heads(self) -> dict[QueueNode, Item]:
        """Leaf -> its first unit."""
        self._refresh()
        return {node: place.first for node, place in self._places.items() if place.first and not node.children}

    def leader(self, parent: QueueNode | None) -> tuple[QueueNode, Precedence] | None:
        """The first of the queues below one, or of those at the top, and its place."""
        self._refresh()
        above = self._root if parent is None else self._places.get(parent)
        best = None if above is None else self._best(above)
        return None if best is None or best.node is None or best.entry is None else (best.node, best.entry[0])

    def note_gone(self) -> None:
        """Units may not be tried any more, or belong elsewhere."""
        firsts = ((place, place.first) for place in self._places.values() if place.first is not None)
        self._changed.update(place for place, first in firsts if first.ticket != first.unit.ticket)

    def reshape(self) -> None:
        """Queues are elsewhere than before; units of leaves that are none any more are forgotten."""
        for node in self.tree.reshaped:
            place = self._places.get(node)
            if place is None or place.parent is None:
                continue
            place.entry = None
            self._changed.add(place.parent)
            if node.children:
                place.units.clear()
            if self.tree.nodes.get(node.name) is node:
                place.parent = self._root if node.parent is None else self._place(node.parent)
                self._changed.add(place)
            else:
                del self._places[node]
        self.tree.reshaped.clear()

    @staticmethod
    def _best(place: _Place) -> _Place | None:
        heap = place.below
        while heap:
            entry = heap[0]
            found = entry[2]
            if found.entry is entry:
                return found
            heapq.heappop(heap)
        return None

    def _refresh(self) -> None:
        """Compute the places of queues again for which something changed, the deepest first."""
        tree, changed = self.tree, self._changed
        moved, touched = tree.moved, tree.touched
        if not (changed or moved or touched):
            return
        if len(moved) == 1 and len(changed) <= 1 and not touched:  # a unit of a leaf was placed
            (leaf,) = moved
            place = self._places.get(leaf)
            if place is not None and (not changed or place in changed):
                moved.clear()
                changed.clear()
                self._climb(place, leaf)
                return
        self._refresh_all()

    def _climb(self, place: _Place, leaf: QueueNode) -> None:
        """The same for a leaf and all above it; in one piece, as most decisions are of this kind."""
        total, item = self.tree.total, self._first_below(place, leaf)
        for node in leaf.path:
            parent = place.parent
            if parent is None:
                return
            heap, known = parent.below, place.entry
            place.first = item
            if item is None:
                place.entry = None
            else:
                place.entry = entry = (precedence(node, item.need, total), next(self._numbers), place)
                if known is not None and heap[0] is known:
                    heapq.heapreplace(heap, entry)
                else:
                    self._enter(parent, entry)
            while heap and heap[0][2].entry is not heap[0]:
                heapq.heappop(heap)
            item = heap[0][2].first if heap else None
            place = parent

    def _refresh_all(self) -> None:
        tree, places = self.tree, self._places
        touched = tree.touched.union(*(leaf.path for leaf in tree.moved))
        changed = self._changed.union(place for node in touched if (place := places.get(node)) is not None)
        tree.moved.clear()
        tree.touched.clear()
        self._changed.clear()
        levels: dict[int, set[_Place]] = {}
        for place in changed:
            if place.node is not None:
                levels.setdefault(place.node.depth, set()).add(place)
        for depth in range(max(levels, default=0), 0, -1):
            for place in levels.get(depth, ()):
                node, parent = place.node, place.parent
                if node is not None and self._rank(place, node) and parent is not None and parent.node is not None:
                    levels.setdefault(depth - 1, set()).add(parent)

    def _rank(self, place: _Place, node: QueueNode) -> bool:
        """Compute the place of one queue again; whether it is another one, or has another unit."""
        item = self._first_below(place, node)
        parent, known, first = place.parent, place.entry, place.first
        if item is None or parent is None:
            place.first = place.entry = None
            return known is not None
        rank = precedence(node, item.need, self.tree.total)
        place.first = item
        if known is not None and known[0] == rank:
            return first is not item
        place.entry = entry = (rank, next(self._numbers), place)
        heap = parent.below
        if known is not None and heap[0] is known:
            heapq.heapreplace(heap, entry)
            return True
        self._enter(parent, entry)
        return True

    @staticmethod
    def _enter(parent: _Place, entry: _Entry) -> None:
        heap = parent.below
        heapq.heappush(heap, entry)
        if len(heap) > parent.most:
            heap[:] = sorted(each for each in heap if each[2].entry is each)
            parent.most = 2 * len(heap) + _FEW

    def _first_below(self, place: _Place, node: QueueNode) -> Item | None:
        if node.children:
            best = self._best(place)
            return None if best is None else best.first
        heap = place.units
        while heap:
            item = heap[0]
            if item.ticket == item.unit.ticket:
                return item
            heapq.heappop(heap)
        return None


def earlier(heads: dict[QueueNode, Item], others: dict[QueueNode, Item]) -> dict[QueueNode, Item]:
    """The first unit of each leaf."""
    for leaf, item in others.items():
        if leaf not in heads or item.key < heads[leaf].key:
            heads[leaf] = item
    return heads
