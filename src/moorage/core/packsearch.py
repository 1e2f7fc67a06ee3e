"""The placement of a gang: exact where that is cheap, otherwise by a search with a bound on its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.packalike import most_alike, pack_alike, renumbered, suits
from moorage.core.packing import Offers, Packing, Question, Role, RoleScope, Value, fit_levels, held, sums, value_of
from moorage.core.packmerge import merged
from moorage.core.packtables import pack_by_tables

_MOST_STATES = 1 << 12
_MOST_STEPS = 20_000_000
"""Up to this many additions of costs, tables decide; about 0.1 s.

The search, and all tries to leave members out together, may take a few times as many.
"""
_MOST_TARGETS = 64
"""So many ways to leave members out are tried at most."""
_MOST_DOMAINS = 24
"""So many domains are tried at most for one of several scopes."""
_LEAST_STEPS = _MOST_STEPS // 10
"""Even the smallest tables cost as much."""
_MOST_TRIES = 8
"""So often roles are placed in turn inside of one domain, in other domains of the scopes that they belong to."""
_AT_LEAST = 2
"""So many domains of each level are tried once the steps are spent, as long as none was enough."""


def pack(question: Question, least: int = 0) -> Packing | None:
    """A placement of as many members as can be, the best one where that is cheap to find; None if too few fit.

    `least`: how many members must find a node, whatever their roles.
    """
    found = _pack_all(question)
    least = max(least, 1)
    if found is not None or least >= question.total or all(role.least == role.count for role in question.roles):
        return found
    if suits(question):
        most = most_alike(question)
        return None if most < max(question.roles[0].least, least) else _left_out(question, [most])
    best: Packing | None = None
    most = max(min(_MOST_TARGETS, 4 * _MOST_STEPS // (_steps(question) + 1)), 2)
    for counts in islice(_targets(question), most):
        if sum(counts) < least:
            break
        found = _left_out(question, counts)
        if found is not None and (best is None or found.value < best.value):
            best, least = found, sum(counts)
    return best


def _left_out(question: Question, counts: list[int]) -> Packing | None:
    """The placement of so many members of each role; the others are left out."""
    roles = tuple(replace(role, count=count, least=count) for role, count in zip(question.roles, counts, strict=True))
    found = _pack_all(Question(question.offers, roles, question.scopes))
    left = question.total - sum(counts)
    if found is None:
        return None
    return replace(found, value=(left, *found.value[1:]), bound=(left, *found.bound[1:]))


def _targets(question: Question) -> Iterator[list[int]]:
    """How many members of each role to place, most of them first."""
    ranges = [range(role.count, role.least - 1, -1) for role in question.roles]
    if prod(map(len, ranges)) > _MOST_STATES:
        yield [role.least for role in question.roles]
        return
    yield from sorted((list(each) for each in product(*ranges)), key=lambda each: -sum(each))


def _pack_all(question: Question) -> Packing | None:
    if suits(question):
        return pack_alike(question)
    narrowed = _narrowed(question)
    if narrowed is None:
        return None
    if not question.counted and not any(role.layers for role in question.roles):
        filled = _filled(narrowed)
        if filled is not None:
            return filled
    if _is_small(narrowed):
        return pack_by_tables(narrowed)
    simpler = merged(question)
    if simpler is None:
        return _Search(narrowed).run()
    found = _pack_all(simpler.question)
    return None if found is None else replace(found, counts=simpler.dealt(found.counts))


def _narrowed(question: Question) -> Question | None:
    """The question without room in domains that cannot hold a scope as a whole; None if no domain can."""
    offers, caps = question.offers, question.offers.caps.copy()
    for scope in question.scopes:
        if scope.required is None:
            continue
        domains = offers.domains[scope.required]
        holds = _holding(question, scope, scope.required, caps)
        if not holds.any() and any(question.roles[role].count for role in scope.roles):
            return None
        caps[np.ix_(list(scope.roles), ~holds[domains])] = 0
    if any(int(caps[r].sum()) < role.count for r, role in enumerate(question.roles)):
        return None
    return replace(question, offers=replace(offers, caps=caps))


def _holding(question: Question, scope: RoleScope, level: int, caps: Ints) -> Mask:
    """Which domains of a level may have room for a scope as a whole: each role by itself has, and all in amounts."""
    holds: Mask = np.ones(int(question.offers.domains[level].max(initial=-1)) + 1, dtype=np.bool_)
    for role in scope.roles:
        holds &= held(question, role, level, caps) >= question.roles[role].count
    offers, domains = question.offers, question.offers.domains[level]
    taken = np.zeros((len(offers.free), len(holds)), dtype=np.int64)
    for role, each in enumerate(question.roles):
        if role in scope.roles:
            taken += (offers.needs[role] * each.count)[:, None]
        elif len(there := np.unique(domains[caps[role] > 0])) == 1:  # others that can only be there need room, too
            taken[:, there[0]] += offers.needs[role] * each.count
    usable = caps.any(axis=0)
    for amounts, free in zip(taken, offers.free, strict=True):
        holds &= (amounts == 0) | (sums(domains, np.where(usable, free.clip(0), 0), len(holds)) >= amounts)
    return holds


def _is_small(question: Question) -> bool:
    return prod(role.count + 1 for role in question.roles) <= _MOST_STATES and _steps(question) <= _MOST_STEPS


def _steps(question: Question) -> int:
    """About how many additions tables of all roles together take."""
    tables = 2 + (len(question.counted) > 1) * len(question.counted) * question.offers.levels
    return _additions(question, range(len(question.roles))) * tables


def _steps_in_turn(question: Question) -> int:
    """The same of tables of one role after the other."""
    return 2 * sum(_additions(question, (role,)) for role in range(len(question.roles)))


def _additions(question: Question, roles: Sequence[int]) -> int:
    counts = [question.roles[role].count for role in roles]
    states = prod(count + 1 for count in counts)
    caps = np.minimum(question.offers.caps[list(roles)], np.array(counts)[:, None])
    entries = int((caps + 1).prod(axis=0).clip(0, states).sum())
    inner = sum(len(np.unique(level)) for level in question.offers.domains[:-1])
    return (entries + inner * states) * states


def _filled(question: Question) -> Packing | None:
    """Members without a constraint: role after role in the order of paths, from where members stand already.

    None if not all find a node so, as the roles that come first may take what others need.
    """
    if any(scope.required is not None for scope in question.scopes):
        return None
    left, counts = question, np.zeros_like(question.offers.caps)
    for role, each in enumerate(question.roles):
        caps = left.offers.caps[role]
        last = int(np.flatnonzero(question.offers.standing[role]).max(initial=0))
        order = np.roll(np.arange(len(caps)), -last)
        before = np.cumsum(caps[order]) - caps[order]
        counts[role, order] = np.clip(each.count - before, 0, caps[order])
        if int(counts[role].sum()) < each.count:
            return None
        left = replace(left, offers=_after(left, role, counts[role]))
    return Packing(counts, (0,), (0,))


# --- the search ---


class _Candidate(NamedTuple):
    """A domain that may hold the gang."""

    bound: Value
    """No placement inside of it is better."""
    nodes: Rows


class _Search:
    """Inside one domain if possible, the lowest level first, and of each level the most promising domains first.

    A placement in one domain of a level is better than any that is in several of them. Inside of a domain, tables
    decide as long as they are small, otherwise role after role is placed. `steps` bounds all of it.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._order = sorted(question.scopes, key=lambda scope: -len(scope.roles))
        self._steps = 2 * _MOST_STEPS
        self._tries = 0
        """How often roles may still be placed in turn inside of the domain that is looked at."""
        self._open: list[Value] = []
        """Bounds of what was not settled: looked at by the search, or not at all."""

    def run(self) -> Packing | None:
        """A placement of all members, with the best bound that is known."""
        question = self._question
        everyone = set(range(len(question.roles)))
        widest = next((scope for scope in self._order if scope.counts and set(scope.roles) == everyone), None)
        if widest is None:
            return self._in_scopes(question)
        for level in range(question.offers.levels - 1, (widest.required or 0) - 1, -1):
            found = self._alone(_candidates(question, widest, level))
            if found is not None:
                return replace(found, bound=min([found.value, *self._open]))
        if widest.required is not None:
            return None
        found = self._in_scopes(question)
        return None if found is None else replace(found, bound=min([found.bound, *self._open]))

    def _alone(self, candidates: Sequence[_Candidate]) -> Packing | None:
        """The best placement inside one of these domains, the most promising of which comes first."""
        best: Packing | None = None
        for number, candidate in enumerate(candidates):
            if best is not None and best.value <= candidate.bound:
                break
            if self._steps <= 0 and (best is not None or number >= _AT_LEAST):
                self._open.append(candidate.bound)
                break
            found = self._inside(candidate)
            if found is not None and (best is None or found.value < best.value):
                best = found
        return best

    def _inside(self, candidate: _Candidate) -> Packing | None:
        inner = replace(self._question, offers=renumbered(self._question.offers.at(candidate.nodes)))
        if _is_small(inner):
            self._steps -= max(_steps(inner), _LEAST_STEPS)
            found = pack_by_tables(inner)
        else:
            found = self._in_scopes(inner)
            self._open.append(candidate.bound)
        if found is None:
            return None
        counts = np.zeros_like(self._question.offers.caps)
        counts[:, candidate.nodes] = found.counts
        return replace(found, counts=counts)

    def _in_scopes(self, question: Question) -> Packing | None:
        """Bind the scopes with a required level to domains, and place the roles in turn."""
        self._tries = _MOST_TRIES if self._steps > 0 else 1
        return self._bound_to(question, self._order)

    def _bound_to(self, question: Question, order: Sequence[RoleScope]) -> Packing | None:
        for scope in order:
            if scope.required is None:
                continue
            used = question.offers.caps[list(scope.roles)].sum(axis=0) > 0
            if len(np.unique(question.offers.domains[scope.required][used])) <= 1:
                continue
            rest = [each for each in order if each is not scope]
            for narrowed in _inside(question, scope, scope.required):
                found = self._bound_to(narrowed, rest)
                if found is not None or self._tries <= 0:
                    return found
            return None
        self._tries -= 1
        self._steps -= _steps_in_turn(question)
        return _one_by_one(question)


