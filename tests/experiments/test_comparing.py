"""Which differences are real."""

from __future__ import annotations

import random

import pytest

from moorage.sim.experiments.comparing import ComparisonError, DifferenceVerdict, compare
from moorage.sim.experiments.results import ResultRow
from moorage.sim.experiments.statistics import adjusted, mean_interval, t_chance, t_quantile

QUANTILES = {1: 12.706205, 2: 4.302653, 4: 2.776445, 9: 2.262157, 30: 2.042272, 120: 1.979930}
"""Degrees of freedom -> the quantile of tables for 95 %, two-sided."""


@pytest.mark.parametrize(("freedom", "want"), QUANTILES.items())
def test_student(freedom: int, want: float) -> None:
    """Quantiles are those of published tables, and chances their inverse."""
    assert t_quantile(0.95, freedom) == pytest.approx(want, abs=1e-6)
    assert t_chance(want, freedom) == pytest.approx(0.05, abs=1e-6)


def test_intervals() -> None:
    """Mean, interval and chance, of a textbook's numbers and of the edges."""
    found = mean_interval([1, 2, 3, 4, 5])
    assert (found.mean, found.number) == (3, 5)
    assert found.low == pytest.approx(1.0367568)
    assert found.high == pytest.approx(4.9632432)
    assert mean_interval([2.0]).low is None
    assert mean_interval([2.0, 2.0])[:3] == (2.0, 2.0, 2.0)


def test_holm() -> None:
    """The least of n counts n-fold, the next n - 1 fold, and the order stays."""
    assert adjusted({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def rows(configuration: str, values: list[float], measure: str = "allocated", of: str = "cpu") -> list[ResultRow]:
    """A figure for each seed."""
    return [
        ResultRow("i", configuration, "none", seed, measure, of, value, "share") for seed, value in enumerate(values)
    ]


TEN = [0.5 + seed / 100 for seed in range(10)]
"""Seeds differ by far more than what is compared."""
MORE = [each + 0.01 + 0.001 * (seed % 2) for seed, each in enumerate(TEN)]
NOISY = [each + (0.02 if seed % 2 else -0.019) for seed, each in enumerate(TEN)]

CASES: dict[str, tuple[list[float], list[float], str, DifferenceVerdict]] = {
    "better, against the noise of seeds": (TEN, MORE, "allocated", DifferenceVerdict.BETTER),
    "worse": (TEN, MORE, "pending", DifferenceVerdict.WORSE),
    "neither is better": (TEN, [each + 1 for each in TEN], "pods", DifferenceVerdict.OTHER),
    "equal": (TEN, TEN, "allocated", DifferenceVerdict.EQUAL),
    "chance": (TEN, NOISY, "allocated", DifferenceVerdict.UNCLEAR),
    "too few": (TEN[:3], [each + 0.1 for each in TEN[:3]], "allocated", DifferenceVerdict.TOO_FEW),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "measure", "want"), CASES.values(), ids=CASES)
def test_verdicts(a: list[float], b: list[float], measure: str, want: DifferenceVerdict) -> None:
    """Pairs of the same seed are compared, so that what seeds have in common does not matter."""
    (found,) = compare(rows("x", a, measure), rows("y", b, measure))
    assert found.verdict is want
    assert found.difference.number == len(a)


def test_many_measures_need_more() -> None:
    """Of a hundred measures without a difference none is called real, though five are below 5 % by themselves."""
    dice = random.Random(7)
    a = [row for number in range(100) for row in rows("x", [0.0] * 10, of=f"m{number}")]
    b = [row for number in range(100) for row in rows("y", [dice.gauss(0, 1) for _ in range(10)], of=f"m{number}")]
    found = compare(a, b)
    assert sum((each.difference.chance or 1) < 0.05 for each in found) >= 2
    assert not [each for each in found if each.verdict is not DifferenceVerdict.UNCLEAR]


def test_names() -> None:
    """Configurations of one table are compared by name, those of two tables with their namesakes."""
    table = [*rows("x", TEN), *rows("y", [each + 1 for each in TEN])]
    (found,) = compare(table, table, "x", "y")
    assert found.configurations == ("x", "y")
    assert [each.configurations for each in compare(table, table)] == [("x", "x"), ("y", "y")]
    with pytest.raises(ComparisonError, match="A has no configuration 'z'; it has x, y"):
        compare(table, table, "z", "y")
    with pytest.raises(ComparisonError, match="name one of each"):
        compare(table, [*rows("v", TEN), *rows("w", TEN)])
    with pytest.raises(ComparisonError, match="no input, change and seed that both have"):
        compare(rows("x", TEN), [row._replace(input="other") for row in rows("x", TEN)])
    with pytest.raises(ComparisonError, match="B has no results"):
        compare(table, [])
