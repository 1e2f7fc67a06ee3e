"""Where the members of a gang go in a tree of domains: the question, the answer, and what a placement is worth.

A tree has levels, the widest first; a domain of a level lies in one domain of the level above, and every node lies in
one domain of each level. Roles are sets of equal pods, scopes are roles that want to be close to each other.

Hard: a node holds what it has room for; a scope with a required level lies in one domain of it; a role with slices has
in every domain of a layer's level a multiple of the layer's size. Members that stand already count.

A value is a tuple, the smaller one is better: members left out; the domains used at each level, the widest first; the
preferences of node affinity that are not met; the room left over in the used domains, of the scarcest resource, from
the level on at which a scope fits one domain. Sums over scopes; scopes that ask for nothing add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.values import dataclass

Value = tuple[int, ...]


class Layer(NamedTuple):
    """Slices of so many consecutive members lie in one domain of the level."""

    level: int
    size: int


@dataclass(frozen=True, slots=True)
class Role:
    """Members that are alike."""

    count: int
    """How many are to be placed."""
    least: int
    """How many of them must find a node."""
    layers: tuple[Layer, ...] = ()
    """The widest first; the size of an inner layer divides that of the outer one."""
    amount: int = 0
    """What one member takes of the scarcest resource."""


@dataclass(frozen=True, slots=True)
class RoleScope:
    """Roles that share a constraint."""

    roles: tuple[int, ...]
    required: int | None = None
    """The level at which all of them lie in one domain."""
    counts: bool = True
    """Whether it wants few domains; one that is unconstrained does not."""


@dataclass(frozen=True, slots=True)
class Offers:
    """The nodes that may be used or are used already, n of them, and their domains."""

    domains: Rows
    """Number of the domain of each node at each level, shape (levels, n); numbered in the order of their paths."""
    caps: Ints
    """How many members of a role a node has room for, if it holds no other role, shape (roles, n)."""
    spare: Ints
    """Free room of the scarcest resource, shape (n,)."""
    eligible: Mask
    """Whether members of a role may use a node at all, full or not, shape (roles, n)."""
    standing: Ints
    """Members that stand on a node already, shape (roles, n)."""
    liking: Ints
    """The weights of preferred node affinity that a node matches, shape (roles, n)."""
    needs: Ints
    """What one member of a role takes, shape (roles, resources)."""
    free: Ints
    """What a node has left, shape (resources, n)."""

    @property
    def levels(self) -> int:
        """The number of levels."""
        return len(self.domains)

    def at(self, rows: Rows | Mask) -> Offers:
        """The same for some of the nodes."""
        return Offers(
            self.domains[:, rows], self.caps[:, rows], self.spare[rows], self.eligible[:, rows],
            self.standing[:, rows], self.liking[:, rows], self.needs, self.free[:, rows],
        )  # fmt: skip

    def of_role(self, role: int) -> Offers:
        """The same for one of the roles."""
        one = slice(role, role + 1)
        return Offers(
            self.domains, self.caps[one], self.spare, self.eligible[one], self.standing[one], self.liking[one],
            self.needs[one], self.free,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A gang and the nodes for it."""

    offers: Offers
    roles: tuple[Role, ...]
    scopes: tuple[RoleScope, ...]

    @property
    def counted(self) -> list[RoleScope]:
        """The scopes that want few domains."""
        return [scope for scope in self.scopes if scope.counts]

    @property
    def total(self) -> int:
        """How many members are to be placed."""
        return sum(role.count for role in self.roles)

    def standing_of(self, scope: RoleScope) -> Ints:
        """How many members of a scope stand on each node, shape (n,)."""
        found: Ints = self.offers.standing[list(scope.roles)].sum(axis=0)
        return found

    def room_of(self, scope: RoleScope) -> Ints:
        """What each node has left for a scope of the scarcest resource, shape (n,)."""
        eligible = self.offers.eligible[list(scope.roles)].any(axis=0)
        return np.where(eligible, self.offers.spare.clip(0), 0)


