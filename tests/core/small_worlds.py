"""Small random worlds for the placement of gangs, and the best placement by trying everything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.packing import Layer, Offers, Question, Role, RoleScope, Value, sums, used_domains, value_of

RESOURCES = 2


def small_world(rng: Random) -> Question:
    """A question with up to 6 nodes, 3 levels and 3 roles."""
    levels, nodes = rng.randint(1, 3), rng.randint(1, 6)
    roles = rng.choice([1, 1, 1, 2, 2, 3])
    needs = np.array([[rng.randint(1, 2), rng.randint(0, 2)] for _ in range(roles)])
    free = np.array([[rng.randint(0, 5) for _ in range(nodes)] for _ in range(RESOURCES)])
    eligible = np.array([[rng.random() < 0.85 for _ in range(nodes)] for _ in range(roles)])
    fitting = np.where(needs[:, :, None] > 0, free[None] // np.maximum(needs, 1)[:, :, None], 99).min(axis=1)
    standing = np.zeros((roles, nodes), dtype=np.int64)
    if rng.random() < 0.3:
        standing[:] = [[rng.choice([0, 0, 1, 2]) for _ in range(nodes)] for _ in range(roles)]
    liking = np.zeros((roles, nodes), dtype=np.int64)
    if rng.random() < 0.25:
        liking[:] = [[rng.choice([0, 0, 5, 10]) for _ in range(nodes)] for _ in range(roles)]
    offers = Offers(
        _domains(rng, levels, nodes), np.where(eligible, fitting, 0), free[0], eligible, standing, liking, needs, free
    )
    made = tuple(_role(rng, levels, roles, bool(standing[r].any()), int(needs[r, 0])) for r in range(roles))
    return Question(offers, made, _scopes(rng, levels, roles))


def _domains(rng: Random, levels: int, nodes: int) -> Rows:
    paths = []
    for node in range(nodes):
        last = node if rng.random() < 0.6 else rng.randint(0, 2)
        paths.append((*(rng.randint(0, 1 + (level > 0)) for level in range(levels - 1)), last))
    paths.sort()
    domains = np.zeros((levels, nodes), dtype=np.intp)
    for level in range(levels):
        known = sorted({path[: level + 1] for path in paths})
        domains[level] = [known.index(path[: level + 1]) for path in paths]
    return domains


def _role(rng: Random, levels: int, roles: int, stands: bool, amount: int) -> Role:
    count = rng.randint(1, 5 if roles == 1 else 3)
    layers: tuple[Layer, ...] = ()
    if rng.random() < 0.4:
        level, size = rng.randint(0, levels - 1), rng.choice([1, 2, 2, 3])
        count = count if stands else max(1, count // size) * size
        layers = (Layer(level, size),)
        if size == 2 and level < levels - 1 and rng.random() < 0.3:
            layers = (*layers, Layer(rng.randint(level + 1, levels - 1), rng.choice([1, 2])))
    return Role(count, count, layers, amount)


def _scopes(rng: Random, levels: int, roles: int) -> tuple[RoleScope, ...]:
    found, kind = [], rng.random()
    if roles == 1 or kind < 0.5:
        found.append(tuple(range(roles)))
    if roles > 1 and kind > 0.3:
        found.extend((role,) for role in range(roles) if rng.random() < 0.7)
    scopes = tuple(RoleScope(each, rng.choice([None, rng.randint(0, levels - 1)])) for each in found)
    return scopes or (RoleScope(tuple(range(roles)), counts=rng.random() < 0.5),)


def best_of_all(question: Question) -> Value | None:
    """The best value there is, None if not all members can be placed."""
    allowed = [counts for counts in _placements(question) if _is_allowed(question, counts)]
    levels = range(question.offers.levels)
    fits = [
        max((j for j in levels if any(len(used_domains(question, scope, c, j)) <= 1 for c in allowed)), default=0)
        for scope in question.counted
    ]
    return min((value_of(question, counts, fits) for counts in allowed), default=None)


def _placements(question: Question) -> Iterator[Ints]:
    ways = [
        [*_ways(role.count, caps.tolist())] for role, caps in zip(question.roles, question.offers.caps, strict=True)
    ]
    for each in product(*ways):
        yield np.array(each, dtype=np.int64)


def _ways(count: int, caps: list[int]) -> Iterator[tuple[int, ...]]:
    if not caps:
        if not count:
            yield ()
        return
    for here in range(min(count, caps[0]) + 1):
        yield from ((here, *rest) for rest in _ways(count - here, caps[1:]))


def _is_allowed(question: Question, counts: Ints) -> bool:
    offers = question.offers
    taken = offers.needs.T @ counts
    if ((taken > offers.free) & (taken > 0)).any():
        return False
    for scope in question.scopes:
        if scope.required is not None:
            domains = offers.domains[scope.required]
            new = np.unique(domains[counts[list(scope.roles)].sum(axis=0) > 0])
            old = np.unique(domains[question.standing_of(scope) > 0])
            if len(new) > 1 or (len(old) and not np.isin(new, old).all()):
                return False
    return all(
        not (sums(offers.domains[layer.level], counts[r] + offers.standing[r], 16) % layer.size).any()
        for r, role in enumerate(question.roles)
        for layer in role.layers
    )
