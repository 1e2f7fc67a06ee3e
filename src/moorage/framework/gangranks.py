"""Which member of a role goes to which of the places that a plan gives the role: ranks in the order of paths.

Where members stand already, those that come are placed beside them: in the domain of their slice, of every layer; and
without slices beside the ones next in rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.gangtopology import rank_of
from moorage.core.packing import Layer
from moorage.framework.cycle import Cycle
from moorage.framework.gangquestions import AlikeMembers, GangQuestion

_NONE = -1
"""The rank of a member that has none."""


def rows_in_order(asked: GangQuestion, group: AlikeMembers, counts: Ints, number: int) -> Iterator[tuple[str, int]]:
    """Uid and row of each member of a group."""
    slots = np.repeat(np.arange(len(asked.rows)), counts).tolist()
    if not group.standing:
        chosen: Iterable[tuple[Cycle, int]] = zip(group.cycles, slots, strict=False)
    else:
        chosen = _Beside(asked, group).of(group.cycles, slots, asked.question.roles[number].layers)
    yield from ((cycle.pod.uid, int(asked.rows[slot])) for cycle, slot in chosen)


class _Beside:
    """Places beside the members that stand."""

    def __init__(self, asked: GangQuestion, group: AlikeMembers) -> None:
        self._domains: Rows = asked.question.offers.domains
        self._rank = _ranks(group)
        places = {int(row): place for place, row in enumerate(asked.rows.tolist())}
        ranked = ((self._rank(rank_of(each.pod.template)), each.row) for each in group.standing)
        self._standing = sorted((rank, places[row]) for rank, row in ranked if rank != _NONE and row in places)

    def of(self, cycles: Sequence[Cycle], slots: list[int], layers: Sequence[Layer]) -> Iterator[tuple[Cycle, int]]:
        """The slot of each member; `slots` are in the order of paths."""
        if not layers:
            yield from self._next_to(cycles, slots)
            return
        left, waiting = list(slots), list[list[Cycle]]()
        slices: dict[int, list[Cycle]] = {}
        for cycle in cycles:
            rank = self._rank_of(cycle)
            slices.setdefault(rank if rank == _NONE else rank // layers[0].size, []).append(cycle)
        for number, members in sorted(slices.items()):
            domain = self._domain_of(number, layers[0])
            if domain is None:
                waiting.append(members)
            else:
                yield from self._taken(members, left, domain, layers)
        for members in waiting:
            yield from self._taken(members, left, self._roomy(left, layers[0].level, len(members)), layers)

    def _taken(
        self, members: Sequence[Cycle], left: list[int], domain: int, layers: Sequence[Layer]
    ) -> Iterator[tuple[Cycle, int]]:
        """The members of one slice in a domain, or wherever there are slots left if it has too few."""
        level = self._domains[layers[0].level]
        chosen = sorted(left, key=lambda slot: (level[slot] != domain, slot))[: len(members)]
        for slot in chosen:
            left.remove(slot)
        yield from self.of(members, sorted(chosen), layers[1:])

    def _domain_of(self, number: int, layer: Layer) -> int | None:
        """The domain in which members of a slice stand."""
        mates = (place for rank, place in self._standing if number != _NONE and rank // layer.size == number)
        return next((int(self._domains[layer.level][place]) for place in mates), None)

    def _roomy(self, left: Sequence[int], level: int, count: int) -> int:
        """The first domain with so many slots left."""
        domains, rooms = np.unique(self._domains[level][list(left)], return_counts=True)
        return next((int(each) for each, room in zip(domains, rooms, strict=True) if room >= count), _NONE)

    def _next_to(self, cycles: Iterable[Cycle], slots: list[int]) -> Iterator[tuple[Cycle, int]]:
        left = list(slots)
        for cycle in cycles:
            if not left:
                return
            rank = self._rank_of(cycle)
            near = [] if rank == _NONE else sorted(self._standing, key=lambda each: abs(each[0] - rank))[:2]
            slot = next((found for _, place in near if (found := self._closest(left, place)) is not None), left[0])
            left.remove(slot)
            yield cycle, slot

    def _closest(self, slots: Iterable[int], place: int) -> int | None:
        """The slot that shares most levels with a place; None if it shares none."""
        best, most = None, 0
        for slot in slots:
            shared = int(np.count_nonzero(self._domains[:, slot] == self._domains[:, place]))
            if shared > most:
                best, most = slot, shared
        return best

    def _rank_of(self, cycle: Cycle) -> int:
        return self._rank(rank_of(cycle.template))


def _ranks(group: AlikeMembers) -> Callable[[tuple[int, ...] | None], int]:
    """What makes one number of ranks of several parts: the pods of the first job come before those of the second."""
    templates = [*(cycle.template for cycle in group.cycles), *(each.pod.template for each in group.standing)]
    widest = 1 + max((rank[-1] for template in templates if (rank := rank_of(template)) is not None), default=0)

    def number(rank: tuple[int, ...] | None) -> int:
        if group.layers is not None:  # all of them are one slice
            return 0
        return _NONE if rank is None else rank[-1] + sum(part * widest for part in rank[:-1])

    return number
