"""How one amount of a resource is divided among sibling queues: guarantees first, the rest by priority and weight.

Whole units only (a millicore, a byte, a device) and exact integers throughout, so the result depends on nothing but the
claims; ties are broken by age, then by name. Time-based shares lower the portion of queues that used much lately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

UNLIMITED = 1 << 100
"""A quota or a limit that nothing reaches: larger than any sum of amounts."""
PARTS = 1_000_000
"""Usage is given in millionths."""


class Claim(NamedTuple):
    """What one queue may ask of the amount that it shares with its siblings."""

    name: str
    requestable: int
    """What its pods hold and wait for, as far as its limit allows."""
    quota: int = 0
    weight: int = 1
    """Of what is left once the quotas are served; any unit that the siblings share."""
    priority: int = 100
    created_s: float = 0.0
    usage: int = 0
    """Its part of what the cluster had lately, in millionths; only counts for time-based shares."""


def divide(amount: int, claims: Sequence[Claim], usage_factor: int = 0, unit: int = 1) -> dict[str, int]:
    """The share of each queue. `usage_factor` is k of time-based shares in thousandths, 0 if they are off.

    What a queue cannot get whole is rounded to multiples of `unit`: that of devices that are requested in fractions.

    1. Each queue gets its quota, as far as it asks for it. If quotas exceed the amount, no queue gets more or less.
    2. The rest goes by priority, and within a priority in rounds by weight: a queue that wants less than its part gets
       what it wants, the others their part without fractions, until no queue wants less than its part.
    3. Units that fractions kept back go to one queue each, by priority, then the largest fraction.
    """
    shares = {each.name: min(amount if each.quota >= UNLIMITED else each.quota, each.requestable) for each in claims}
    left = amount - sum(shares.values())
    if left <= 0:
        return shares
    lost: list[tuple[int, Fraction, float, str]] = []
    for priority in sorted({each.priority for each in claims}, reverse=True):
        level = [each for each in claims if each.priority == priority]
        left, fractions = _by_weight(left, level, shares, usage_factor, unit)
        lost += [(-priority, -fraction, each.created_s, each.name) for each, fraction in fractions]
        if left <= 0:
            break
    for _, _, _, name in sorted(lost)[: left // unit]:
        shares[name] += unit
    return shares


def _by_weight(
    left: int, level: Iterable[Claim], shares: dict[str, int], usage_factor: int, unit: int
) -> tuple[int, list[tuple[Claim, Fraction]]]:
    """Add the parts of queues of one priority to their shares; what is left, and the fractions that were kept back."""
    fractions: list[tuple[Claim, Fraction]] = []
    while left > 0:
        wanting = [each for each in level if each.requestable > shares[each.name]]
        portions = _portions(wanting, usage_factor)
        total = sum(portions)
        if not total:
            break
        again, given, fractions = False, 0, []
        for each, portion in zip(wanting, portions, strict=True):
            wants = each.requestable - shares[each.name]
            part, rest = divmod(left * portion, total * unit)
            part *= unit
            if wants * total <= left * portion:
                again = again or wants * total < left * portion
                part = wants
            elif portion:
                fractions.append((each, Fraction(rest, total)))
            shares[each.name] += part
            given += part
        left -= given
        if not again:
            break
    return left, fractions


def _portions(wanting: Sequence[Claim], usage_factor: int) -> list[int]:
    """How the queues share what is left, in relation to each other: by weight, less for those that used more."""
    if not usage_factor:
        return [each.weight for each in wanting]
    total = sum(each.weight for each in wanting)
    scaled = ((1000 + usage_factor) * PARTS * each.weight - usage_factor * each.usage * total for each in wanting)
    return [max(0, each) for each in scaled]
