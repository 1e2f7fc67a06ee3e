"""Which queue is served next, and which one gives something back first.

Both follow one order: `precedence` of a queue with the next pods that it would start, and `victim_precedence` with the
next ones that it would lose, read backwards. All numbers are exact, and equal divisions give equal floats.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from struct import pack
from typing import Any

from moorage.core.fairshare import UNLIMITED
from moorage.core.queues import DEFAULT_PRIORITY
from moorage.core.queuetree import PAIR, Amounts, OrderTerms, QueueNode

Precedence = tuple[int, float, float, bytes]
"""The smallest comes first: rules 1 to 4 in one number, 5, 6, and the rest as bytes, as each is compared very often."""
_OVER, _FED = 1 << 66, 1 << 65
"""Beyond its share; not within its quota. Priorities are far smaller."""
_AMOUNT_BYTES = 16
_MUCH = 10
"""Larger dominant shares are not told apart in words."""
_BEYOND = 1000
"""How much worse it is to use something of which a queue may have nothing."""


def precedence(node: QueueNode, need: Amounts, total: Sequence[int]) -> Precedence:
    """The place of a queue among its siblings if its next pods need so much; `total` is what the cluster has.

    1. Queues beyond their share in everything come last. 2. First those that stay within their quota. 3. The higher
    priority. 4. Last those that would use what they may not have at all. 5. The smaller dominant share, with the next
    pods and 6. without them. 7. The smaller claim. 8. The older queue.
    """
    amounts = node.allocated.copy()
    for index, amount in need:
        amounts[index] += amount
    return _precedence(node, need, amounts, total)


class Sibling:
    """A queue among its siblings, by what would start next below it; None as a queue is what is above all."""

    __slots__ = ("below", "entry", "node", "parent")

    def __init__(self, node: QueueNode | None, parent: Sibling | None) -> None:
        self.node = node
        self.parent = parent
        self.below: list[Entry] = []
        """The queues below it of which something could start, in order."""
        self.entry: Entry | None = None
        """What stands for it among its siblings; None if nothing could start."""

    def enter(self, entry: Entry | None) -> None:
        """This stands for it from now on, or nothing does."""
        known, self.entry = self.entry, entry
        if self.parent is None:
            return
        below = self.parent.below
        if known is not None:
            del below[bisect_left(below, known)]
        if entry is not None:
            insort(below, entry)


NextUnit = tuple[Any, Any, Any, Amounts, Any]
"""What would start next of a leaf: the caller's, but for what it needs."""
Entry = tuple[int, float, float, bytes, Any, Any, Any]
"""The place of a queue (`Precedence`), its `Sibling`, what would start next below it (`NextUnit`), and the `Sibling` of
the leaf of that. Flat, as entries are compared very often. No two queues have the same place, so that only entries of
one are told apart by more.
"""


def climb(leaf: Sibling, start: NextUnit, total: Sequence[int]) -> Entry | None:
    """The first of the topmost queues, now that the leaf that was first may have got something and this would start
    next there: all places above it are computed again. None if it was not the first of all; then they are not.

    In one piece, with `precedence` of cpu and memory alone written out, as this is done for every decision.
    """
    best, place, first, parent = leaf.entry, leaf, leaf, leaf.parent
    while parent is not None:
        below, node, need = parent.below, place.node, start[3]
        if node is None or below[0] is not place.entry:
            return None
        pair = node.pair
        if pair is None or len(need) != PAIR:
            place.entry = entry = (*precedence(node, need, total), place, start, first)
        else:
            rank, tie, cpu_share, cpu_quota, all_cpu, memory_share, memory_quota, all_memory = pair
            cpu, memory = node.allocated
            (_, more_cpu), (_, more_memory) = need
            without = cpu / all_cpu
            if (part := memory / all_memory) > without:
                without = part
            if cpu > cpu_share and memory > memory_share:
                rank += _OVER
            cpu += more_cpu
            memory += more_memory
            if cpu > cpu_quota or memory > memory_quota:
                rank += _FED
            with_need = cpu / all_cpu
            if (part := memory / all_memory) > with_need:
                with_need = part
            place.entry = entry = rank, with_need, without, tie, place, start, first
        del below[0]
        if below and entry < below[-1]:
            insort(below, entry)
        else:  # as is usual: a queue that was served comes last
            below.append(entry)
        best = below[0]
        start, first = best[5], best[6]
        place, parent = parent, parent.parent
    return best


def _find_terms(node: QueueNode, total: Sequence[int]) -> OrderTerms:
    limits, queue = node.allocatable, node.queue
    wholes = [whole if may_have >= UNLIMITED else may_have for may_have, whole in zip(limits, total, strict=True)]
    amounts = b"".join(each.to_bytes(_AMOUNT_BYTES, "big") for each in limits)
    tie = amounts + pack(">d", max(queue.created_s, 0.0)) + node.name.encode()
    bounds = tuple(zip(node.share, node.quota, wholes, strict=True))
    rank = 2 * (DEFAULT_PRIORITY - queue.priority)
    node.terms = terms = OrderTerms(bounds, rank, tie)
    if len(limits) == PAIR and all(wholes) and all(limits):
        node.pair = rank, tie, *bounds[0], *bounds[1]
    return terms


def victim_precedence(node: QueueNode, taken: Sequence[int], job: Amounts, total: Sequence[int]) -> Precedence:
    """The same for a queue that has lost `taken` and would lose this job next: the largest gives first. Only its
    dominant share is what would be left: a queue within its quota does not give because it would be.
    """
    left = [have - gone for have, gone in zip(node.allocated, taken, strict=True)]
    for index, amount in job:
        left[index] -= amount
    rank, _, without, tie = _precedence(node, (), node.allocated, total)
    return rank, dominant_share(left, node.allocatable, total), without, tie


def _precedence(node: QueueNode, need: Amounts, amounts: Sequence[int], total: Sequence[int]) -> Precedence:
    known = node.terms or _find_terms(node, total)
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
            return f"its dominant share {word} smaller, {dominant_text(part)} against {dominant_text(others)}"
    return "it may have less, is older, or has the name that comes first"


def dominant_text(part: float) -> str:
    """A dominant share in percent; of a queue that has something of which it may have nothing, just a lot."""
    return f"{part:.0%}" if part < _MUCH else f">{_MUCH - 1:.0%}"


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
