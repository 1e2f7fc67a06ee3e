"""Waiting units in the order of their queues: leaves hold sorted lines, and a decision walks down from the top.

At every level the queue comes first that `queueorder.precedence` puts first with the first unit below it. After a
decision only the places of the queues on its path are computed again, and those of queues whose shares changed.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from operator import itemgetter
from typing import Any, Final, NamedTuple

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


_KEY: Final = itemgetter(0)
_NEED: Final = 3
"""Where an item has it."""


class _Place:
    """A queue that has units, or had."""

    __slots__ = ("below", "entry", "first", "late", "line", "most", "node", "parent")

    def __init__(self, node: QueueNode | None, parent: _Place | None) -> None:
        self.node = node
        self.parent = parent
        self.line: list[Item] = []
        """Its units if it is a leaf, the last one first; some are outdated."""
        self.late: list[Item] = []
        """A heap of those that came since the line was sorted."""
        self.below: list[_Entry] = []
        """A heap of the queues below it that have units; some entries are outdated."""
        self.first: Item | None = None
        """The first of its units if it is a leaf, as of when that was last looked at."""
        self.entry: _Entry | None = None
        """What stands for it in the heap of its parent; None while it has no unit."""
        self.most = _FEW
        """How many items a heap may have before outdated ones are dropped."""

    def head(self) -> Item | None:
        """The first unit of a leaf. The line takes in those that came late once they are as many as it has."""
        line, late = self.line, self.late
        if late and len(late) >= len(line):
            line = self.sort()
        while line and line[-1][1] != line[-1][2].ticket:
            line.pop()
        if not late:
            return line[-1] if line else None
        while late and late[0][1] != late[0][2].ticket:
            heappop(late)
        if line and late:
            return min(line[-1], late[0])
        return line[-1] if line else late[0] if late else None

    def sort(self) -> list[Item]:
        """Sort all units of a leaf into its line, but for those that are outdated."""
        items = self.line + self.late
        self.line = line = [each for each in items if each[1] == each[2].ticket]
        line.sort(key=_KEY, reverse=True)
        self.late.clear()
        self.most = 2 * len(line) + _FEW
        return line


_Entry = tuple[int, float, float, bytes, _Place, Item, _Place]
"""The place of a queue among its siblings (`Precedence`), the queue, the first unit below it, and its leaf; flat, as
entries are compared very often. No two queues have the same place, so that only entries of one are told apart by units.
"""
_QUEUE: Final = 4
_FIRST: Final = 5
_LEAF: Final = 6
"""Where an entry has them."""


class UnitTree:
    """Units by leaf."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self._root = _Place(None, None)
        self._places: dict[QueueNode, _Place] = {}
        self._popped: _Place | None = None
        """The leaf that a unit was taken from last, and that has to be looked at again."""
        self._changed: set[_Place] = set()
        """Others for which something changed."""

    def push(self, leaf: QueueNode, item: Item) -> None:
        """Add a unit."""
        place = self._places.get(leaf) or self._place(leaf)
        late, first = place.late, place.first
        heappush(late, item)
        if first is None or item < first or first.ticket != first.unit.ticket:
            self._changed.add(place)
        if len(late) > place.most:
            place.sort()

    def _place(self, node: QueueNode) -> _Place:
        found = self._places.get(node)
        if found is None:
            parent = self._root if node.parent is None else self._place(node.parent)
            found = self._places[node] = _Place(node, parent)
        return found

    def peek(self) -> Item | None:
        """The unit that comes next."""
        top = self._top(self._root)
        return None if top is None else top[_FIRST]

    def pop(self) -> Item | None:
        """Take out the unit that comes next."""
        top = self._top(self._root)
        if top is None:
            return None
        self._popped = leaf = top[_LEAF]
        late = leaf.late
        return heappop(late) if late and late[0] is top[_FIRST] else leaf.line.pop()

    def heads(self) -> dict[QueueNode, Item]:
        """Leaf -> its first unit."""
        self._top(self._root)
        return {node: place.first for node, place in self._places.items() if place.first and not node.children}

    def leader(self, parent: QueueNode | None) -> tuple[QueueNode, Precedence] | None:
        """The first of the queues below one, or of those at the top, and its place."""
        above = self._root if parent is None else self._places.get(parent)
        best = None if above is None else self._top(above)
        node = None if best is None else best[_QUEUE].node
        return None if best is None or node is None else (node, best[:4])

    def note_gone(self) -> None:
        """Units may not be tried any more, or belong elsewhere."""
        firsts = ((place, place.first) for place in self._places.values() if place.first is not None)
        self._changed.update(place for place, first in firsts if first.ticket != first.unit.ticket)

    def reshape(self) -> None:
        """Queues are elsewhere than before; units of leaves that are none any more are forgotten."""
        if self._popped is not None:
            self._changed.add(self._popped)
            self._popped = None
        for node in self.tree.reshaped:
            place = self._places.get(node)
            if place is None or place.parent is None:
                continue
            place.entry = None
            self._changed.add(place.parent)
            if node.children:
                place.line.clear()
                place.late.clear()
                place.first = None
            if self.tree.nodes.get(node.name) is node:
                place.parent = self._root if node.parent is None else self._place(node.parent)
                self._changed.add(place)
            else:
                del self._places[node]
        self.tree.reshaped.clear()
        places = self._places  # queues that are gone have no place any more
        self._changed = {each for each in self._changed if each.node is None or places.get(each.node) is each}

    def _top(self, place: _Place) -> _Entry | None:
        """The first of the entries below a queue, with all places as they are now."""
        leaf, tree = self._popped, self.tree
        if leaf is not None:  # its unit was placed, or was not: most decisions are of this kind
            moved, self._popped = tree.moved, None
            if self._changed or tree.touched or len(moved) > 1 or (moved and leaf.node not in moved):
                self._changed.add(leaf)
                self._refresh_all()
            else:
                moved.clear()
                self._climb(leaf)
        elif self._changed or tree.moved or tree.touched:
            self._refresh_all()
        return _best(place)

    def _climb(self, leaf: _Place) -> None:
        """Compute the places of a leaf and of all above it again; in one piece, as this is done for every decision."""
        total = self.tree.total
        place = first = leaf
        leaf.first = item = leaf.head()
        node, parent = leaf.node, leaf.parent
        while node is not None and parent is not None:
            heap, known = parent.below, place.entry
            if item is None:
                place.entry = None
            else:
                rank, with_need, without, tie = precedence(node, item[_NEED], total)
                place.entry = entry = (rank, with_need, without, tie, place, item, first)
                if known is not None and heap[0] is known:
                    heapreplace(heap, entry)
                else:
                    _enter(parent, entry)
            item = None
            while heap:
                entry = heap[0]
                if entry[_QUEUE].entry is entry:
                    item, first = entry[_FIRST], entry[_LEAF]
                    break
                heappop(heap)
            place, node, parent = parent, parent.node, parent.parent

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
        parent, known = place.parent, place.entry
        item, leaf = _first_below(place, node)
        if item is None or parent is None:
            place.entry = None
            return known is not None
        rank = precedence(node, item.need, self.tree.total)
        if known is not None and known[:4] == rank and known[_FIRST] is item:
            return False
        place.entry = entry = (*rank, place, item, leaf)
        heap = parent.below
        if known is not None and heap[0] is known:
            heapreplace(heap, entry)
        else:
            _enter(parent, entry)
        return True


def _best(place: _Place) -> _Entry | None:
    """The first of the entries below a queue."""
    heap = place.below
    while heap:
        entry = heap[0]
        if entry[_QUEUE].entry is entry:
            return entry
        heappop(heap)
    return None


def _enter(parent: _Place, entry: _Entry) -> None:
    heap = parent.below
    heappush(heap, entry)
    if len(heap) > parent.most:
        heap[:] = sorted(each for each in heap if each[_QUEUE].entry is each)
        parent.most = 2 * len(heap) + _FEW


def _first_below(place: _Place, node: QueueNode) -> tuple[Item | None, _Place]:
    """The first unit and its leaf."""
    if not node.children:
        place.first = place.head()
        return place.first, place
    best = _best(place)
    return (None, place) if best is None else (best[_FIRST], best[_LEAF])


def earlier(heads: dict[QueueNode, Item], others: dict[QueueNode, Item]) -> dict[QueueNode, Item]:
    """The first unit of each leaf."""
    for leaf, item in others.items():
        if leaf not in heads or item.key < heads[leaf].key:
            heads[leaf] = item
    return heads
