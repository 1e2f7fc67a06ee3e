"""Which units (single pods or whole gangs) get the nodes when each of their pods takes one: a plan, kept incrementally.

Units are in the order of their keys. The plan is the greedy choice: walk them in order and take each whose size still
fits into what the units taken before it left of the capacity. A unit that does not fit is passed over, never cut.

Invariants, by which the plan is found without walking:
- the sizes of all taken units add up to at most the capacity;
- for every unit that is not taken, its size and the sizes of the units taken before it add up to more than that.

Units are the nodes of a treap. Each subtree knows the sum of its taken sizes and the least capacity that would let in
one more of its units, so the first unit that breaks an invariant is found in one descent. Turned around, it is as the
greedy walk would have it, and so is everything before it; a unit is turned around at most once per event. An event
therefore costs O(log units) for itself and for each unit that enters or leaves. The shape of the tree follows from
the units' ids alone, so the same units always cost the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from moorage.core.hashing import node_hash

_NEVER = 1 << 62
"""More than any capacity."""

Order = tuple[tuple[Any, ...], str]


class PlannedUnit(NamedTuple):
    """Pods that are placed together, each on its own node."""

    id: str
    key: tuple[Any, ...]
    """Smaller comes first; equal keys are told apart by the id."""
    size: int
    """Number of nodes, at least 1."""


class _Tree:
    """A unit and what stands below it; the empty tree is `_EMPTY`."""

    __slots__ = ("left", "need", "order", "right", "size", "taken", "total", "weight")

    left: _Tree
    right: _Tree

    def __init__(self, order: Order, size: int) -> None:
        self.order = order
        self.size = size
        self.taken = False
        self.weight = node_hash(0, order[1])
        """Above what is lighter."""
        self.total = 0
        """Sum of the taken sizes."""
        self.need = _NEVER
        """The least capacity with which one more unit of this tree would fit, as if the tree stood alone."""
        self.left = self.right = self


def _empty_tree() -> _Tree:
    tree = _Tree(((), ""), 0)
    tree.weight = -1
    return tree


_EMPTY = _empty_tree()


class Plan:
    """The units, the capacity (a number of nodes), and which units are in the plan."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = _checked_capacity(capacity)
        self.visited = 0
        """Units looked at so far: what the work of keeping the plan is measured in."""
        self._root = _EMPTY
        self._trees: dict[str, _Tree] = {}
        self._before: dict[str, tuple[bool, Order]] = {}
        """Of units touched since `changes` was last called: whether they were in the plan, and their place then."""

    @property
    def used(self) -> int:
        """Number of nodes that the plan takes."""
        return self._root.total

    def put(self, unit_id: str, key: tuple[Any, ...], size: int) -> None:
        """Add a unit, or give it another key or size."""
        if size < 1:
            raise ValueError(f"unit {unit_id}: size {size} must be at least 1")
        order, known = (key, unit_id), self._trees.get(unit_id)
        if known is not None:
            if known.order == order and known.size == size:
                return
            self._remove(known)
        tree = self._trees[unit_id] = _Tree(order, size)
        tree.left = tree.right = _EMPTY
        self._root = self._insert(self._root, tree)
        self._repair()

    def drop(self, unit_id: str) -> None:
        """Forget a unit; one that is not known is no error."""
        tree = self._trees.pop(unit_id, None)
        if tree is not None:
            self._remove(tree)
            self._repair()

    def resize(self, capacity: int) -> None:
        """Change the number of nodes."""
        self.capacity = _checked_capacity(capacity)
        self._repair()

    def has(self, unit_id: str) -> bool:
        """Whether the unit is in the plan."""
        tree = self._trees.get(unit_id)
        return tree is not None and tree.taken

    def size(self, unit_id: str) -> int:
        """How many nodes a unit would take; 0 if it is not known."""
        tree = self._trees.get(unit_id)
        return 0 if tree is None else tree.size

    def used_before(self, key: tuple[Any, ...]) -> int:
        """Number of nodes that the plan gives to units that come before such a key."""
        order, used, tree = (key, ""), 0, self._root
        while tree is not _EMPTY:
            if tree.order < order:
                used += tree.left.total + (tree.size if tree.taken else 0)
                tree = tree.right
            else:
                tree = tree.left
        return used

    def changes(self) -> tuple[list[str], list[str]]:
        """Units that entered the plan and that left it since the last call, each in order.

        Units that left stand where they stood when they were last in the plan; a dropped unit that was in the plan has
        left it. What came and went in between is not mentioned.
        """
        entered: list[Order] = []
        left: list[Order] = []
        for unit_id, (was_in, place) in self._before.items():
            if was_in != self.has(unit_id):
                if was_in:
                    left.append(place)
                else:
                    entered.append(self._trees[unit_id].order)
        self._before.clear()
        return [unit_id for _, unit_id in sorted(entered)], [unit_id for _, unit_id in sorted(left)]

    def __len__(self) -> int:
        return len(self._trees)

    def __contains__(self, unit_id: object) -> bool:
        """Whether the unit is known, in the plan or not."""
        return unit_id in self._trees

    def __iter__(self) -> Iterator[PlannedUnit]:
        """All units in order."""
        above: list[_Tree] = []
        tree = self._root
        while above or tree is not _EMPTY:
            while tree is not _EMPTY:
                above.append(tree)
                tree = tree.left
            tree = above.pop()
            yield PlannedUnit(tree.order[1], tree.order[0], tree.size)
            tree = tree.right

    # --- the plan ---

    def _repair(self) -> None:
        """Turn the first unit around that is not as the greedy walk would have it, until there is none."""
        while self._root.total > self.capacity or self._root.need <= self.capacity:
            path = self._path_to_first_wrong()
            wrong = path[-1]
            self._note(wrong)
            wrong.taken = not wrong.taken
            for tree in reversed(path):
                _recount(tree)

    def _path_to_first_wrong(self) -> list[_Tree]:
        """The way from the root to the first unit that breaks an invariant; there is one."""
        path: list[_Tree] = []
        tree, room = self._root, self.capacity
        while True:
            self.visited += 1
            path.append(tree)
            left = tree.left
            if left.total > room or left.need <= room:
                tree = left
                continue
            room -= left.total
            if (tree.size <= room) != tree.taken:
                return path
            if tree.taken:
                room -= tree.size
            tree = tree.right

    def _note(self, tree: _Tree) -> None:
        """Remember how a unit stood when `changes` was last called."""
        self._before.setdefault(tree.order[1], (tree.taken, tree.order))

    # --- the tree ---

    def _insert(self, tree: _Tree, new: _Tree) -> _Tree:
        self.visited += 1
        if (new.weight, new.order[1]) > (tree.weight, tree.order[1]):
            new.left, new.right = self._split(tree, new.order)
            _recount(new)
            return new
        if new.order < tree.order:
            tree.left = self._insert(tree.left, new)
        else:
            tree.right = self._insert(tree.right, new)
        _recount(tree)
        return tree

    def _split(self, tree: _Tree, order: Order) -> tuple[_Tree, _Tree]:
        """What stands before `order`, and what after."""
        if tree is _EMPTY:
            return _EMPTY, _EMPTY
        self.visited += 1
        if tree.order < order:
            tree.right, after = self._split(tree.right, order)
            _recount(tree)
            return tree, after
        before, tree.left = self._split(tree.left, order)
        _recount(tree)
        return before, tree

    def _remove(self, tree: _Tree) -> None:
        self._note(tree)
        self._root = self._without(self._root, tree)

    def _without(self, tree: _Tree, gone: _Tree) -> _Tree:
        self.visited += 1
        if tree is gone:
            return self._join(tree.left, tree.right)
        if gone.order < tree.order:
            tree.left = self._without(tree.left, gone)
        else:
            tree.right = self._without(tree.right, gone)
        _recount(tree)
        return tree

    def _join(self, before: _Tree, after: _Tree) -> _Tree:
        """One tree of two, of which the first stands before the second."""
        if before is _EMPTY:
            return after
        if after is _EMPTY:
            return before
        self.visited += 1
        if (before.weight, before.order[1]) > (after.weight, after.order[1]):
            before.right = self._join(before.right, after)
            _recount(before)
            return before
        after.left = self._join(before, after.left)
        _recount(after)
        return after


def _recount(tree: _Tree) -> None:
    """Work out what a tree knows about itself from what stands below it."""
    left, right = tree.left, tree.right
    total, need = left.total, left.need
    if tree.taken:
        total += tree.size
    elif total + tree.size < need:
        need = total + tree.size
    tree.total, tree.need = total + right.total, min(need, total + right.need)


def _checked_capacity(capacity: int) -> int:
    if capacity < 0:
        raise ValueError(f"capacity {capacity} must not be negative")
    return capacity
