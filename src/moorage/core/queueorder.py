"""Which queue is served next, and which one gives something back first.

Both follow one order: `precedence` of a queue with the next pods that it would start, and `victim_precedence` with the
next ones that it would lose, read backwards. All numbers are exact, and equal divisions give equal floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.core.fairshare import UNLIMITED
from moorage.core.queuetree import Amounts, QueueNode

Precedence = tuple[object, ...]
"""The smallest comes first."""
_BEYOND = 1000
"""How much worse it is to use something of which a queue may have nothing."""


def precedence(node: QueueNode, need: Amounts, total: Sequence[int]) -> Precedence:
    """The place of a queue among its siblings if its next pods need so much; `total` is what the cluster has.

    1. Queues beyond their share in everything come last. 2. First those that stay within their quota. 3. The higher
    priority. 4. Last those that would use what they may not have at all. 5. The smaller dominant share, with the next
    pods and 6. without them. 7. The smaller claim. 8. The older queue.
    """
    with_need = list(node.allocated)
    for index, amount in need:
        with_need[index] += amount
    return _precedence(node, need, with_need, total)


def victim_precedence(node: QueueNode, taken: Sequence[int], unit: Amounts, total: Sequence[int]) -> Precedence:
    """The same for a queue that has lost `taken` and would lose `unit` next: the largest gives first."""
    left = [have - gone for have, gone in zip(node.allocated, taken, strict=True)]
    for index, amount in unit:
        left[index] -= amount
    return _precedence(node, (), left, total)


def _precedence(node: QueueNode, need: Amounts, amounts: Sequence[int], total: Sequence[int]) -> Precedence:
    over = starved = True
    with_need = without = 0.0
    limits = node.allocatable
    for index, have in enumerate(node.allocated):  # one loop, as this is asked for every decision at every level
        amount, may_have = amounts[index], limits[index]
        of = total[index] if may_have >= UNLIMITED else may_have
        over = over and have > node.share[index]
        starved = starved and amount <= node.quota[index]
        part = amount / of if of else float(amount * _BEYOND)
        with_need = max(with_need, part)
        part = have / of if of else float(have * _BEYOND)
        without = max(without, part)
    useless = 0 in limits and any(not limits[index] for index, _ in need)
    queue = node.queue
    rank = (over, not starved, -queue.priority, useless, with_need, without)
    return (*rank, tuple(limits), queue.created_s, node.name)


def dominant_share(amounts: Sequence[int], allocatable: Sequence[int], total: Sequence[int]) -> float:
    """The largest part that these amounts are of what a queue may have of a resource."""
    most = 0.0
    for amount, may_have, whole in zip(amounts, allocatable, total, strict=True):
        of = whole if may_have >= UNLIMITED else may_have
        most = max(most, amount / of if of else float(amount * _BEYOND))
    return most


def within(amounts: Iterable[int], need: Amounts, bounds: Sequence[int]) -> bool:
    """Whether these amounts and what is needed are within the bounds, in all resources."""
    more = dict(need)
    return all(amount + more.get(index, 0) <= bounds[index] for index, amount in enumerate(amounts))


def shortage(leaf: QueueNode, need: Amounts, *, preemptible: bool) -> tuple[QueueNode, int, bool] | None:
    """The queue of the path, and the resource, whose limit keeps pods from starting; True if it is the quota.

    Pods that may not be evicted must stay within the quota at every level.
    """
    for node in leaf.path:
        for index, amount in need:
            if node.allocated[index] + amount > node.limit[index]:
                return node, index, False
            if not preemptible and node.fixed[index] + amount > node.quota[index]:
                return node, index, True
    return None
