"""Which differences between two sets of results are real: paired by seed, with intervals.

A pair is the same input, change and seed on both sides. A difference is real if it is unlikely to be chance (5 % for
all of a table together, by Holm's method), and fewer than `FEWEST` seeds are too few to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from moorage.core.values import dataclass
from moorage.sim.experiments.goals import better_larger
from moorage.sim.experiments.results import ResultRow
from moorage.sim.experiments.statistics import MeanInterval, adjusted, mean_interval, relative

FEWEST = 5
"""With fewer seeds nothing is called real."""
_LIKELY = 0.05


class DifferenceVerdict(StrEnum):
    """What is known about a difference."""

    EQUAL = "equal"
    """In every pair."""
    BETTER = "better"
    WORSE = "worse"
    OTHER = "differs"
    """Really, and neither is better."""
    UNCLEAR = "not clear"
    """It may be chance."""
    TOO_FEW = "too few seeds"


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure on both sides; B less A."""

    input: str
    change: str
    configurations: tuple[str, str]
    measure: str
    of: str
    unit: str
    before: float
    """The mean of A."""
    after: float
    """The mean of B."""
    difference: MeanInterval
    chance: float | None
    """How likely such a difference is by chance, all rows considered."""
    verdict: DifferenceVerdict

    @property
    def relative(self) -> float | None:
        """The difference as a part of what A has."""
        return relative(self.difference.mean, self.before)


class ComparisonError(ValueError):
    """Results that cannot be compared; the text is one line."""


class _Key(NamedTuple):
    input: str
    change: str
    configurations: tuple[str, str]
    measure: str
    of: str
    unit: str


def compare(
    a: Sequence[ResultRow], b: Sequence[ResultRow], configuration_a: str = "", configuration_b: str = ""
) -> list[Compared]:
    """All measures that both sides have; `ComparisonError` if nothing can be paired.

    Where a configuration is named, it is compared with the one of the other side; otherwise each with its namesake, or
    the only one with the only one.
    """
    pairs = _configurations(_named(a, configuration_a, "A"), _named(b, configuration_b, "B"))
    values: dict[_Key, list[tuple[float, float]]] = {}
    for one, other in pairs:
        left, right = _values(a, one), _values(b, other)
        for key in left:
            if key in right:
                name, change, seed, measure, of, unit = key
                del seed
                values.setdefault(_Key(name, change, (one, other), measure, of, unit), []).append(
                    (left[key], right[key])
                )
    if not values:
        raise ComparisonError("there is no input, change and seed that both have; compare runs of the same experiment")
    return [*_judged(values)]


def _named(rows: Sequence[ResultRow], name: str, side: str) -> list[str]:
    known = list(dict.fromkeys(row.configuration for row in rows))
    if not known:
        raise ComparisonError(f"{side} has no results")
    if name and name not in known:
        raise ComparisonError(f"{side} has no configuration {name!r}; it has {', '.join(known)}")
    return [name] if name else known


def _configurations(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str]]:
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    both = [(name, name) for name in a if name in b]
    if not both:
        raise ComparisonError(
            f"A has the configurations {', '.join(a)}, and B {', '.join(b)}; name one of each, as in A:NAME B:NAME"
        )
    return both


def _values(rows: Sequence[ResultRow], configuration: str) -> dict[tuple[str, str, int, str, str, str], float]:
    return {
        (row.input, row.change, row.seed, row.measure, row.of, row.unit): row.value
        for row in rows
        if row.configuration == configuration
    }


def _judged(values: Mapping[_Key, Sequence[tuple[float, float]]]) -> Iterator[Compared]:
    differences = {key: mean_interval([after - before for before, after in pairs]) for key, pairs in values.items()}
    chances = {
        key: each.chance
        for key, each in differences.items()
        if each.chance is not None and each.number >= FEWEST and any(a != b for a, b in values[key])
    }
    together = adjusted(chances)
    for key, pairs in values.items():
        before, after = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        chance = together.get(key)
        equal = all(one == other for one, other in pairs)
        verdict = _verdict(key.measure, differences[key], chance, equal=equal)
        yield Compared(*key, before, after, differences[key], chance, verdict)


def _verdict(measure: str, difference: MeanInterval, chance: float | None, *, equal: bool) -> DifferenceVerdict:
    if equal:
        return DifferenceVerdict.EQUAL
    if difference.number < FEWEST:
        return DifferenceVerdict.TOO_FEW
    if chance is None or chance >= _LIKELY:
        return DifferenceVerdict.UNCLEAR
    larger = better_larger(measure)
    if larger is None:
        return DifferenceVerdict.OTHER
    return DifferenceVerdict.BETTER if (difference.mean > 0) == larger else DifferenceVerdict.WORSE


def comparison_document(found: Sequence[Compared]) -> list[dict[str, Any]]:
    """As plain values."""
    return [
        {
            "input": each.input,
            "change": each.change,
            "a": each.configurations[0],
            "b": each.configurations[1],
            "measure": each.measure,
            "of": each.of,
            "unit": each.unit,
            "meanA": each.before,
            "meanB": each.after,
            "difference": each.difference.mean,
            "low": each.difference.low,
            "high": each.difference.high,
            "relative": each.relative,
            "pairs": each.difference.number,
            "chance": each.chance,
            "verdict": each.verdict.value,
        }
        for each in found
    ]