@dataclass(frozen=True, slots=True)
class Packing:
    """A placement."""

    counts: Ints
    """How many members of a role go to a node, shape (roles, n)."""
    value: Value
    bound: Value
    """No placement has a smaller value; equal to `value`, as far as it goes, if the placement is the best one."""
    fits: tuple[int, ...] = field(default=())
    """Of each scope that counts: the lowest level at which it can lie in one domain, 0 if it can at none."""

    @property
    def optimal(self) -> bool:
        """Whether it is known that there is no better placement."""
        return is_optimal(self.value, self.bound)

    @property
    def domains_used(self) -> int:
        """How many domains are used, all levels and scopes together."""
        return sum(self.value[1:])


def is_optimal(value: Value, bound: Value) -> bool:
    """Whether nothing can have a smaller value: it reaches the bound, as far as that goes."""
    return value[: len(bound)] <= bound


def sums(domains: Rows, amounts: Ints, number: int) -> Ints:
    """The amounts of nodes added up by domain, int64[number]."""
    out: Ints = np.zeros(number, dtype=np.int64)
    np.add.at(out, domains, amounts)
    return out


def held(question: Question, role: int, level: int, caps: Ints | None = None) -> Ints:
    """How many members of a role each domain of a level has room for, if it holds no other role; slices are whole.

    `caps`: other room of nodes than that of the offers, shape (roles, n).
    """
    offers = question.offers
    here: Ints = (offers.caps if caps is None else caps)[role].clip(0)
    for layer in reversed(question.roles[role].layers):
        if layer.level < level:
            break
        domains, first = np.unique(offers.domains[layer.level], return_index=True)
        number = int(domains.max(initial=-1)) + 1
        stand = sums(offers.domains[layer.level], offers.standing[role], number)[domains]
        room = sums(offers.domains[layer.level], here, number)[domains]
        here = np.zeros_like(here)
        here[first] = ((room + stand) // layer.size * layer.size - stand).clip(0)
    return sums(offers.domains[level], here, int(offers.domains[level].max(initial=-1)) + 1)


def used_domains(question: Question, scope: RoleScope, counts: Ints, level: int) -> Rows:
    """The domains of a level that members of a scope use, those that stand there included."""
    here = counts[list(scope.roles)].sum(axis=0) + question.standing_of(scope)
    return np.unique(question.offers.domains[level][here > 0])


def domain_counts(question: Question, counts: Ints) -> Value:
    """How many domains are used at each level, all scopes together."""
    levels = range(question.offers.levels)
    return tuple(sum(len(used_domains(question, c, counts, j)) for c in question.counted) for j in levels)


def fit_levels(question: Question, counts: Ints) -> tuple[int, ...]:
    """The lowest level at which each scope lies in one domain, 0 where it lies in several even at the widest."""
    fits = []
    for scope in question.counted:
        alone = [j for j in range(question.offers.levels) if len(used_domains(question, scope, counts, j)) <= 1]
        fits.append(max(alone, default=0))
    return tuple(fits)


def value_of(question: Question, counts: Ints, fits: Sequence[int]) -> Value:
    """What a placement is worth. `fits`: the levels from which on room is measured, per scope that counts."""
    placed, counted = int(counts.sum()), question.counted
    left = question.total - placed
    if not placed or not counted:
        return (left,)
    offers, room = question.offers, []
    for level in range(offers.levels):
        measured = [scope for scope, fit in zip(counted, fits, strict=True) if fit <= level]
        if measured:
            room.append(sum(_left_over(question, scope, counts, level) for scope in measured))
    return (left, *domain_counts(question, counts), -int((counts * offers.liking).sum()), *room)


def _left_over(question: Question, scope: RoleScope, counts: Ints, level: int) -> int:
    inside = np.isin(question.offers.domains[level], used_domains(question, scope, counts, level))
    taken = sum(question.roles[r].amount * int(counts[r].sum()) for r in scope.roles)
    return int(sum(question.room_of(scope)[inside].tolist())) - taken
