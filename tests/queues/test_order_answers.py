"""Which queue comes before that of a waiting pod, and by which rule."""

from __future__ import annotations

import pytest

from moorage.core.queueorder import deciding_rule, precedence
from moorage.core.queues import Queue
from moorage.core.queuetree import Demand, QueueTree
from moorage.engine.queueanswers import order_lines
from tests.queues.teams import Teams, make_queue, team_pod

FIRST, SECOND = make_queue("b"), make_queue("a")


@pytest.mark.parametrize(
    ("first", "other", "held", "want"),
    [
        (make_queue("b", 4), SECOND, (0, 0), "with its next pods it stays within its quota"),
        (make_queue("b", priority=200), SECOND, (0, 0), "its priority is higher"),
        (FIRST, SECOND, (1, 3), "its dominant share would be smaller, 50% against 100%"),
        (FIRST, make_queue("c"), (1, 1), "it may have less, is older, or has the name that comes first"),
    ],
    ids=["quota", "priority", "dominant share", "name"],
)
def test_the_rule_is_named(first: Queue, other: Queue, held: tuple[int, int], want: str) -> None:
    """The first rule that tells two queues apart."""
    tree = QueueTree()
    tree.build({each.name: each for each in (first, other)})
    tree.divides([0, 0, 8000])
    for queue, amount in zip((first, other), held, strict=True):
        node = tree.nodes[queue.name]
        tree.request(Demand(node, ((2, 9000),)), 1)
        tree.hold(Demand(node, ((2, 1000 * amount),)), 1)
    tree.settle()
    places = [precedence(tree.nodes[each.name], ((2, 1000),), tree.total) for each in (first, other)]
    assert places[0] < places[1]
    assert deciding_rule(*places) == want


def test_whoever_comes_first_is_named() -> None:
    """Another queue at the level where it does, and jobs of the same queue."""
    teams = Teams(make_queue("d", 1), make_queue("a", parent="d"), make_queue("b", 9))
    teams.see(team_pod("full", "", 4))
    waiting = [team_pod("a0", "a", 2), team_pod("a1", "a", 2, created_s=1.0), team_pod("b0", "b", 2)]
    teams.see(*waiting)
    assert list(order_lines(teams.engine, waiting[1])) == [
        "queue b comes before queue d: with its next pods it stays within its quota",
        "of queue a, 1 job comes before it, by priority and age",
    ]
    assert list(order_lines(teams.engine, waiting[2])) == []
    assert list(order_lines(teams.engine, team_pod("none", "", 2))) == []
