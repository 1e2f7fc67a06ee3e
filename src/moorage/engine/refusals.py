"""What a round of making room does not give, as the next one would take it back: others would go for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moorage.engine.roomparts import Claimant
from moorage.framework.gang_capacity import kind_of

Kind = tuple[object, ...]
"""Units of one leaf with equal pods: what helps one of them helps all, in their order."""


def kind_of_claimant(claimant: Claimant) -> Kind:
    """The kind of the pods that a unit would place next."""
    return claimant.leaf, *(kind_of(entry.pod) for entry in claimant.entries)


class Refusals:
    """How many units of a kind may get room at the most; grows with every try of the round."""

    def __init__(self) -> None:
        self._most: dict[Kind, int] = {}

    def most(self, kind: Kind) -> int | None:
        """How many units of a kind may get room; None if that does not matter."""
        return self._most.get(kind)

    def learn(self, given: Iterable[Claimant], kept: Iterable[Claimant]) -> bool:
        """These got room, and would keep it in the next round; returns whether that is less for any kind."""
        had, left = Counter(map(kind_of_claimant, given)), Counter(map(kind_of_claimant, kept))
        fewer = {kind: left[kind] for kind, count in had.items() if left[kind] < count}
        self._most |= fewer
        return bool(fewer)
