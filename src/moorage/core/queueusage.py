"""What queues have used lately: samples of what they held, from which time-based shares follow.

The usage of a queue is what it held of a resource over a window, in relation to what all queues divided in that time;
what is older by a half-life counts half as much. A process starts without samples, and so with shares by weight alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.core.fairshare import PARTS
from moorage.core.queuetree import QueueTree

SAMPLES = 48
"""How many samples make up a window."""
_HALVES = 16
"""What is older than so many half-lives does not matter any more."""
Usage = Mapping[str, Mapping[str, int]]
"""Queue -> resource -> its part of what there was, in millionths."""


class UsageTerms(NamedTuple):
    """How usage counts."""

    factor: int = 0
    """How much it lowers the share of a queue, in thousandths; 0: it does not matter."""
    half_life_s: float = 0.0
    """0: all of the window counts alike."""
    window_s: float = 0.0

    @property
    def reach_s(self) -> float:
        """How far back usage matters."""
        return min(self.window_s, _HALVES * self.half_life_s) if self.half_life_s else self.window_s


class Sample(NamedTuple):
    """What queues held at a moment, which stands for the time since the last sample."""

    at_s: float
    length_s: float
    total: dict[str, int]
    """What all of them divided, by resource."""
    held: dict[str, dict[str, int]]
    """Of the queues that held anything."""


class UsageRecord:
    """The samples of the last window."""

    def __init__(self) -> None:
        self.terms = UsageTerms()
        self.samples: list[Sample] = []
        """Oldest first; the very first has no length."""

    def follow(self, terms: UsageTerms) -> None:
        """Usage counts by these terms from now on; other ones start over."""
        if terms != self.terms:
            self.terms = terms
            self.samples.clear()

    @property
    def next_s(self) -> float | None:
        """When the next sample is due; None if usage does not matter, or there is none yet."""
        if not self.terms.factor or not self.samples:
            return None
        return self.samples[-1].at_s + self.terms.reach_s / SAMPLES

    def due(self, now: float) -> bool:
        """Whether a sample is due."""
        if not self.terms.factor:
            return False
        return not self.samples or now >= self.samples[-1].at_s + self.terms.reach_s / SAMPLES

    def take(self, tree: QueueTree, now: float) -> None:
        """Take a sample, and forget those that are too old."""
        length_s = now - self.samples[-1].at_s if self.samples else 0.0
        names = tree.resources
        held = {
            node.name: {names[index]: amount for index, amount in enumerate(node.allocated) if amount}
            for node in tree.nodes.values()
            if any(node.allocated)
        }
        total = {name: amount for name, amount in zip(names, tree.total, strict=True) if amount}
        oldest_s = now - self.terms.reach_s
        self.samples = [each for each in self.samples if each.at_s > oldest_s][-SAMPLES:]
        self.samples.append(Sample(now, length_s, total, held))

    def usage(self) -> Usage:
        """The usage of each queue as of the last sample."""
        totals: dict[str, float] = {}
        sums: dict[str, dict[str, float]] = {}
        for sample, weight in zip(self.samples, self._weights(), strict=True):
            for name, amount in sample.total.items() if weight else ():
                totals[name] = totals.get(name, 0.0) + weight * amount
            for queue, amounts in sample.held.items() if weight else ():
                found = sums.setdefault(queue, {})
                for name, amount in amounts.items():
                    found[name] = found.get(name, 0.0) + weight * amount
        return {
            queue: {
                name: round(PARTS * min(1.0, amount / totals[name])) for name, amount in found.items() if name in totals
            }
            for queue, found in sums.items()
        }

    def _weights(self) -> list[float]:
        half_life_s, latest_s = self.terms.half_life_s, self.samples[-1].at_s if self.samples else 0.0
        if not half_life_s:
            return [each.length_s for each in self.samples]
        return [each.length_s * 0.5 ** ((latest_s - each.at_s) / half_life_s) for each in self.samples]
