"""The placement of a gang: exact where that is cheap, otherwise by a search with a bound on its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from math import prod

import numpy as np

from moorage.core.arrays import Ints, Mask
from moorage.core.packalike import most_alike, pack_alike, renumbered, suits
from moorage.core.packing import Ground, Packing, Question, Role, RoleScope, Value, fit_levels, held, sums, value_of
from moorage.core.packtables import pack_by_tables

_MOST_STATES = 1 << 12
_MOST_STEPS = 20_000_000
"""Up to this many additions of costs, tables decide; about 0.1 s.

The search, and all tries to leave members out together, may take a few times as many.
"""
_MOST_TARGETS = 64
"""So many ways to leave members out are tried at most."""
_MOST_DOMAINS = 24
"""So many domains are tried at most for one scope by the search."""


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
    found = _pack_all(Question(question.ground, roles, question.scopes))
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
    return pack_by_tables(narrowed) if _is_small(narrowed) else _search(narrowed)


def _narrowed(question: Question) -> Question | None:
    """The question without room in domains that cannot hold a scope as a whole; None if no domain can."""
    ground, caps = question.ground, question.ground.caps.copy()
    for scope in question.scopes:
        if scope.required is None:
            continue
        domains = ground.domains[scope.required]
        holds = _holding(question, scope, scope.required, caps)
        if not holds.any() and any(question.roles[role].count for role in scope.roles):
            return None
        caps[np.ix_(list(scope.roles), ~holds[domains])] = 0
    if any(int(caps[r].sum()) < role.count for r, role in enumerate(question.roles)):
        return None
    return replace(question, ground=replace(ground, caps=caps))


def _holding(question: Question, scope: RoleScope, level: int, caps: Ints) -> Mask:
    """Which domains of a level may have room for a scope as a whole: each role by itself has."""
    holds: Mask = np.ones(int(question.ground.domains[level].max(initial=-1)) + 1, dtype=np.bool_)
    for role in scope.roles:
        holds &= held(question, role, level, caps) >= question.roles[role].count
    return holds


def _is_small(question: Question) -> bool:
    return prod(role.count + 1 for role in question.roles) <= _MOST_STATES and _steps(question) <= _MOST_STEPS


def _steps(question: Question) -> int:
    """About how many additions tables take."""
    states = prod(role.count + 1 for role in question.roles)
    caps = np.minimum(question.ground.caps, [[role.count] for role in question.roles])
    entries = int((caps + 1).prod(axis=0).clip(0, states).sum())
    inner = sum(len(np.unique(level)) for level in question.ground.domains[:-1])
    tables = 2 + (len(question.counted) > 1) * len(question.counted) * question.ground.levels
    return (entries + inner * states) * states * tables


def _filled(question: Question) -> Packing | None:
    """Members without a constraint: role after role in the order of paths, from where members stand already.

    None if not all find a node so, as the roles that come first may take what others need.
    """
    if any(scope.required is not None for scope in question.scopes):
        return None
    left, counts = question, np.zeros_like(question.ground.caps)
    for role, each in enumerate(question.roles):
        caps = left.ground.caps[role]
        last = int(np.flatnonzero(question.ground.standing[role]).max(initial=0))
        order = np.roll(np.arange(len(caps)), -last)
        before = np.cumsum(caps[order]) - caps[order]
        counts[role, order] = np.clip(each.count - before, 0, caps[order])
        if int(counts[role].sum()) < each.count:
            return None
        left = replace(left, ground=_after(left, role, counts[role]))
    return Packing(counts, (0,), (0,))


# --- the search ---


def _search(question: Question) -> Packing | None:
    """Role after role, inside domains that may hold the scopes, the lowest level and the tightest domains first."""
    order = sorted(question.scopes, key=lambda scope: -len(scope.roles))
    widest = next((scope for scope in order if scope.counts), None)
    best: Packing | None = None
    members = sum(role.count + 1 for role in question.roles)
    left = max(min(_MOST_DOMAINS, 4 * _MOST_STEPS // (len(question.ground.spare) * members + 1)), 2)
    if widest is not None:
        for level in range(question.ground.levels - 1, (widest.required or 0) - 1, -1):
            for narrowed in islice(_inside(question, widest, level), left):
                left -= 1
                found = _place(narrowed, order)
                if found is not None and (best is None or found.value < best.value):
                    best = found
            if best is not None:
                return best
        if widest.required is not None:
            return None
    return _place(question, order)


def _inside(question: Question, scope: RoleScope, level: int) -> Iterator[Question]:
    """The question with a scope bound to one domain of a level, for each that may hold it, the tightest first."""
    ground = question.ground
    holds = _holding(question, scope, level, ground.caps)
    standing = np.unique(ground.domains[level][question.standing_of(scope) > 0])
    if len(standing):
        holds &= np.isin(np.arange(len(holds)), standing)
    room = sums(ground.domains[level], question.room_of(scope), len(holds))
    domains = sorted(np.flatnonzero(holds).tolist(), key=lambda domain: (int(room[domain]), domain))
    for domain in domains[:_MOST_DOMAINS]:
        caps = ground.caps.copy()
        caps[np.ix_(list(scope.roles), ground.domains[level] != domain)] = 0
        yield replace(question, ground=replace(ground, caps=caps))


def _place(question: Question, order: list[RoleScope]) -> Packing | None:
    """Bind the scopes with a required level to domains, the first that works out, and place the roles."""
    for scope in order:
        if scope.required is None:
            continue
        used = question.ground.caps[list(scope.roles)].sum(axis=0) > 0
        if len(np.unique(question.ground.domains[scope.required][used])) <= 1:
            continue
        rest = [each for each in order if each is not scope]
        found = (_place(each, rest) for each in _inside(question, scope, scope.required))
        return next((each for each in found if each is not None), None)
    return _one_by_one(question)


def _one_by_one(question: Question) -> Packing | None:
    """Each role by tables, in what the earlier ones left; their domains cost nothing more."""
    ground = question.ground
    counts = np.zeros_like(ground.caps)
    left = question
    for role in sorted(range(len(question.roles)), key=lambda r: -question.roles[r].amount * question.roles[r].count):
        nodes = np.flatnonzero(left.ground.caps.any(axis=0) | left.ground.standing.any(axis=0))
        found = _one_role(replace(left, ground=left.ground.at(nodes)), role)
        if found is None:
            return None
        counts[role, nodes] = found
        left = replace(left, ground=_after(left, role, counts[role]))
    fits = fit_levels(question, counts)
    return Packing(counts, value_of(question, counts, fits), _bound(question), fits)


def _one_role(question: Question, role: int) -> Ints | None:
    """The members of one role on each node; None if they cannot all be placed."""
    ground = renumbered(question.ground)
    if not ground.standing.any():
        scopes = tuple(replace(each, roles=(0,)) for each in question.scopes if role in each.roles)
        single = Question(ground.of_role(role), (question.roles[role],), scopes[-1:])
        if suits(single):
            alike = pack_alike(single)
            return None if alike is None else alike.counts[0]
    roles = tuple(each if r == role else _nobody(each) for r, each in enumerate(question.roles))
    found = pack_by_tables(Question(ground, roles, question.scopes))
    return None if found is None else found.counts[role]


def _nobody(role: Role) -> Role:
    return replace(role, count=0, least=0, layers=())


def _after(question: Question, role: int, placed: Ints) -> Ground:
    """What is left once members of a role are placed."""
    ground = question.ground
    free = ground.free - ground.needs[role][:, None] * placed[None, :]
    needs = ground.needs[:, :, None]
    fits = np.where(needs > 0, free[None, :, :] // np.maximum(needs, 1), np.iinfo(np.int64).max).min(axis=1)
    standing = ground.standing.copy()
    standing[role] += placed
    spare = ground.spare - question.roles[role].amount * placed
    return replace(ground, free=free, caps=np.minimum(ground.caps, fits.clip(0)), standing=standing, spare=spare)


def _bound(question: Question) -> Value:
    """No placement of all members uses fewer domains: of no scope fewer than one of its roles needs by itself."""
    found = [0]
    for domains in question.ground.domains if question.counted else ():
        number = int(domains.max(initial=-1)) + 1
        least = 0
        for scope in question.counted:
            roles = [(question.roles[r].count, sums(domains, question.ground.caps[r], number)) for r in scope.roles]
            least += max((_fewest(count, room) for count, room in roles), default=0)
        found.append(least)
    return tuple(found)


def _fewest(count: int, room: Ints) -> int:
    """How many domains with so much room hold so many members at least."""
    return int(np.searchsorted(np.cumsum(np.sort(room)[::-1]), count)) + 1 if count else 0
