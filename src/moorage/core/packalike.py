"""The best placement of a gang of equal pods, none of which stands yet: exact and fast on large clusters.

As for the tables of `packtables`, but a node or domain at the lowest level costs the same whatever it holds, so one
gather per node replaces a sum over states; above a layer of slices, states are slices and not members. The lowest level
at which one domain holds all members is known from the room alone, and only the domains that do are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.packing import Offers, Packing, Question, RoleScope, sums, value_of
from moorage.core.packtables import Costs, Table, costs_of, turns
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Rooms:
    """Of one level: how many members, or slices, its domains hold, and where they are."""

    unit: int
    """Members of a slice."""
    units: Ints
    """How many of them each domain holds, shape (domains,)."""
    of_node: Rows
    """The domain of each node."""
    parents: Rows
    """The domain of the level above."""


def suits(question: Question) -> bool:
    """Whether this module can answer: one role of which no member stands, one scope, no preferences."""
    offers = question.offers
    return (
        len(question.roles) == 1
        and len(question.counted) == 1
        and all(scope.roles == (0,) for scope in question.scopes)
        and bool(offers.levels)
        and not offers.standing.any()
        and not offers.liking.any()
    )


def pack_alike(question: Question) -> Packing | None:
    """The best placement of all members; None if they cannot all be placed."""
    role, required = question.roles[0], _required(question.scopes)
    rooms = rooms_of(question)
    if role.count % rooms[0].unit:
        return None  # no whole slices
    fit = next((j for j in reversed(range(len(rooms))) if (rooms[j].units * rooms[j].unit >= role.count).any()), None)
    if fit is None:
        if required is not None or sum((rooms[0].units * rooms[0].unit).tolist()) < role.count:
            return None
        inside: Mask = np.ones(len(question.offers.spare), dtype=np.bool_)
        counts = _spread(question, inside, 0, None)
    elif required is not None and fit < required:
        return None
    else:
        room = rooms[fit]
        inside = _best_alone(question, rooms, fit, room.units * room.unit >= role.count)[room.of_node]
        counts = _spread(question, inside, fit, fit)
    value = value_of(question, counts, (fit or 0,))
    return Packing(counts, value, value, (fit or 0,))


def most_alike(question: Question) -> int:
    """How many members can be placed at most."""
    rooms, required = rooms_of(question), _required(question.scopes)
    room = rooms[required or 0]
    held = room.units * room.unit
    most = int(held.max(initial=0)) if required is not None else sum(held.tolist())
    widest = rooms[0].unit
    return min(most, question.roles[0].count) // widest * widest


def _required(scopes: Sequence[RoleScope]) -> int | None:
    return max((scope.required for scope in scopes if scope.required is not None), default=None)


def rooms_of(question: Question) -> list[Rooms]:
    """The room at each level, the widest first; whole slices only, from the level of their layer upwards."""
    offers, sizes = question.offers, {layer.level: layer.size for layer in reversed(question.roles[0].layers)}
    found: list[Rooms] = []
    amounts, below, unit = np.minimum(offers.caps[0], question.roles[0].count), offers.domains[-1], 1
    for level in reversed(range(offers.levels)):
        of_node = offers.domains[level]
        number = int(of_node.max(initial=-1)) + 1
        units = sums(below, amounts, number)
        size = sizes.get(level, unit)
        units, unit = units * unit // size, size
        parents = np.zeros(number, dtype=np.intp)
        if level:
            parents[of_node] = offers.domains[level - 1]
        found.append(Rooms(unit, units, of_node, parents))
        amounts, below = units, parents
    found.reverse()
    return found


def _best_alone(question: Question, rooms: list[Rooms], fit: int, holds: Mask) -> Mask:
    """Of the domains that hold all members, those that may be best: above the lowest level but one, all of them.

    There, the fewest domains below are known without tables: those with most room, as many as it takes.
    """
    last = len(rooms) - 1
    if fit != last - 1:
        return holds
    lowest = rooms[last]
    wanted = question.roles[0].count // lowest.unit
    order = np.lexsort((-lowest.units, lowest.parents))
    order = order[holds[lowest.parents[order]]]
    parents, held = lowest.parents[order], lowest.units[order]
    first = np.searchsorted(parents, parents)
    before = np.cumsum(held) - held
    before -= before[first]
    fewest: Ints = np.full(len(holds), np.iinfo(np.int64).max)
    needed = before < wanted
    fewest[holds] = sums(parents[needed], np.ones(int(needed.sum()), dtype=np.int64), len(holds))[holds]
    best = holds & (fewest == fewest.min())
    room = sums(rooms[fit].of_node, question.room_of(question.counted[0]), len(holds))
    tightest: Mask = best & (room == room[best].min())
    return tightest


def renumbered(offers: Offers) -> Offers:
    """The same with domains numbered without gaps."""
    return replace(offers, domains=np.array([np.unique(level, return_inverse=True)[1] for level in offers.domains]))


def _spread(question: Question, inside: Mask, fit: int, top: int | None) -> Ints:
    """The members of each node, shape (1, n), if they all go to one domain of the level `top`, or anywhere."""
    nodes = np.flatnonzero(inside)
    narrowed = Question(renumbered(question.offers.at(nodes)), question.roles, question.scopes)
    costs = costs_of(narrowed, (fit,), -1 if top is None else top)
    found = _Tables(narrowed, costs, top)
    best = found.best()
    counts = np.zeros((1, len(inside)), dtype=np.int64)
    counts[0, nodes] = found.counts(best)
    return counts


class _Tables:
    """Tables of one role: for each domain the least cost of so many units."""

    def __init__(self, question: Question, costs: Costs, top: int | None) -> None:
        self._costs, self._count = costs, question.roles[0].count
        self._ground: Offers = question.offers
        self._rooms = rooms_of(question)
        self._top = top
        self._cost = [self._use(question, level) for level in range(len(self._rooms))]
        self._tables: list[Table] = []
        """Of each level from the lowest but one up to `top`, or to what stands for all nodes."""

    def _use(self, question: Question, level: int) -> Table:
        """What it costs to use a domain."""
        here, costs = self._rooms[level], self._costs
        room = sums(here.of_node, question.room_of(question.counted[0]), len(here.units))
        measured = costs.room[level] if costs.fits[0] <= level else 0
        return (room // costs.scale).astype(costs.kind) * measured + costs.domains[level]

    def best(self) -> int:
        """The domain of the level `top` that costs least, the first of them in the order of paths."""
        last, top = len(self._rooms) - 1, -1 if self._top is None else self._top
        if top == last:
            return int(np.argmin(self._cost[last]))
        table = self._from_lowest(self._rooms[last], self._number(last - 1))
        for level in range(last - 1, top, -1):
            table = self._finished(table, level)
            self._tables.append(table)
            table = self._from_tables(table, self._rooms[level].parents, self._number(level - 1))
        self._tables.append(table)
        if top >= 0:
            return int(np.argmin(self._finished(table, top)[:, -1]))
        return 0

    def _number(self, level: int) -> int:
        return len(self._rooms[level].units) if level >= 0 else 1

    def _size(self, level: int) -> int:
        """Units that all members are, at the level."""
        return self._count // self._rooms[level].unit

    def _from_lowest(self, lowest: Rooms, number: int) -> Table:
        """Tables of the level above the lowest one, in its units."""
        size, costs = self._size(len(self._rooms) - 1), self._costs
        out = self._nothing(number, size)
        states = np.arange(size + 1)
        cost = self._cost[-1]
        for children in turns(lowest.parents, lowest.units > 0):
            into = lowest.parents[children]
            left = np.maximum(states[None, :] - lowest.units[children][:, None], 0)
            mine = np.take_along_axis(out[into], left, axis=1) + cost[children][:, None]
            out[into] = np.minimum(out[into], np.minimum(mine, costs.far))
        return out

    def _from_tables(self, table: Table, parents: Rows, number: int) -> Table:
        out = self._nothing(number, table.shape[1] - 1)
        useful: Mask = np.any(table[:, 1:] < self._costs.far, axis=1)
        for children in turns(parents, useful):
            into = parents[children]
            out[into] = self._add(out[into], table[children])
        return out

    def _add(self, one: Table, other: Table) -> Table:
        out = np.full_like(one, self._costs.far)
        states = one.shape[1]
        for units in np.flatnonzero((other < self._costs.far).any(axis=0)):
            after = out[:, units:]
            np.minimum(after, one[:, : states - units] + other[:, units : units + 1], out=after)
        return np.minimum(out, self._costs.far)

    def _finished(self, table: Table, level: int) -> Table:
        """With what the domains of the level cost, in units of the level."""
        step = self._rooms[level].unit // self._rooms[level + 1].unit
        table = np.array(table[:, ::step])
        table[:, 1:] = np.minimum(table[:, 1:] + self._cost[level][:, None], self._costs.far)
        return table

    def _nothing(self, number: int, size: int) -> Table:
        out = np.full((number, size + 1), self._costs.far, dtype=self._costs.kind)
        out[:, 0] = 0
        return out

    # --- the way back ---

    def counts(self, best: int) -> Ints:
        """The members of each node in a placement of the least cost."""
        last, top = len(self._rooms) - 1, -1 if self._top is None else self._top
        targets = {best: self._count}
        for level in range(top + 1, last + 1):
            room, below = self._rooms[level], dict[int, int]()
            for domain, members in targets.items():
                children = np.flatnonzero(room.parents == domain) if level else np.arange(len(room.units))
                wanted = members // room.unit
                table = None if level == last else self._tables[last - 1 - level]
                found = self._simple(children, wanted) if table is None else self._parts(table, children, wanted)
                below.update({child: units * room.unit for child, units in found.items()})
            targets = below
        return self._on_nodes(targets)

    def _simple(self, children: Rows, wanted: int) -> dict[int, int]:
        """Which domains of the lowest level hold how many units."""
        children = children[self._rooms[-1].units[children] > 0]
        units, cost = self._rooms[-1].units[children], self._cost[-1][children]
        states = np.arange(wanted + 1)
        tables = [self._nothing(1, wanted)[0]]
        for held, price in zip(units.tolist(), cost.tolist(), strict=True):
            before = tables[-1]
            tables.append(np.minimum(before, np.minimum(before[np.maximum(states - held, 0)] + price, self._costs.far)))
        found: dict[int, int] = {}
        for number in reversed(range(len(children))):
            if wanted and tables[number][wanted] != tables[number + 1][wanted]:
                taken = min(int(units[number]), wanted)
                found[int(children[number])] = taken
                wanted -= taken
        return found

    def _parts(self, table: Table, children: Rows, wanted: int) -> dict[int, int]:
        """The same at a level above."""
        tables = [self._nothing(1, table.shape[1] - 1)]
        for child in children:
            tables.append(self._add(tables[-1], table[child : child + 1]))
        found: dict[int, int] = {}
        for number in reversed(range(len(children))):
            mine, before = table[children[number]], tables[number][0]
            taken = next(
                units
                for units in range(wanted + 1)
                if mine[units] < self._costs.far
                and before[wanted - units] < self._costs.far
                and mine[units] + before[wanted - units] == tables[number + 1][0, wanted]
            )
            if taken:
                found[int(children[number])] = taken
                wanted -= taken
        return found

    def _on_nodes(self, targets: dict[int, int]) -> Ints:
        """Fill the nodes of the used domains of the lowest level, those with most room first."""
        caps, of_node = self._ground.caps[0], self._rooms[-1].of_node
        counts: Ints = np.zeros(len(caps), dtype=np.int64)
        for domain, members in targets.items():
            nodes = np.flatnonzero(of_node == domain)
            nodes = nodes[np.argsort(-caps[nodes], kind="stable")]
            before = np.cumsum(caps[nodes]) - caps[nodes]
            counts[nodes] = np.clip(members - before, 0, caps[nodes])
        return counts
