"""What one queue may take from others: the rules, over the tree of queues as it was before anything is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from moorage.core.frozen import FrozenDict
from moorage.core.queueorder import within
from moorage.core.queuetree import Amounts, QueueNode

NOW: Mapping[QueueNode, Sequence[int]] = FrozenDict()
"""What queues have is what they had before."""


class Loss(NamedTuple):
    """What a leaf loses at once: one pod of a job above its minimum, or all of it."""

    leaf: QueueNode
    amounts: Amounts


def may_reclaim(leaf: QueueNode, need: Amounts, *, preemptible: bool) -> bool:
    """Whether a leaf may take so much from others at all: it stays within its share, and a job that may not be evicted
    within the quota.
    """
    return within(leaf.allocated, need, leaf.share) and (preemptible or within(leaf.fixed, need, leaf.quota))


def allowed(
    leaf: QueueNode,
    need: Amounts,
    losses: Sequence[Loss],
    multiplier: float,
    *,
    preemptible: bool,
    before: Mapping[QueueNode, Sequence[int]] = NOW,
) -> bool:
    """Whether a leaf may take these from others; `before` is what queues had if that is not what they have now."""
    if not preemptible and not all(within(node.fixed, need, node.quota) for node in leaf.path):
        return False
    kept = _Kept(before)
    for loss in losses:
        taker, giver = parting(leaf, loss.leaf)
        have = kept.of(giver)
        beyond = any(amount > giver.allocatable[index] for index, amount in enumerate(have))
        if not beyond:
            above_quota = any(amount > quota for amount, quota in zip(have, giver.quota, strict=True))
            if not (above_quota and within(before.get(taker, taker.allocated), need, taker.quota)):
                return False
        kept.lose(loss)
    touched = {index for loss in losses for index, _ in loss.amounts} | {index for index, _ in need}
    return all(_stays_behind(node, need, kept, touched, multiplier) for node in leaf.path)


def parting(one: QueueNode, other: QueueNode) -> tuple[QueueNode, QueueNode]:
    """The two different siblings on the paths of two leaves."""
    for mine, theirs in zip(reversed(one.path), reversed(other.path), strict=False):
        if mine is not theirs:
            return mine, theirs
    return one, other


class _Kept:
    """What queues have left."""

    def __init__(self, before: Mapping[QueueNode, Sequence[int]]) -> None:
        self._before = before
        self.amounts: dict[QueueNode, list[int]] = {}

    def of(self, node: QueueNode) -> Sequence[int]:
        found = self.amounts.get(node)
        return self._before.get(node, node.allocated) if found is None else found

    def lose(self, loss: Loss) -> None:
        for node in loss.leaf.path:
            left = self.amounts.get(node)
            if left is None:
                left = self.amounts[node] = list(self.of(node))
            for index, amount in loss.amounts:
                left[index] -= amount


def _stays_behind(node: QueueNode, need: Amounts, kept: _Kept, touched: Iterable[int], multiplier: float) -> bool:
    """Whether a queue that goes beyond its share stays less far beyond it than each sibling that lost something."""
    more = dict(need)
    siblings = [each for each in kept.amounts if each.parent is node.parent and each is not node]
    for index in touched if siblings else ():
        mine = _part(kept.of(node)[index] + more.get(index, 0), node.share[index])
        for other in siblings:
            theirs = _part(kept.of(other)[index], other.share[index])
            if mine > 1 and other.share[index] > 0 and mine * multiplier >= theirs:
                return False
    return True


def _part(amount: int, share: int) -> float:
    if share:
        return amount / share
    return inf if amount else 0.0
