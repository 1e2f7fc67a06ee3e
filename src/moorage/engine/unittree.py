"""Waiting units in the order of their queues: leaves hold sorted lines, and a decision walks down from the top.

At every level the queue comes first that `queueorder.precedence` puts first with the first unit below it. After a
decision only the places of the queues on its path are computed again, and those of queues whose shares changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final

from moorage.core.queueledger import LedgerEntry
from moorage.core.queueorder import Entry, Precedence, Sibling, climb, precedence
from moorage.core.queuetree import Amounts, QueueNode, QueueTree
from moorage.engine.units import Unit

_FEW = 64
"""How many outdated units a leaf may have beside as many as it needs."""


Item = tuple[tuple[Any, ...], int, Unit, Amounts, LedgerEntry | None]
"""A unit in a leaf: its place there, of which the smallest comes first; its ticket (another one than the unit's marks
an item as outdated); the unit; what its next pods request; the ledger's own entry of a pod without a gang, where that
is at hand. No class of its own, as items are made and read for every decision.
"""
_KEY: Final = itemgetter(0)


class _Place(Sibling):
    """A queue that has units, or had."""

    __slots__ = ("first", "fresh", "late", "line", "mixed", "most")

    parent: _Place | None

    def __init__(self, node: QueueNode | None, parent: _Place | None) -> None:
        super().__init__(node, parent)
        self.line: list[Item] = []
        """Its units if it is a leaf, the last one first; some are outdated."""
        self.late: list[Item] = []
        """A heap of those that came since the line was sorted."""
        self.fresh: list[Item] = []
        """Those that came since the first unit was last looked at."""
        self.mixed = False
        """Whether there are any of these two."""
        self.first: Item | None = None
        """The first of its units if it is a leaf, as of when that was last looked at."""
        self.most = _FEW
        """How many units may come before all are sorted, and outdated ones dropped."""

    def above(self) -> Iterator[_Place]:
        """It and all above it."""
        place: _Place | None = self
        while place is not None:
            yield place
            place = place.parent

    def head(self) -> Item | None:
        """The first unit of a leaf."""
        line = self.sort() if self.fresh else self.line
        while line and line[-1][1] != line[-1][2].ticket:
            line.pop()
        late = self.late
        while late and late[0][1] != late[0][2].ticket:
            heappop(late)
        self.mixed = bool(late)
        if line and late:
            return min(line[-1], late[0])
        return line[-1] if line else late[0] if late else None

    def sort(self) -> list[Item]:
        """Sort in what came. The line takes in what came late, and loses what is outdated, once that is as much as it
        has: a few units cost little then, and many at once are sorted once.
        """
        line, late, fresh = self.line, self.late, self.fresh
        if len(late) + len(fresh) < len(line):
            for item in fresh:
                heappush(late, item)
        else:
            self.line = line = [each for each in (*line, *late, *fresh) if each[1] == each[2].ticket]
            line.sort(key=_KEY, reverse=True)
            late.clear()
            self.most = 2 * len(line) + _FEW
        fresh.clear()
        return line


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
        fresh, first = place.fresh, place.first
        fresh.append(item)
        place.mixed = True
        if first is None or item < first or first[1] != first[2].ticket:
            self._changed.add(place)
        if len(fresh) > place.most:
            place.sort()

    def _place(self, node: QueueNode) -> _Place:
        found = self._places.get(node)
        if found is None:
            parent = self._root if node.parent is None else self._place(node.parent)
            found = self._places[node] = _Place(node, parent)
        return found

    def peek(self) -> Item | None:
        """The unit that comes next."""
        top = self._top()
        return None if top is None else top[_FIRST]

    def pop(self) -> Item | None:
        """Take out the unit that comes next."""
        top = self._top()
        if top is None:
            return None
        leaf: _Place = top[_LEAF]
        self._popped = leaf
        if leaf.mixed and (late := leaf.late) and late[0] is top[_FIRST]:
            return heappop(late)
        return leaf.line.pop()

    def rest(self) -> list[Unit]:
        """All units that it has, in no order."""
        items = (each for place in self._places.values() for each in (*place.line, *place.late, *place.fresh))
        return [unit for _, ticket, unit, *_ in items if ticket == unit.ticket]

    def heads(self) -> dict[QueueNode, Unit]:
        """Leaf -> its first unit."""
        self._top()
        return {node: place.first[2] for node, place in self._places.items() if place.first and not node.children}

    def leader(self, parent: QueueNode | None) -> tuple[QueueNode, Precedence] | None:
        """The first of the queues below one, or of those at the top, and its place."""
        self._top()
        above = self._root if parent is None else self._places.get(parent)
        best = None if above is None else _best(above)
        node = None if best is None else best[_QUEUE].node
        return None if best is None or node is None else (node, best[:4])

    def note_gone(self) -> None:
        """Units may not be tried any more, or belong elsewhere."""
        firsts = ((place, place.first) for place in self._places.values() if place.first is not None)
        self._changed.update(place for place, first in firsts if first[1] != first[2].ticket)

    def reshape(self) -> None:
        """Queues are elsewhere than before; units of leaves that are none any more are forgotten."""
        if self._popped is not None:
            self._changed.add(self._popped)
            self._popped = None
        for node in self.tree.reshaped:
            place = self._places.get(node)
            if place is None or place.parent is None:
                continue
            place.enter(None)
            self._changed.add(place.parent)
            if node.children:
                place.line.clear()
                place.late.clear()
                place.fresh.clear()
                place.first = None
            if self.tree.nodes.get(node.name) is node:
                place.parent = self._root if node.parent is None else self._place(node.parent)
                self._changed.add(place)
            else:
                del self._places[node]
        self.tree.reshaped.clear()
        places = self._places  # queues that are gone have no place any more
        self._changed = {each for each in self._changed if each.node is None or places.get(each.node) is each}

    def _top(self) -> Entry | None:
        """The first of all entries, with all places as they are now."""
        leaf, tree = self._popped, self.tree
        if leaf is not None:  # its unit was placed, or was not: most decisions are of this kind
            moved, item, self._popped = tree.moved, leaf.first, None
            moved.discard(leaf.node)  # no leaf is the root
            if not (moved or self._changed or tree.touched):
                if leaf.mixed or not (line := leaf.line) or (item := line[-1])[1] != item[2].ticket:
                    item = leaf.head()
                leaf.first = item
                if item is not None and (best := climb(leaf, item, tree.total)) is not None:
                    return best
            self._changed.update(leaf.above())
        if self._changed or tree.moved or tree.touched:
            self._refresh_all()
        return _best(self._root)

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
            place.enter(None)
            return known is not None
        rank = precedence(node, item[3], self.tree.total)
        if known is not None and known[:4] == rank and known[_FIRST] is item:
            return False
        place.enter((*rank, place, item, leaf))
        return True


def _best(place: _Place) -> Entry | None:
    """The first of the entries below a queue."""
    return place.below[0] if place.below else None


def _first_below(place: _Place, node: QueueNode) -> tuple[Item | None, _Place]:
    """The first unit and its leaf."""
    if not node.children:
        place.first = place.head()
        return place.first, place
    best = _best(place)
    return (None, place) if best is None else (best[_FIRST], best[_LEAF])
