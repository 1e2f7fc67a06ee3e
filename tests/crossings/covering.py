"""Which capabilities meet in which world: every pair that may, once in every round of worlds.

A round is made greedily: each world gets the capabilities that add most pairs that are still missing. The rounds of a
seed differ, so that triples vary.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from random import Random

from tests.crossings.capabilities import EXCLUDED, PRESSURE, TABLE

MEETING = 8
"""Capabilities of a world."""
_TRIES = 6
Pair = frozenset[str]


def pairs(names: Iterable[str]) -> set[Pair]:
    """All pairs of these."""
    return {frozenset(pair) for pair in combinations(names, 2)}


def wanted(names: Sequence[str] = tuple(TABLE), excluded: Mapping[Pair, str] = EXCLUDED) -> set[Pair]:
    """All pairs that may meet."""
    return pairs(names) - excluded.keys()


def rows(
    draw: Random, names: Sequence[str], excluded: Mapping[Pair, str], meeting: int = MEETING
) -> Iterator[tuple[str, ...]]:
    """Sets of capabilities that cover all pairs."""
    missing = wanted(names, excluded)
    while missing:
        found = [_row(draw, names, excluded, missing, meeting) for _ in range(_TRIES)]
        best = max(found, key=lambda row: len(pairs(row) & missing))
        missing -= pairs(best)
        yield best


def _row(
    draw: Random, names: Sequence[str], excluded: Mapping[Pair, str], missing: set[Pair], meeting: int
) -> tuple[str, ...]:
    row = sorted(draw.choice(sorted(missing, key=sorted)))
    while len(row) < meeting:
        able = [
            each for each in names if each not in row and not any(frozenset({each, other}) in excluded for other in row)
        ]
        if not able:
            break
        gains = {each: sum(frozenset({each, other}) in missing for other in row) for each in able}
        most = max(gains.values())
        row.append(draw.choice([each for each in able if gains[each] == most]))
    return tuple(each for each in names if each in row)


@functools.lru_cache(maxsize=4)
def round_of(seed: int, number: int) -> tuple[tuple[str, ...], ...]:
    """The sets of one round."""
    return tuple(rows(Random(f"{seed}/{number}"), tuple(TABLE), EXCLUDED))


def capabilities_of(seed: int, number: int) -> tuple[str, ...]:
    """The capabilities of a world, by its number: those of its row, and some for which others have to give way."""
    turn = 0
    while number >= len(round_of(seed, turn)):
        number -= len(round_of(seed, turn))
        turn += 1
    row = round_of(seed, turn)[number]
    more = Random(f"{seed}/{turn}/{number}").choice(PRESSURE)
    return tuple(each for each in TABLE if each in row or (each in more and _may_meet(each, row)))


def _may_meet(name: str, row: Iterable[str]) -> bool:
    return not any(frozenset({name, other}) in EXCLUDED for other in row)
