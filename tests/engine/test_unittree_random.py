"""The order of units by their queues is that of plain loops over all of them, whatever comes, goes, moves or changes.

`MOORAGE_ORDER_STORIES` says how many random stories are told.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.queueorder import precedence, shortage
from moorage.core.queues import Queue, ResourceShare
from moorage.core.queuetree import Amounts, Demand, QueueNode, QueueTree
from moorage.core.resources import CPU
from moorage.engine.units import Unit
from moorage.engine.unittree import Item, UnitTree
from moorage.testing import make_pod

STORIES = int(os.environ.get("MOORAGE_ORDER_STORIES", "60"))
STEPS = 250
GPU = "nvidia.com/gpu"
POD = make_pod("p")


class Story:
    """One random story. `items` has what is in the order, by unit."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.named = GPU if seed % 2 else CPU  # what counts beside cpu and memory, if anything
        self.tree = QueueTree()
        self.serial = 0
        self.queues: dict[str, Queue] = {}
        for number in range(self.draw.randint(2, 9)):
            self.queues[f"q{number}"] = self._queue(f"q{number}")
        self.items: dict[int, tuple[QueueNode, Item]] = {}
        self.held: list[tuple[QueueNode, Amounts]] = []
        self._build()

    def _build(self) -> None:
        self.tree.build(self.queues)
        self.tree.divides([self.draw.randint(0, 40) for _ in self.tree.resources])
        self.units = UnitTree(self.tree)
        self.items.clear()
        self.held.clear()

    def _queue(self, name: str) -> Queue:
        draw = self.draw
        shares = {self.named: ResourceShare(draw.randint(0, 6), 1000 * draw.randint(0, 2), draw.choice([1 << 100, 5]))}
        parent = draw.choice(["", "", *(each for each in self.queues if each < name)])
        return Queue(name, parent=parent, priority=draw.choice([100, 100, 150]), resources=FrozenDict(shares))

    def tell(self) -> None:
        """Everything that happens; returns how many units came out."""
        events: list[Callable[[], None]] = [
            *[self._push] * 12, *[self._pop] * 12, *[self._hold] * 4, *[self._give_up] * 3, *[self._again] * 3,
            self._vanish, *[self._change] * 2, self._come_or_go, self._total, self._grow,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.draw.choice(events)()
            if self.draw.random() < 0.7:
                self._check()
                self._check_room()

    def _check_room(self) -> None:
        """Room is only promised where every limit leaves it."""
        for leaf, item in self.items.values():
            if self.tree.has_room(leaf):
                assert shortage(leaf, item[3], preemptible=True) is None

    # --- events ---

    def _need(self) -> Amounts:
        draw, every = self.draw, range(len(self.tree.resources))
        return tuple((index, draw.randint(1, 4)) for index in every if draw.random() < 0.8)

    def _leaf(self) -> QueueNode | None:
        leaves = [node for node in self.tree.nodes.values() if not node.children]
        return self.draw.choice(leaves) if leaves else None

    def _push(self) -> None:
        leaf = self._leaf()
        if leaf is not None:
            self.serial += 1
            self._enter(leaf, Unit(f"u{self.serial}", POD, None, 0.0, 0.0), self._need())

    def _enter(self, leaf: QueueNode, unit: Unit, need: Amounts) -> None:
        self.serial += 1
        unit.ticket = self.serial
        key = (self.draw.choice([-60, -50]), self.draw.randint(0, 9), f"u{unit.ticket}")
        item: Item = key, unit.ticket, unit, need, None
        self.tree.request(Demand(leaf, need), 1)
        self.tree.asks(need)
        self.units.push(leaf, item)
        self.items[id(unit)] = leaf, item

    def _any(self) -> tuple[QueueNode, Item] | None:
        return self.draw.choice(list(self.items.values())) if self.items else None

    def _give_up(self) -> None:
        """A pod waits no more."""
        if (found := self._any()) is not None:
            leaf, item = found
            item[2].ticket = -1
            self.tree.request(Demand(leaf, item[3]), -1)
            del self.items[id(item[2])]

    def _vanish(self) -> None:
        """Units may not be tried any more, and their pods still wait."""
        for leaf, item in self.draw.sample(list(self.items.values()), min(len(self.items), 3)):
            item[2].ticket = 0
            self.held.append((leaf, ()))
            del self.items[id(item[2])]
        self.units.note_gone()

    def _again(self) -> None:
        """A unit is sorted in again, in its leaf or in another one."""
        found, leaf = self._any(), self._leaf()
        if found is not None and leaf is not None:
            before, item = found
            self.tree.request(Demand(before, item[3]), -1)
            self._enter(before if self.draw.random() < 0.5 else leaf, item[2], item[3])

    def _hold(self) -> None:
        """A pod gets a node, or leaves it."""
        if self.held and self.draw.random() < 0.5:
            leaf, need = self.held.pop(self.draw.randrange(len(self.held)))
            self.tree.hold(Demand(leaf, need), -1)
            self.tree.request(Demand(leaf, need), -1)
        elif (free := self._leaf()) is not None:
            need = self._need()
            self.held.append((free, need))
            self.tree.asks(need)
            self.tree.hold(Demand(free, need), 1)
            self.tree.request(Demand(free, need), 1)

    def _pop(self) -> None:
        self._fresh()
        expected = self._first()
        item = self.units.pop()
        assert item is expected, f"{_told(item)} came, not {_told(expected)}"
        if item is not None:
            leaf, _ = self.items.pop(id(item[2]))
            if self.draw.random() < 0.8:
                self.held.append((leaf, item[3]))
                self.tree.hold(Demand(leaf, item[3]), 1)
            else:
                self.tree.request(Demand(leaf, item[3]), -1)

    def _change(self) -> None:
        name = self.draw.choice(sorted(self.queues))
        changed = self._queue(name)
        if self.draw.random() < 0.5:
            changed = Queue(name, parent=self.queues[name].parent, resources=changed.resources)
        self._put(changed)

    def _come_or_go(self) -> None:
        if len(self.queues) > 2 and self.draw.random() < 0.5:
            name = self.draw.choice(sorted(self.queues))
            del self.queues[name]
            self._reshaped(self.tree.drop(name))
        else:
            self._put(self._queue(f"q{self.draw.randint(0, 12)}"))

    def _put(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self._reshaped(self.tree.put(queue))

    def _reshaped(self, names: set[str] | None) -> None:
        """Units of queues that take no pods any more may not be tried; what their pods hold counts elsewhere."""
        if names is None:
            self._build()
            return
        for leaf, item in list(self.items.values()):
            if self.tree.nodes.get(leaf.name) is not leaf or leaf.children:
                item[2].ticket = 0
                self.tree.request(Demand(leaf, item[3]), -1)
                del self.items[id(item[2])]
        for leaf, need in list(self.held):
            if self.tree.nodes.get(leaf.name) is not leaf or leaf.children:
                self.tree.hold(Demand(leaf, need), -1)
                self.tree.request(Demand(leaf, need), -1)
                self.held.remove((leaf, need))

    def _total(self) -> None:
        self.tree.divides([self.draw.randint(0, 40) for _ in self.tree.resources])
        self.tree.touched.update(self.tree.nodes.values())

    def _grow(self) -> None:
        if self.named == GPU and len(self.tree.resources) < 6:
            self.tree.index(f"example.com/r{len(self.tree.resources)}")
            self.tree.touched.update(self.tree.nodes.values())

    # --- the plain order ---

    def _fresh(self) -> None:
        self.tree.settle()
        if self.tree.reshaped:
            self.units.reshape()

    def _first(self) -> Item | None:
        """The unit that comes next."""
        firsts: dict[QueueNode, Item] = {}
        for leaf, item in self.items.values():
            if leaf not in firsts or item[:2] < firsts[leaf][:2]:
                firsts[leaf] = item

        def below(parent: QueueNode | None) -> Item | None:
            found = []
            for node in self.tree.nodes.values():
                if node.parent is parent:
                    item = below(node) if node.children else firsts.get(node)
                    if item is not None:
                        found.append((precedence(node, item[3], self.tree.total), item))
            return min(found, key=lambda each: each[0])[1] if found else None

        return below(None)

    def _check(self) -> None:
        self._fresh()
        expected, item = self._first(), self.units.peek()
        assert item is expected, f"{_told(item)} comes next, not {_told(expected)}"
        heads = self.units.heads()
        assert set(map(id, heads.values())) <= self.items.keys()
        assert heads.keys() == {leaf for leaf, _ in self.items.values()}
        assert sorted(map(id, self.units.rest())) == sorted(self.items)


def _told(item: Item | None) -> str:
    return "nothing" if item is None else f"{item[0]} of ticket {item[1]}"


@pytest.mark.parametrize("part", range(4))
def test_units_come_in_the_order_of_plain_loops(part: int) -> None:
    for seed in range(part, STORIES, 4):
        try:
            Story(seed).tell()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
