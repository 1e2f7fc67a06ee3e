"""What nodes could offer at most: what is free, and what may be taken from them. Most searches in vain end here.

A search for victims tries one set after another, each with all filters. Before that, amounts say for which claimants
there can be no solution, in microseconds: no node would have enough for them with everything gone that may go, or their
queue may take nothing. Wherever amounts do not decide, the answer is that it may be possible.

What may go is overestimated: pods that are too young, on their way to nodes or protected by budgets count. So where
nothing can be done, nothing can when only time passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.columns import Vector
from moorage.core.queueorder import shortage, within
from moorage.core.queuetree import Amounts, QueueNode
from moorage.core.reclaiming import may_reclaim, parting
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.askedamounts import Asked
from moorage.engine.packings import PartCounts
from moorage.engine.roomparts import Claimant
from moorage.engine.sharing import Sharing

Way = Callable[[Claimant, Sequence[Asked] | None], bool]
"""Whether a way could help a claimant, whose pods ask for these amounts; None if that is not known."""


@dataclass(slots=True, eq=False)
class _Group:
    """Victims that are alike."""

    leaf: QueueNode
    priority: int
    vector: Vector
    places: list[int] = field(default_factory=list)
    """Where they are, by place in the arrays."""

    def spread(self, width: int) -> Ints:
        """How many there are on each row."""
        return np.bincount(np.array(self.places, dtype=np.intp), minlength=width)


class _Offer:
    """What all rows offer: int64[columns, rows]."""

    def __init__(self, amounts: Ints) -> None:
        self.amounts = amounts
        self._most: list[int] = amounts.max(axis=1, initial=0).tolist()
        self._known: dict[tuple[Asked, int], bool] = {}

    def holds(self, asked: Asked, count: int) -> bool:
        """Whether there could be room for so many pods that ask for the same."""
        most = self._most
        for column, amount in asked:
            if amount > most[column]:
                return False
        found = self._known.get((asked, count))
        if found is None:
            found = self._known[asked, count] = self._count(asked) >= count
        return found

    def _count(self, asked: Asked) -> int:
        times: Ints | None = None
        for column, amount in asked:
            if amount > 0:
                fits: Ints = np.maximum(self.amounts[column], 0) // amount
                times = fits if times is None else np.minimum(times, fits)
        return 1 << 40 if times is None else sum(times.tolist())


class RoomOffers:
    """The offers of one state; whoever keeps it makes another one when that has changed."""

    def __init__(self, state: ClusterState, sharing: Sharing) -> None:
        self._state, self._sharing = state, sharing
        self._tree = state.queues.settle(state)
        rows, resources = state.rows(), state.resources
        self._width = len(rows)
        free: Ints = resources.allocatable[:, rows] - resources.requested[:, rows]
        self._free = _Offer(free)
        self._sums: list[int] = free.clip(0).sum(axis=1).tolist()
        self._tied: Mask = np.zeros(self._width, dtype=bool)
        """Rows with members of gangs: what else these free is not known."""
        self._groups = self._find_groups(rows)
        self._offers: dict[object, _Offer] = {}
        self._takers: dict[tuple[QueueNode, tuple[bool, ...]], frozenset[QueueNode]] = {}
        self.ways: dict[str, Way] = {
            "_promise": self.promise, "_consolidate": self.consolidate,
            "_reclaim": self.reclaim, "_preempt": self.preempt,
        }  # fmt: skip
        """The ways of a round by the names that they have there."""
        self._packings: dict[int, PartCounts] = {}
        """Whether all that may move has room beside others, by column."""
        self._lowest: dict[QueueNode, int] = {}
        for group in self._groups:
            self._lowest[group.leaf] = min(self._lowest.get(group.leaf, group.priority), group.priority)

    def _find_groups(self, rows: Rows) -> list[_Group]:
        place_of = {row: place for place, row in enumerate(rows.tolist())}
        state, found, tied = self._state, dict[object, _Group](), set[int]()
        for pod, member, holds in state.queues.entries():
            if not holds or member.leaf is None or not member.preemptible:
                continue
            record = state.record(pod.uid)
            place = None if record is None else place_of.get(record.row)
            if record is None or place is None:
                continue
            gang = pod.template.gang
            if gang is not None:
                tied.add(place)
            key = member.leaf, gang, id(pod.template), id(record.vector)
            group = found.get(key)
            if group is None:
                priority = -int(self._sharing.pod_key(pod)[0])
                group = found[key] = _Group(member.leaf, priority, record.vector)
            group.places.append(place)
        self._tied[list(tied)] = True
        return list(found.values())

    # --- the ways ---

    def helps(self, claimant: Claimant, asked: Sequence[Asked] | None) -> bool:
        """Whether any way could help."""
        return any(way(claimant, asked) for way in self.ways.values())

    def promise(self, claimant: Claimant, asked: Sequence[Asked] | None) -> bool:
        """Whether there may be room as it is."""
        if self._short(claimant) is not None:
            return False
        return asked is None or _holds(self._free, asked)

    def consolidate(self, claimant: Claimant, asked: Sequence[Asked] | None) -> bool:
        """Whether there may be if others move."""
        if not claimant.preemptible or self._short(claimant) is not None:
            return False
        if asked is None:
            return True
        if not self._suffices(asked):
            return False
        offer = self._offer(("move", len(asked) > 1), self._groups, frozenset(), lone=len(asked) == 1)
        return _holds(offer, asked) and self._all_stay(asked)

    def reclaim(self, claimant: Claimant, asked: Sequence[Asked] | None) -> bool:
        """Whether other leaves may have to give enough."""
        leaf = claimant.leaf
        if not may_reclaim(leaf, claimant.need, preemptible=claimant.preemptible):
            return False
        short, givers = self._short(claimant), self._givers(leaf, claimant.need)
        if short is not None:
            return any(short in each.path for each in givers)
        if asked is None:
            return any(each is not leaf for each in self._lowest)  # with nobody who gives, some may still move
        lone = len(asked) == 1
        offer = self._offers.get((leaf, givers, lone))
        if offer is None:
            others = [group for group in self._groups if group.leaf is not leaf]
            offer = self._offer((leaf, givers, lone), others, givers, lone=lone)
        return _holds(offer, asked)

    def preempt(self, claimant: Claimant, asked: Sequence[Asked] | None) -> bool:
        """Whether less important pods of the same leaf have enough."""
        leaf, priority = claimant.leaf, claimant.priority
        if self._lowest.get(leaf, priority) >= priority:
            return False
        if not claimant.preemptible and not all(within(n.fixed, claimant.need, n.quota) for n in leaf.path):
            return False
        if asked is None or self._short(claimant) is not None:
            return True
        offer = self._offers.get((leaf, priority))
        if offer is None:
            lower = [group for group in self._groups if group.leaf is leaf and group.priority < priority]
            offer = self._offer((leaf, priority), lower, frozenset({leaf}), lone=False)
        return _holds(offer, asked)

    # --- amounts ---

    def _short(self, claimant: Claimant) -> QueueNode | None:
        """The queue whose limit, or quota for pods that may not be evicted, is too small for the claimant."""
        found = shortage(claimant.leaf, claimant.need, preemptible=claimant.preemptible)
        return None if found is None else found[0]

    def _suffices(self, asked: Iterable[Asked]) -> bool:
        """Whether all rows together have enough free."""
        sums = dict[int, int]()
        for each in asked:
            for column, amount in each:
                sums[column] = sums.get(column, 0) + amount
        return all(amount <= self._sums[column] for column, amount in sums.items())

    def _givers(self, leaf: QueueNode, need: Amounts) -> frozenset[QueueNode]:
        """Leaves that may have to give something: what is not allowed for the first pod is not for any other."""
        lawful = tuple(within(node.allocated, need, node.quota) for node in leaf.path)
        found = self._takers.get((leaf, lawful))
        if found is None:
            within_quota = dict(zip(leaf.path, lawful, strict=True))
            found = frozenset(
                each for each in self._lowest if each is not leaf and _gives(*parting(leaf, each), within_quota)
            )
            self._takers[leaf, lawful] = found
        return found

    def _offer(self, key: object, groups: Sequence[_Group], givers: frozenset[QueueNode], *, lone: bool) -> _Offer:
        """What is free, what givers have, and what others have that could go elsewhere; `lone`: that only one row is
        cleared, so that they have to fit into what is free on others.
        """
        found = self._offers.get(key)
        if found is None:
            amounts = self._free.amounts.copy()
            for group in groups:
                count = group.spread(self._width)
                if lone and group.leaf not in givers:
                    count = np.where(self._tied | self._elsewhere(group.vector), count, 0)
                for column, amount in group.vector.pairs:
                    amounts[column] += amount * count
            found = self._offers[key] = _Offer(amounts)
        return found

    def _elsewhere(self, vector: Vector) -> Mask:
        """Rows from which such a pod could go to another one."""
        fits: Mask = np.ones(self._width, dtype=bool)
        for column, amount in vector.pairs:
            fits &= self._free.amounts[column] >= amount
        count = np.count_nonzero(fits)
        return np.full(self._width, fill_value=count > 1) if count != 1 else ~fits

    def _all_stay(self, asked: Sequence[Asked]) -> bool:
        """Whether rows could hold all pods that may move, and these, as far as can be told from each resource alone."""
        pieces: dict[int, list[int]] = {}
        for each in asked:
            for column, amount in each:
                if amount > 0:
                    pieces.setdefault(column, []).append(amount)
        return all(self._packs(column, amounts) for column, amounts in pieces.items())

    def _packs(self, column: int, amounts: Sequence[int]) -> bool:
        packing = self._packings.get(column)
        if packing is None:
            whole = self._offer("all", self._groups, frozenset(), lone=False).amounts[column]
            found: Counter[int] = Counter()
            for group in self._groups:
                found[dict(group.vector.pairs).get(column, 0)] += len(group.places)
            exact = self._free.amounts[column].min(initial=0) >= 0  # rows that hold too much may keep it
            packing = self._packings[column] = PartCounts(whole, found) if exact else PartCounts(whole, {})
        return packing.holds(amounts)


def _holds(offer: _Offer, asked: Sequence[Asked]) -> bool:
    if len(asked) == 1:
        return offer.holds(asked[0], 1)
    counts: dict[Asked, int] = {}
    for each in asked:
        counts[each] = counts.get(each, 0) + 1
    return all(offer.holds(each, count) for each, count in counts.items())


def _gives(taker: QueueNode, giver: QueueNode, within_quota: dict[QueueNode, bool]) -> bool:
    have = giver.allocated
    if any(amount > giver.allocatable[index] for index, amount in enumerate(have)):
        return True
    return within_quota[taker] and any(amount > quota for amount, quota in zip(have, giver.quota, strict=True))
