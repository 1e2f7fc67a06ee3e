"""Who can have a node of their own at the same time: a matching of pods to nodes that is found pod by pod.

A pod that stands has its own node and no other. A pod that waits has a seat on one of the nodes that it can use, and
may be moved to another one of them while pods are added, so that nobody is left out whom a better choice would admit.

Sets of nodes are numbers, bit r for row r. Pods that can use the same nodes are alike, so seats are kept by those sets,
not by pod: a search for a seat looks at sets, of which a cluster has few, however many pods and nodes there are.

Invariants: no row is in `held` twice, nor in `held` and `fixed`; `held[mask]` is a part of `mask`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

Bits = int
"""A set of rows."""


class Seats(NamedTuple):
    """What `Seating.restore` goes back to."""

    fixed: Bits
    taken: Bits
    held: dict[Bits, Bits]
    stuck: frozenset[Bits]


class Seating:
    """The seats so far. `vacant` are the rows without a pod, which are taken first."""

    def __init__(self, vacant: Bits) -> None:
        self.vacant = vacant
        self.fixed: Bits = 0
        """Rows of pods that stand."""
        self.taken: Bits = 0
        """These, and the seats."""
        self.held: dict[Bits, Bits] = {}
        """The rows that can be used -> the seats of the pods that can use them."""
        self._stuck: set[Bits] = set()
        """Where no further pod had a seat; more pods do not change that."""

    def save(self) -> Seats:
        """All of it as it is now."""
        return Seats(self.fixed, self.taken, dict(self.held), frozenset(self._stuck))

    def restore(self, seats: Seats) -> None:
        """Go back."""
        self.fixed, self.taken = seats.fixed, seats.taken
        self.held, self._stuck = dict(seats.held), set(seats.stuck)

    def stay(self, row: int) -> bool:
        """A pod keeps its own node; whether it can."""
        bit = 1 << row
        if self.fixed & bit:
            return False
        self.fixed |= bit
        if not self.taken & bit:
            self.taken |= bit
            return True
        mask = self._holder(bit)
        self.held[mask] ^= bit
        if self.sit(mask):
            return True
        self.held[mask] |= bit
        self.fixed ^= bit
        return False

    def sit(self, mask: Bits) -> bool:
        """A seat for one more pod that can use these rows; whether there is one."""
        free = mask & ~self.taken
        if free:
            self._give(mask, free)
            return True
        if mask in self._stuck:
            return False
        found = self._way_out(mask)
        if found is None:
            self._stuck.add(mask)
            return False
        free, way = found
        self._give(way[-1], free)
        for later, earlier in zip(reversed(way), reversed(way[:-1]), strict=False):
            moved = _one_of(self.held[later] & earlier, self.vacant)
            self.held[later] ^= moved
            self.held[earlier] = self.held.get(earlier, 0) | moved
        return True

    def free_again(self, row: int) -> None:
        """A pod that kept its own node is gone."""
        self.fixed &= ~(1 << row)
        self.taken &= ~(1 << row)
        self._stuck.clear()

    def stand_up(self, mask: Bits) -> None:
        """A pod that had a seat is gone."""
        seat = _one_of(self.held[mask], ~self.vacant)
        self.held[mask] ^= seat
        self.taken ^= seat
        self._stuck.clear()

    def arrive(self, mask: Bits, row: int) -> bool:
        """A pod that had a seat stands on this row from now on; whether everybody else still has one."""
        bit, held = 1 << row, self.held.get(mask, 0)
        if not held or self.fixed & bit:
            return False
        seat = bit if held & bit else _one_of(held, ~self.vacant)
        self.held[mask] ^= seat
        self.taken ^= seat
        stuck, self._stuck = self._stuck, set()
        done = self.stay(row)
        self._stuck = stuck if done else set()
        return done

    def choices(self, mask: Bits) -> Bits:
        """The rows where one pod of these may go so that everybody else still has a seat."""
        reaching = {mask}
        free = ~self.taken
        waiting = [other for other in self.held if other != mask and self.held[other]]
        found = True
        while found:
            found = False
            target = free
            for each in reaching:
                target |= self.held.get(each, 0)
            for other in [each for each in waiting if each & target]:
                waiting.remove(other)
                reaching.add(other)
                found = True
        seats = free
        for each in reaching:
            seats |= self.held.get(each, 0)
        return mask & seats

    def settle_on_vacant(self) -> None:
        """Move seats from rows that somebody has to leave to rows that are free, where that is one step."""
        for mask, held in list(self.held.items()):
            crowded = held & ~self.vacant
            free = mask & self.vacant & ~self.taken
            while crowded and free:
                off, on = crowded & -crowded, free & -free
                crowded ^= off
                free ^= on
                self.held[mask] ^= off | on
                self.taken ^= off | on

    def _give(self, mask: Bits, free: Bits) -> None:
        seat = _one_of(free, self.vacant)
        self.held[mask] = self.held.get(mask, 0) | seat
        self.taken |= seat

    def _holder(self, bit: Bits) -> Bits:
        return next(mask for mask, rows in self.held.items() if rows & bit)

    def _way_out(self, mask: Bits) -> tuple[Bits, list[Bits]] | None:
        """A free row, and the sets by which it is reached: one pod of each makes place for one of the set before."""
        before: dict[Bits, Bits | None] = {mask: None}
        queue = [mask]
        for here in queue:
            for other, rows in self.held.items():
                if other in before or not rows & here:
                    continue
                before[other] = here
                free = other & ~self.taken
                if free:
                    return free, _path(before, other)
                queue.append(other)
        return None


def _path(before: dict[Bits, Bits | None], last: Bits) -> list[Bits]:
    way = [last]
    while (earlier := before[way[-1]]) is not None:
        way.append(earlier)
    return way[::-1]


def _one_of(rows: Bits, rather: Bits) -> Bits:
    """One of these rows, one of `rather` if there is any."""
    some = rows & rather or rows
    return some & -some


def some_of(rows: Bits, count: int, rather: Bits) -> Bits:
    """So many of these rows, as far as there are, those of `rather` first."""
    found = 0
    for _ in range(count):
        found |= _one_of(rows & ~found, rather)
    return found


def bits_of(rows: Iterable[int]) -> Bits:
    """A set of these rows."""
    found = 0
    for row in rows:
        found |= 1 << row
    return found


def rows_of(rows: Bits) -> Iterator[int]:
    """The rows of a set, ascending."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest
