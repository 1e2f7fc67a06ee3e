"""Roles that differ in nothing but their names are placed as one, and what was found is dealt out to them again.

A launcher and workers of the same size, or four workers' roles of a hundred pods each: tables of one role are small.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.packing import Offers, Question, Role, RoleScope


class Merged:
    """A question with alike roles put together."""

    def __init__(self, question: Question, parts: list[list[int]]) -> None:
        self._given, self._parts = question, parts
        offers, first = question.offers, [part[0] for part in parts]
        of_role = {role: number for number, part in enumerate(parts) for role in part}
        self.question = Question(
            Offers(
                offers.domains, offers.caps[first], offers.spare, offers.eligible[first],
                np.stack([offers.standing[part].sum(axis=0) for part in parts]), offers.liking[first],
                offers.needs[first], offers.free,
            ),
            tuple(_sum([question.roles[role] for role in part]) for part in parts),
            tuple(replace(scope, roles=_distinct(of_role, scope)) for scope in question.scopes),
        )  # fmt: skip

    def dealt(self, counts: Ints) -> Ints:
        """What was found for the merged roles, for the roles that were given: in the order of paths, role after role.

        Every domain of a layer holds whole slices, and so does every role: none is cut.
        """
        found = np.zeros_like(self._given.offers.caps)
        for number, part in enumerate(self._parts):
            before = np.cumsum(counts[number]) - counts[number]
            start = 0
            for role in part:
                end = start + self._given.roles[role].count
                found[role] = np.clip(np.minimum(before + counts[number], end) - np.maximum(before, start), 0, None)
                start = end
        return found


def merged(question: Question) -> Merged | None:
    """The question with alike roles put together; None if no two are alike."""
    parts: dict[Hashable, list[int]] = {}
    for role in range(len(question.roles)):
        parts.setdefault(_likeness(question, role), []).append(role)
    return Merged(question, [*parts.values()]) if len(parts) < len(question.roles) else None


def _likeness(question: Question, role: int) -> Hashable:
    """What roles have in common that may be put together."""
    offers, each = question.offers, question.roles[role]
    if each.layers and (offers.standing.any() or each.count % each.layers[0].size):
        return role
    scopes = tuple(number for number, scope in enumerate(question.scopes) if role in scope.roles)
    columns = (offers.caps[role], offers.eligible[role], offers.liking[role], offers.needs[role])
    return each.layers, each.amount, scopes, *(column.tobytes() for column in columns)


def _sum(roles: list[Role]) -> Role:
    return replace(roles[0], count=sum(role.count for role in roles), least=sum(role.least for role in roles))


def _distinct(of_role: dict[int, int], scope: RoleScope) -> tuple[int, ...]:
    return tuple(dict.fromkeys(of_role[role] for role in scope.roles))
