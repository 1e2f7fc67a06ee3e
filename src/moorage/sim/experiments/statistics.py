"""Student's t for paired differences: intervals of means, and how likely a difference is by chance alone.

The distribution is computed from the incomplete beta function; no library beyond the standard one is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, lgamma, log, sqrt
from typing import NamedTuple, TypeVar

K = TypeVar("K")

CONFIDENCE = 0.95
_STEPS = 500
_EXACT = 1e-14
_TINY = 1e-300
_PAIR = 2


class MeanInterval(NamedTuple):
    """A mean with the interval in which the true one is, 19 times out of 20; None of a single value."""

    mean: float
    low: float | None
    high: float | None
    number: int
    chance: float | None = None
    """How likely a mean so far from 0 is if there is no difference; None of a single value."""


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Of values that may be taken for samples of a normal distribution."""
    number = len(values)
    mean = sum(values) / number
    if number < _PAIR:
        return MeanInterval(mean, None, None, number)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (number - 1))
    error = spread / sqrt(number)
    if error <= _EXACT * max(abs(mean), _TINY):
        return MeanInterval(mean, mean, mean, number, 1.0 if mean == 0 else 0.0)
    reach = t_quantile(CONFIDENCE, number - 1) * error
    return MeanInterval(mean, mean - reach, mean + reach, number, t_chance(mean / error, number - 1))


def t_chance(t: float, freedom: int) -> float:
    """The probability that Student's t with so many degrees of freedom is at least as far from 0."""
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def t_quantile(confidence: float, freedom: int) -> float:
    """How far from 0 Student's t is at most, with this probability."""
    low, high = 0.0, 1.0
    while t_chance(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_chance(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Its continued fraction, from the front (Lentz's method)."""
    above, below = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    found = below
    for step in range(1, _STEPS):
        for numerator in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            below = 1 / _away(1 + numerator * below)
            above = _away(1 + numerator / above)
            found *= above * below
        if abs(above * below - 1) < _EXACT:
            break
    return found


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def adjusted(chances: Mapping[K, float]) -> dict[K, float]:
    """The same probabilities if several differences are looked at together (Holm's method)."""
    found: dict[K, float] = {}
    least = 0.0
    for rank, (key, chance) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        least = max(least, min(chance * (len(chances) - rank), 1.0))
        found[key] = least
    return found


def relative(difference: float, before: float) -> float | None:
    """A difference as a part of what was before; None where there was nothing."""
    part = difference / abs(before) if before else inf
    return None if part == inf else part
