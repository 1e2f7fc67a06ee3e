"""Which queue is served next, and which one gives something back first.

Both follow one order: `precedence` of a queue with the next pods that it would start, and `victim_precedence` with the
next ones that it would lose, read backwards. All numbers are exact, and equal divisions give equal floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from moorage.core.fairshare import UNLIMITED
from moorage.core.queues import DEFAULT_PRIORITY
from moorage.core.queuetree import Amounts, OrderTerms, QueueNode

Precedence = tuple[int, float, float, bytes]
"""The smallest comes first: rules 1 to 4 in one number, 5, 6, and the rest as bytes, as each is compared very often."""
_OVER, _FED = 1 << 66, 1 << 65
"""Beyond its share; not within its quota. Priorities are far smaller."""
_AMOUNT_BYTES = 16
_PAIR = 2
"""Cpu and memory, which are the first two resources."""
_BEYOND = 1000
"""How much worse it is to use something of which a queue may have nothing."""


def precedence(node: QueueNode, need: Amounts, total: Sequence[int]) -> Precedence:
    """The place of a queue among its siblings if its next pods need so much; `total` is what the cluster has.

    1. Queues beyond their share in everything come last. 2. First those that stay within their quota. 3. The higher
    priority. 4. Last those that would use what they may not have at all. 5. The smaller dominant share, with the next
    pods and 6. without them. 7. The smaller claim. 8. The older queue.
    """
    terms = node.terms
    if terms is None or terms[0] is not total:
        terms = _terms(node, total)
    (
        _, _, rank, tie, pair, allocated,
        cpu_share, cpu_quota, all_cpu, memory_share, memory_quota, all_memory,
    ) = terms  # fmt: skip
    if len(need) != pair:
        amounts = node.allocated.copy()
        for index, amount in need:
            amounts[index] += amount
        return _precedence(node, need, amounts, total)
    # Cpu and memory alone, as is usual: written out, as this is asked for every decision at every level.
    cpu, memory = allocated
    (_, more_cpu), (_, more_memory) = need
    part, other = cpu / all_cpu, memory / all_memory
    without = part if part > other else other  # noqa: FURB136 - a call takes longer than all of this
    if cpu > cpu_share and memory > memory_share:
        rank += _OVER
    cpu += more_cpu
    memory += more_memory
    if cpu > cpu_quota or memory > memory_quota:
        rank += _FED
    part, other = cpu / all_cpu, memory / all_memory
    return rank, part if part > other else other, without, tie  # noqa: FURB136


def _terms(node: QueueNode, total: Sequence[int]) -> OrderTerms:
    limits, queue = node.allocatable, node.queue
    wholes = [whole if may_have >= UNLIMITED else may_have for may_have, whole in zip(limits, total, strict=True)]
    pair = _PAIR if len(limits) == _PAIR and all(wholes) and all(limits) else -1
    amounts = b"".join(each.to_bytes(_AMOUNT_BYTES, "big") for each in limits)
    tie = amounts + pack(">d", max(queue.created_s, 0.0)) + node.name.encode()
    bounds = tuple(zip(node.share, node.quota, wholes, strict=True))
    rank = 2 * (DEFAULT_PRIORITY - queue.priority)
    node.terms = terms = OrderTerms(total, bounds, rank, tie, pair, node.allocated, *bounds[0], *bounds[1])
    return terms


def victim_precedence(node: QueueNode, taken: Sequence[int], job: Amounts, total: Sequence[int]) -> Precedence:
    """The same for a queue that has lost `taken` and would lose this job next: the largest gives first."""
    left = [have - gone for have, gone in zip(node.allocated, taken, strict=True)]
    for index, amount in job:
        left[index] -= amount
    return _precedence(node, (), left, total)


def _precedence(node: QueueNode, need: Amounts, amounts: Sequence[int], total: Sequence[int]) -> Precedence:
    known = node.terms
    if known is None or known.total is not total:
        known = _terms(node, total)
    over, fed = _OVER, 0
    with_need = without = 0.0
    for have, amount, (share, quota, of) in zip(node.allocated, amounts, known.bounds, strict=True):
        if have <= share:
            over = 0
        if amount > quota:
            fed = _FED
        without = max(without, have / of if of else float(have * _BEYOND))
        with_need = max(with_need, amount / of if of else float(amount * _BEYOND))
    limits = node.allocatable
    useless = not all(limits) and any(not limits[index] for index, _ in need)
    return over + fed + known.rank + useless, with_need, without, known.tie


def deciding_rule(first: Precedence, other: Precedence) -> str:
    """Why the queue with the first place comes before the other one: the first rule that tells them apart."""
    said = (
        "it is not beyond its share in everything",
        "with its next pods it stays within its quota",
        "its priority is higher",
        "it needs nothing of which it may have none",
    )
    for words, mine, theirs in zip(said, _rules(first[0]), _rules(other[0]), strict=True):
        if mine != theirs:
            return words
    for word, part, others in (("would be", first[1], other[1]), ("is", first[2], other[2])):
        if part != others:
            return f"its dominant share {word} smaller, {_share(part)} against {_share(others)}"
    return "it may have less, is older, or has the name that comes first"


def _share(part: float) -> str:
    """A dominant share; one beyond what a queue may have at all has no meaningful number."""
    return f"{part:.0%}" if part < _BEYOND else "more than it may have"


def _rules(rank: int) -> tuple[bool, bool, int, bool]:
    """Rules 1 to 4 of the number that stands for them."""
    flags = (rank + _FED // 2) // _FED
    rest = rank - flags * _FED
    return bool(flags & 2), bool(flags & 1), -(rest // 2), bool(rest & 1)


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
    asked = dict(need)
    for node in leaf.path:
        for index, most in node.caps:
            if index in asked and node.allocated[index] + asked[index] > most:
                return node, index, False
        for index, amount in () if preemptible else need:
            if node.fixed[index] + amount > node.quota[index]:
                return node, index, True
    return None
