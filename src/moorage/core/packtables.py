"""The best placement of a gang by tables: exact, for any roles and scopes, as long as the tables stay small.

The state of a table is how many members of each role are placed; a table holds, for one domain, the least cost of each
state. Tables of nodes are added up to those of domains, level by level from the bottom, and the masks of slices and
required levels are applied on the way. All parts of a cost are sums over domains, so the cost of a placement is one
number: its parts as the digits of a number whose bases exceed them. Parts that need more digits than 64 bits have are
split over the two halves of a complex number, which numpy adds one by one and compares in their order; what is too
large even for these is left to Python's integers, which are slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.packing import Packing, Question, RoleScope, fit_levels, sums, value_of
from moorage.core.values import dataclass

Table: TypeAlias = npt.NDArray[Any]
"""Costs, shape (domains, states): of the type `Costs.kind`."""
_DIGITS, _HALF_DIGITS = 58, 51
"""Costs below 2 to this fit int64, or one half of complex128 as whole numbers, with enough left for sums with `far`."""
_FAR, _FAR_OF_HALVES, _VERY_FAR = 1 << 60, complex(1 << 52), 1 << 600
"""The cost of what is not possible."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What each part of a value weighs."""

    domains: tuple[complex, ...]
    """A domain of each level."""
    missed: complex
    """One point of preferences that are not met."""
    room: tuple[complex, ...]
    """One unit of room left over, at each level."""
    fits: tuple[int, ...]
    far: complex
    """The cost of what is not possible."""
    scale: int
    """Amounts of room are divided by this, their greatest common divisor."""

    @property
    def kind(self) -> Any:
        """The numpy type of tables."""
        return {_FAR: np.int64, _FAR_OF_HALVES: np.complex128, _VERY_FAR: object}[self.far]


