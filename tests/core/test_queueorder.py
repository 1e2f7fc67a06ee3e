"""The place of a queue among its siblings, against the rules in plain words."""

from __future__ import annotations

import random

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.queueorder import precedence
from moorage.core.queues import Queue, ResourceShare
from moorage.core.queuetree import Amounts, Demand, QueueNode, QueueTree
from moorage.core.resources import CPU, MEMORY

GPU = "nvidia.com/gpu"
UNLIMITED = 1 << 100


def rules(node: QueueNode, need: Amounts, total: list[int]) -> tuple[object, ...]:
    """Rules 1 to 8 as `precedence` words them; the first that differs decides."""
    amounts = list(node.allocated)
    for index, amount in need:
        amounts[index] += amount
    every = range(len(total))
    over = all(node.allocated[index] > node.share[index] for index in every)
    fed = any(amounts[index] > node.quota[index] for index in every)
    useless = any(not node.allocatable[index] for index, _ in need)
    wholes = [total[index] if node.allocatable[index] >= UNLIMITED else node.allocatable[index] for index in every]
    parts = [
        max(amount / whole if whole else 1000.0 * amount for amount, whole in zip(held, wholes, strict=True))
        for held in (amounts, node.allocated)
    ]
    return over, fed, -node.queue.priority, useless, *parts, list(node.allocatable), node.queue.created_s, node.name


@pytest.mark.parametrize("named", [(CPU, MEMORY), (CPU,), (CPU, GPU)])
def test_places_follow_the_rules(named: tuple[str, ...]) -> None:
    """Any two queues stand to each other as the rules say, whichever resources count."""
    draw = random.Random(len(named) + len(named[-1]))
    found, seen = 0, 0
    for _ in range(300):
        tree = QueueTree()
        tree.build({f"q{number}": queue_of(f"q{number}", named, draw) for number in range(4)})
        tree.divides([draw.randint(0, 12) for _ in tree.resources])
        needs = {}
        for node in tree.nodes.values():
            every = range(len(tree.resources))
            needs[node] = tuple((index, draw.randint(1, 3)) for index in every if draw.random() < 0.9)
            held = tuple((index, draw.randint(1, 5)) for index in every if draw.random() < 0.9)
            tree.hold(Demand(node, held), 1)
            tree.request(Demand(node, (*held, *needs[node])), 1)
        tree.settle()
        for node, need in needs.items():
            for other, theirs in needs.items():
                mine = rules(node, need, tree.total) < rules(other, theirs, tree.total)
                assert (precedence(node, need, tree.total) < precedence(other, theirs, tree.total)) is mine
                found, seen = found + mine, seen + 1
    assert 0 < found < seen


def queue_of(name: str, named: tuple[str, ...], draw: random.Random) -> Queue:
    """A queue with terms at random, often those of others."""
    shares = {
        each: ResourceShare(draw.choice([0, 2, 4, UNLIMITED]), 1000 * draw.randint(0, 1), draw.choice([UNLIMITED, 5]))
        for each in named
    }
    priority = draw.choice([100, 100, 99, 2**31 - 1, -(2**31)])
    return Queue(name, priority=priority, resources=FrozenDict(shares), created_s=float(draw.randint(0, 1)))