def _candidates(question: Question, scope: RoleScope, level: int) -> list[_Candidate]:
    """The domains of a level that may hold a scope, the one with the smallest bound first, then the tightest."""
    offers = question.offers
    domains = offers.domains[level]
    holds = _holding(question, scope, level, offers.caps)
    standing = np.unique(domains[question.standing_of(scope) > 0])
    if len(standing):
        holds &= np.isin(np.arange(len(holds)), standing) & (len(standing) == 1)
    room = sums(domains, question.room_of(scope), len(holds))
    nodes = np.flatnonzero(holds[domains])
    nodes = nodes[np.argsort(domains[nodes], kind="stable")]
    parts = np.split(nodes, np.flatnonzero(np.diff(domains[nodes])) + 1) if len(nodes) else []
    found = [_Candidate(_bound(replace(question, offers=offers.at(part))), part) for part in parts]
    return sorted(found, key=lambda each: (each.bound, int(room[domains[each.nodes[0]]]), int(each.nodes[0])))


def _inside(question: Question, scope: RoleScope, level: int) -> Iterator[Question]:
    """The question with a scope bound to one domain of a level, for each that may hold it, the tightest first."""
    offers = question.offers
    holds = _holding(question, scope, level, offers.caps)
    standing = np.unique(offers.domains[level][question.standing_of(scope) > 0])
    if len(standing):
        holds &= np.isin(np.arange(len(holds)), standing)
    room = sums(offers.domains[level], question.room_of(scope), len(holds))
    domains = sorted(np.flatnonzero(holds).tolist(), key=lambda domain: (int(room[domain]), domain))
    for domain in domains[:_MOST_DOMAINS]:
        caps = offers.caps.copy()
        caps[np.ix_(list(scope.roles), offers.domains[level] != domain)] = 0
        yield replace(question, offers=replace(offers, caps=caps))


