"""The queue is ordered by priority, then by time."""

from __future__ import annotations

from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import check_plugin, make_pod


def test_higher_priority_comes_first_then_the_earlier_one() -> None:
    """Sorting by the keys gives kube-scheduler's order; negative priorities come last."""
    waiting = [
        ("late", 10, 5.0),
        ("low", -1, 0.0),
        ("early", 10, 1.0),
        ("urgent", 2_000_000_000, 9.0),
        ("plain", 0, 2.0),
    ]
    plugin = PrioritySort()
    in_order = sorted(waiting, key=lambda each: plugin.queue_key(make_pod(each[0], priority=each[1]), each[2]))
    assert [name for name, _, _ in in_order] == ["urgent", "early", "late", "plain", "low"]


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(PrioritySort)