def costs_of(question: Question, fits: Sequence[int] | None, alone: int = -1) -> Costs:
    """The weights of a question; without `fits`, room does not count.

    `alone`: down to this level, every placement uses one domain. The fewer digits costs need, the faster the tables.
    """
    offers, counted = question.offers, question.counted
    members = [sum(question.roles[r].count for r in c.roles) for c in counted]
    rooms = [question.room_of(c) for c in counted]
    scale = max(int(np.gcd.reduce([0, *(int(np.gcd.reduce(room)) for room in rooms if len(room))])), 1)
    used: list[list[int]] = []
    for level in range(offers.levels):
        known = int(offers.domains[level].max(initial=-1)) + 1
        used.append([1 if level <= alone else min(known, count) for count in members])
    ranges = [sum(each) for each in used]
    spread = offers.liking.max(axis=1, initial=0) - offers.liking.min(axis=1, initial=0)
    ranges.append(sum(role.count * int(s) for role, s in zip(question.roles, spread, strict=True)) if counted else 0)
    for level in range(offers.levels):
        measured = () if fits is None else [number for number, fit in enumerate(fits) if fit <= level]
        domains = offers.domains[level]
        ranges.append(sum(used[level][c] * _largest(domains, rooms[c]) // scale for c in measured))
    weights, far = _weights(ranges)
    levels = offers.levels
    return Costs(tuple(weights[:levels]), weights[levels], tuple(weights[levels + 1 :]), tuple(fits or ()), far, scale)


def _weights(ranges: Sequence[int]) -> tuple[list[complex], complex]:
    """What each part of a cost weighs, if it is at most so large; and the cost of what is not possible."""
    plain, total = _digits(ranges)
    if total < 1 << _DIGITS:
        return plain, _FAR
    for cut in range(len(ranges)):
        (first, before), (last, after) = _digits(ranges[:cut]), _digits(ranges[cut:])
        if max(before, after) < 1 << _HALF_DIGITS:
            return [*first, *(weight * 1j for weight in last)], _FAR_OF_HALVES
    return plain, _VERY_FAR


def _digits(ranges: Sequence[int]) -> tuple[list[complex], int]:
    """The weights of parts as digits of one number, the first of which matters most; and what exceeds all of them."""
    weights, weight = list[complex](), 1
    for each in reversed(ranges):
        weights.append(weight if each else 0)
        weight *= each + 1
    weights.reverse()
    return weights, weight


def _largest(domains: Rows, room: Ints) -> int:
    return int(sums(domains, room, int(domains.max(initial=-1)) + 1).max(initial=0))


class States:
    """The states of the tables: how many members of each role."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.dims = tuple(count + 1 for count in counts)
        self.size = prod(self.dims)
        self.members: Ints = np.indices(self.dims).reshape(len(self.dims), self.size)
        """Members of each role in each state, shape (roles, states)."""

    def add(self, one: Table, other: Table, far: complex) -> Table:
        """The least cost of each state of two domains together, for pairs of domains, shape (pairs, states)."""
        whole = (len(one), *self.dims)
        out = np.full(whole, far, dtype=one.dtype)
        source = one.reshape(whole)
        for state in np.flatnonzero((other < far).any(axis=0)):
            shift = [int(part[state]) for part in self.members]
            after = (slice(None), *(slice(by, None) for by in shift))
            before = (slice(None), *(slice(0, dim - by) for dim, by in zip(self.dims, shift, strict=True)))
            cost = other[:, state].reshape(-1, *[1] * len(self.dims))
            np.minimum(out[after], source[before] + cost, out=out[after])
        return np.minimum(out, far).reshape(one.shape)

    def nothing(self, number: int, costs: Costs) -> Table:
        """Tables of empty domains."""
        table = np.full((number, self.size), costs.far, dtype=costs.kind)
        table[:, 0] = 0
        return table


class Tables:
    """The tables of one question."""

    def __init__(self, question: Question, costs: Costs, required: Sequence[int | None]) -> None:
        """`required`: the level of each scope at which it lies in one domain, perhaps narrower than it asks for."""
        self._question, self._costs, self._required = question, costs, required
        self._ground = question.offers
        self.states = States([role.count for role in question.roles])
        self._rows: list[Rows] = []
        """Of each level, and last of the nodes: for each domain the number of its parent."""
        above = np.zeros(self._ground.caps.shape[1], dtype=np.intp)
        self._of_node: list[Rows] = []
        """Of each level: the number of each node's domain."""
        for level in range(self._ground.levels):
            _, first, here = np.unique(self._ground.domains[level], return_index=True, return_inverse=True)
            self._rows.append(above[first])
            self._of_node.append(here)
            above = here
        self._rows.append(above)
        self._known: list[Table] = []

    def possible(self) -> bool:
        """Whether all members can be placed: makes the tables for `counts`."""
        table = self._nodes()
        self._known = [table]
        for level in reversed(range(self._ground.levels)):
            table = self._finished(level, self._folded(table, self._rows[level + 1]))
            self._known.append(table)
        self._known.reverse()
        final = self._folded(table, self._rows[0])
        return bool(final[0, -1] < self._costs.far) if len(final) else self.states.size == 1

    def counts(self) -> Ints:
        """A placement of the least cost, shape (roles, n); ask whether it is `possible` first."""
        targets = {0: self.states.size - 1}
        for level, table in enumerate(self._known):
            below: dict[int, int] = {}
            for parent, state in targets.items():
                if state:
                    below.update(self._split(table, np.flatnonzero(self._rows[level] == parent), state))
            targets = below
        counts = np.zeros((len(self.states.dims), len(self._rows[-1])), dtype=np.int64)
        for node, state in targets.items():
            counts[:, node] = self.states.members[:, state]
        return counts

    def _split(self, table: Table, children: Rows, state: int) -> Iterator[tuple[int, int]]:
        """How a state of a domain is made of those of its children; those with most members come first."""
        far, states = self._costs.far, self.states
        sums = [states.nothing(1, self._costs)]
        for child in children:
            sums.append(states.add(sums[-1], table[child : child + 1], far))
        for number in reversed(range(len(children))):
            wanted = sums[number + 1][0, state]
            mine, before = table[children[number]], sums[number][0]
            for part in np.flatnonzero(mine < far)[::-1]:
                rest = states.members[:, state] - states.members[:, part]
                if (rest < 0).any():
                    continue
                other = int(np.ravel_multi_index(tuple(rest), states.dims))
                if before[other] < far and before[other] + mine[part] == wanted:
                    if part:
                        yield int(children[number]), int(part)
                    state = other
                    break

    def _nodes(self) -> Table:
        """The tables of nodes: what they have room for, and the preferences that are not met there."""
        offers, members, costs = self._ground, self.states.members, self._costs
        possible: Mask = np.ones((offers.caps.shape[1], self.states.size), dtype=np.bool_)
        for role, caps in enumerate(offers.caps):
            possible &= members[role][None, :] <= caps[:, None]
        if len(offers.caps) > 1:
            for taken, free in zip(offers.needs.T @ members, offers.free, strict=True):
                possible &= (taken[None, :] <= free[:, None]) | (taken == 0)[None, :]
        missed = offers.liking.max(axis=1, initial=0)[:, None] - offers.liking
        cost = (missed.T @ members).astype(costs.kind) * costs.missed
        return np.where(possible, cost, np.array(costs.far, dtype=costs.kind))

    def _folded(self, table: Table, parents: Rows) -> Table:
        """The tables of parents from those of their children."""
        far = self._costs.far
        number = int(parents.max()) + 1 if len(parents) else 0
        out = self.states.nothing(number, self._costs)
        empty = (table[:, 0] == 0) & (table[:, 1:] >= far).all(axis=1)
        for children in turns(parents, ~empty):
            into = parents[children]
            out[into] = self.states.add(out[into], table[children], far)
        return out

    def _finished(self, level: int, table: Table) -> Table:
        """The tables of a level with what its domains cost, and without what is not allowed in them."""
        costs, members, question = self._costs, self.states.members, self._question
        here = self._of_node[level]
        allowed: Mask = np.ones(table.shape, dtype=np.bool_)
        for number, scope in enumerate(question.counted):
            some = members[list(scope.roles)].sum(axis=0) > 0
            cost = np.full(len(table), costs.domains[level], dtype=costs.kind)
            if costs.fits and costs.fits[number] <= level:
                room = sums(here, question.room_of(scope), len(table))
                cost = cost + (room // costs.scale).astype(costs.kind) * costs.room[level]
            cost[self._stands(scope, here, len(table)) > 0] = 0  # used in any case
            table = table + np.where(some[None, :], cost[:, None], 0)
        for scope, required in zip(question.scopes, self._required, strict=True):
            if required == level:
                allowed &= self._together(scope, here, len(table))
        for role, each in enumerate(question.roles):
            for layer in each.layers:
                if layer.level == level:
                    stand = sums(here, self._ground.standing[role], len(table))
                    allowed &= (members[role][None, :] + stand[:, None]) % layer.size == 0
        return np.where(allowed, np.minimum(table, costs.far), np.array(costs.far, dtype=costs.kind))

    def _stands(self, scope: RoleScope, here: Rows, number: int) -> Ints:
        return sums(here, self._question.standing_of(scope), number)

    def _together(self, scope: RoleScope, here: Rows, number: int) -> Mask:
        """Which states a domain may have in which a scope lies as a whole, or not at all."""
        roles = list(scope.roles)
        parts = self.states.members[roles]
        none = parts.sum(axis=0) == 0
        every = (parts == np.array([self._question.roles[r].count for r in roles])[:, None]).all(axis=0)
        stand = self._stands(scope, here, number)
        open_to = stand > 0 if stand.any() else np.ones(number, dtype=np.bool_)
        allowed: Mask = none[None, :] | (every[None, :] & open_to[:, None])
        return allowed


def pack_by_tables(question: Question) -> Packing | None:
    """The best placement of all members; None if they cannot all be placed."""
    required = [scope.required for scope in question.scopes]
    tables = Tables(question, costs_of(question, None), required)
    if not tables.possible():
        return None
    counts = tables.counts()
    fits = fit_levels(question, counts)
    if len(question.counted) > 1:
        fits = tuple(_fit(question, number, fit) for number, fit in enumerate(fits))
    if question.counted:
        tables = Tables(question, costs_of(question, fits), required)
        if not tables.possible():
            raise AssertionError("a placement that was there is gone")
        counts = tables.counts()
    value = value_of(question, counts, fits)
    return Packing(counts, value, value, fits)


def _fit(question: Question, number: int, at_least: int) -> int:
    """The lowest level at which one of several scopes can lie in one domain; it does at `at_least`, or at none."""
    scope = question.counted[number]
    free = costs_of(Question(question.offers, question.roles, ()), None)
    plain = Question(question.offers, question.roles, tuple(_uncounted(each) for each in question.scopes))
    place = question.scopes.index(scope)
    for level in range(question.offers.levels - 1, at_least, -1):
        standing = question.standing_of(scope)
        if len(np.unique(question.offers.domains[level][standing > 0])) > 1:
            continue
        required = [each.required for each in question.scopes]
        required[place] = max(level, required[place] or 0)
        if Tables(plain, free, required).possible():
            return level
    return at_least


def _uncounted(scope: RoleScope) -> RoleScope:
    return RoleScope(scope.roles, scope.required, counts=False)


def turns(parents: Rows, useful: Mask) -> list[Rows]:
    """The useful ones of the children, in turns: of every parent one in each."""
    children = np.flatnonzero(useful)
    children = children[np.argsort(parents[children], kind="stable")]
    ranks = np.arange(len(children)) - np.searchsorted(parents[children], parents[children])
    return [children[ranks == turn] for turn in range(int(ranks.max(initial=-1)) + 1)]