def _one_by_one(question: Question) -> Packing | None:
    """Each role by tables, in what the earlier ones left: what takes most first, or what has the largest pods."""
    roles = question.roles
    by_total = sorted(range(len(roles)), key=lambda r: -roles[r].amount * roles[r].count)
    by_size = sorted(range(len(roles)), key=lambda r: -roles[r].amount)
    found = _in_turn(question, by_total)
    return found if found is not None or by_size == by_total else _in_turn(question, by_size)


def _in_turn(question: Question, order: Sequence[int]) -> Packing | None:
    """One role after the other; the domains of earlier ones cost nothing more."""
    offers = question.offers
    counts = np.zeros_like(offers.caps)
    left = question
    for role in order:
        nodes = np.flatnonzero(left.offers.caps.any(axis=0) | left.offers.standing.any(axis=0))
        found = _one_role(replace(left, offers=left.offers.at(nodes)), role)
        if found is None:
            return None
        counts[role, nodes] = found
        left = replace(left, offers=_after(left, role, counts[role]))
    fits = fit_levels(question, counts)
    return Packing(counts, value_of(question, counts, fits), _bound(question), fits)


def _one_role(question: Question, role: int) -> Ints | None:
    """The members of one role on each node; None if they cannot all be placed."""
    offers = renumbered(question.offers)
    if not offers.standing.any():
        scopes = tuple(replace(each, roles=(0,)) for each in question.scopes if role in each.roles)
        single = Question(offers.of_role(role), (question.roles[role],), scopes[-1:])
        if suits(single):
            alike = pack_alike(single)
            return None if alike is None else alike.counts[0]
    roles = tuple(each if r == role else _nobody(each) for r, each in enumerate(question.roles))
    found = pack_by_tables(Question(offers, roles, question.scopes))
    return None if found is None else found.counts[role]


