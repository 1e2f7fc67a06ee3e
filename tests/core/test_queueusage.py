"""What queues used lately: samples over a window, with a half-life, and the shares that follow."""

from __future__ import annotations

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.queues import Queue, ResourceShare
from moorage.core.queuetree import Demand, QueueTree
from moorage.core.queueusage import SAMPLES, UsageRecord, UsageTerms

GPU = "nvidia.com/gpu"


def make_tree(*names: str, total: int = 16, quota: int = 0) -> QueueTree:
    """Queues with equal weights that ask for everything."""
    tree = QueueTree()
    tree.build({name: Queue(name, resources=FrozenDict({GPU: ResourceShare(1000 * quota)})) for name in names})
    index = tree.resources.index(GPU)
    tree.divides([1000 * total if each == index else 0 for each in range(len(tree.resources))])
    for name in names:
        tree.request(Demand(tree.nodes[name], ((index, 1000 * total),)), 1)
    tree.settle()
    return tree


def hold(tree: QueueTree, name: str, gpus: int) -> None:
    tree.hold(Demand(tree.nodes[name], ((tree.resources.index(GPU), 1000 * gpus),)), 1)


def shares(tree: QueueTree) -> dict[str, int]:
    tree.settle()
    return {name: node.share[tree.resources.index(GPU)] // 1000 for name, node in tree.nodes.items()}


def test_the_share_follows_from_what_was_used() -> None:
    """Sixteen GPUs, of which one queue used 60 % and another one 10 %, are divided 5 to 11."""
    tree = make_tree("a", "b")
    assert shares(tree) == {"a": 8, "b": 8}
    tree.used(1000, {"a": {GPU: 600_000}, "b": {GPU: 100_000}})
    assert shares(tree) == {"a": 5, "b": 11}
    tree.used(0, {})
    assert shares(tree) == {"a": 8, "b": 8}


def test_quotas_come_first_as_ever() -> None:
    tree = make_tree("a", "b", quota=8)
    tree.used(1000, {"a": {GPU: 900_000}})
    assert shares(tree) == {"a": 8, "b": 8}


@pytest.mark.parametrize(
    ("half_life_s", "expected"),
    [
        pytest.param(0.0, 500_000, id="all of it counts alike"),
        pytest.param(1200.0, 333_333, id="the older half counts half as much"),
    ],
)
def test_what_is_older_counts_less(half_life_s: float, expected: int) -> None:
    """A queue held everything for twenty minutes, and nothing for the next twenty."""
    tree, record = make_tree("a"), UsageRecord()
    record.follow(UsageTerms(1000, half_life_s, 36_000.0))
    hold(tree, "a", 16)
    record.take(tree, 0.0)
    record.take(tree, 1200.0)
    hold(tree, "a", -16)
    record.take(tree, 2400.0)
    assert record.usage() == {"a": {GPU: expected}}


def test_what_was_before_the_window_is_forgotten() -> None:
    tree, record = make_tree("a"), UsageRecord()
    record.follow(UsageTerms(1000, 0.0, 480.0))
    hold(tree, "a", 16)
    for now in range(0, 481, 10):
        record.take(tree, float(now))
    hold(tree, "a", -16)
    for now in range(490, 961, 10):
        record.take(tree, float(now))
        assert len(record.samples) <= SAMPLES + 1
    assert record.usage() == {}


def test_a_record_that_is_not_asked_for_takes_no_samples() -> None:
    record = UsageRecord()
    assert (record.due(1e9), record.next_s) == (False, None)
    record.follow(UsageTerms(1, 0.0, 480.0))
    assert record.due(0.0)
    record.take(make_tree("a"), 0.0)
    assert [now for now in (9.0, 10.0) if record.due(now)] == [10.0]
    assert record.next_s == 10.0
    record.follow(UsageTerms())
    assert record.samples == []
