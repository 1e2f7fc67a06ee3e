"""Finds the selectors that may match some labels without trying them all.

A selector that demands certain values of a label is kept under these pairs; the others are tried for every question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from moorage.core.selectors import Operator, Selector

T = TypeVar("T")

Pair = tuple[str, str]
"""A label's key and value."""


def demanded_pairs(selector: Selector) -> list[tuple[Pair, ...]]:
    """Per requirement that names values the pairs of which one must be there; empty if there is no such requirement."""
    return [
        tuple((requirement.key, value) for value in requirement.values)
        for requirement in selector.requirements
        if requirement.operator is Operator.IN
    ]


class SelectorIndex(Generic[T]):
    """Items (each at most once) with their selectors."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[T, None]] = {}
        self._anywhere: dict[T, None] = {}
        self._pairs: dict[T, tuple[Pair, ...] | None] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, item: T, selector: Selector) -> None:
        """Keep an item where the fewest others are."""
        choices = demanded_pairs(selector)
        pairs = min(choices, key=self._crowd) if choices else None
        self._pairs[item] = pairs
        if pairs is None:
            self._anywhere[item] = None
            return
        for pair in pairs:
            self._by_pair.setdefault(pair, {})[item] = None

    def remove(self, item: T) -> None:
        """Forget an item."""
        pairs = self._pairs.pop(item)
        if pairs is None:
            del self._anywhere[item]
            return
        for pair in pairs:
            there = self._by_pair[pair]
            del there[item]
            if not there:
                del self._by_pair[pair]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Every item whose selector may match, each once; all others do not match."""
        by_pair = self._by_pair
        for pair in labels.items():
            there = by_pair.get(pair)
            if there is not None:
                yield from there
        yield from self._anywhere

    def _crowd(self, pairs: tuple[Pair, ...]) -> tuple[int, int]:
        return sum(len(self._by_pair.get(pair, ())) for pair in pairs), len(pairs)