def _nobody(role: Role) -> Role:
    return replace(role, count=0, least=0, layers=())


def _after(question: Question, role: int, placed: Ints) -> Offers:
    """What is left once members of a role are placed."""
    offers = question.offers
    free = offers.free - offers.needs[role][:, None] * placed[None, :]
    needs = offers.needs[:, :, None]
    fits = np.where(needs > 0, free[None, :, :] // np.maximum(needs, 1), np.iinfo(np.int64).max).min(axis=1)
    standing = offers.standing.copy()
    standing[role] += placed
    spare = offers.spare - question.roles[role].amount * placed
    return replace(offers, free=free, caps=np.minimum(offers.caps, fits.clip(0)), standing=standing, spare=spare)


def _bound(question: Question) -> Value:
    """No placement of all members uses fewer domains: of no scope fewer than one of its roles, or all in amounts, need.

    Domains in which members stand are used in any case, and what they have room for costs nothing.
    """
    found = [0]
    for level in question.offers.domains if question.counted else ():
        _, domains = np.unique(level, return_inverse=True)
        number = int(domains.max(initial=-1)) + 1
        found.append(sum(_fewest_of(question, scope, domains, number) for scope in question.counted))
    return tuple(found)


def _fewest_of(question: Question, scope: RoleScope, domains: Rows, number: int) -> int:
    roles, offers = question.roles, question.offers
    used = sums(domains, question.standing_of(scope), number) > 0
    wanted = [(roles[r].count, sums(domains, offers.caps[r], number)) for r in scope.roles]
    amount = sum(roles[r].amount * roles[r].count for r in scope.roles)
    open_to = offers.caps[list(scope.roles)].any(axis=0)
    wanted.append((amount, sums(domains, np.where(open_to, offers.spare.clip(0), 0), number)))
    members = np.array([roles[r].count for r in scope.roles], dtype=np.int64)
    for needed, free in zip((members @ offers.needs[list(scope.roles)]).tolist(), offers.free, strict=True):
        wanted.append((needed, sums(domains, np.where(open_to, free.clip(0), 0), number)))
    more = max((_fewest(max(count - int(room[used].sum()), 0), room[~used]) for count, room in wanted), default=0)
    return int(used.sum()) + more


def _fewest(count: int, room: Ints) -> int:
    """How many domains with so much room hold so many members at least."""
    return int(np.searchsorted(np.cumsum(np.sort(room)[::-1]), count)) + 1 if count else 0
