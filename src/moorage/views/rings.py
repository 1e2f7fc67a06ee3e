"""Numbers over time in bounded memory: fine intervals for what is recent, coarse ones for all that was.

A series is a gauge, of which an interval has the value at its end, or a count, of which it has the sum. All series are
kept in several levels. A level of a fixed step forgets its oldest intervals; the last level never forgets, but doubles
its step when it is full, so that it always reaches back to the beginning. Time is an argument and never runs backwards:
what is told late belongs to its own interval, as far as that one is still kept.

Invariants: the sum of a count over the last level is all that was counted since the beginning; every level has the same
names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from moorage.core.values import dataclass

Values: TypeAlias = npt.NDArray[np.float64]

FIXED: tuple[tuple[float, int], ...] = ((1.0, 960), (10.0, 1140), (60.0, 760))
"""Steps in seconds and numbers of intervals: a quarter of an hour, three hours, twelve hours, and a little more."""
LAST: tuple[float, int] = (600.0, 1024)
"""The level of everything: a week in steps of ten minutes, and longer in coarser ones."""
_SHORTEST_S = 1e-3
_FURTHEST_S = 1e11
"""Times beyond this cannot be genuine."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of intervals, oldest first, all of the same step."""

    step_s: float
    ends_s: Values
    """When each interval ends, float64[intervals]."""
    series: Mapping[str, Values]
    """float64[intervals]; NaN where a gauge was not known."""

    def of(self, name: str) -> Values:
        """One series; all NaN if there is none of this name."""
        found = self.series.get(name)
        return np.full(len(self.ends_s), np.nan) if found is None else found

    def part(self, wanted: npt.NDArray[np.bool_]) -> Stretch:
        """Some of the intervals, bool[intervals]."""
        series = {name: values[wanted] for name, values in self.series.items()}
        return Stretch(self.step_s, self.ends_s[wanted], series)


class Level:
    """Intervals of one step; the number of an interval is its beginning divided by the step."""

    def __init__(self, step_s: float, size: int, *, folds: bool) -> None:
        self.step_s = step_s
        self.head = -1
        """The newest interval."""
        self.first = -1
        """The oldest interval that there ever was."""
        self.gauges: dict[str, Values] = {}
        self.counts: dict[str, Values] = {}
        self._size = size
        self._folds = folds

    @property
    def oldest(self) -> int:
        """The oldest interval that is kept."""
        return max(self.first, self.head - self._size + 1)

    def number(self, at_s: float) -> int:
        """The interval of a moment."""
        return int(at_s // self.step_s)

    def reach(self, at_s: float) -> None:
        """Make the interval of this moment the newest one; intervals in between count nothing."""
        if self.head < 0:
            self.first = self.head = self.number(at_s)
        while self._folds and self.number(at_s) - self.first >= self._size:
            self._fold()
        new = self.number(at_s)
        if new > self.head:
            places = self._places(max(self.head + 1, new - self._size + 1), new)
            for kept in self.counts.values():
                kept[places] = 0.0
            for kept in self.gauges.values():
                kept[places] = np.nan
            self.head = new

    def hold(self, values: Mapping[str, float], since_s: float) -> None:
        """Gauges have these values from the interval of a moment to the newest one; others are not known there."""
        places = self._places(max(self.oldest, self.number(since_s)), self.head)
        for name in values:
            if name not in self.gauges:
                self.gauges[name] = np.full(self._size, np.nan)
        for name, kept in self.gauges.items():
            kept[places] = values.get(name, np.nan)

    def count(self, name: str, at_s: float, amount: float) -> None:
        """Add to the interval of a moment, if it is kept."""
        number = self.number(at_s)
        if self.oldest <= number <= self.head:
            if name not in self.counts:
                self.counts[name] = np.zeros(self._size)
            self.counts[name][number % self._size] += amount

    def read(self, first: int, last: int) -> tuple[dict[str, Values], dict[str, Values]]:
        """Gauges and counts of a range of intervals that are kept."""
        places = self._places(first, last)
        gauges = {name: kept[places] for name, kept in self.gauges.items()}
        return gauges, {name: kept[places] for name, kept in self.counts.items()}

    def merge(self, name: str, into: str) -> None:
        """Add one gauge to another one, and forget it."""
        gone = self.gauges.pop(name, None)
        if gone is None:
            return
        kept = self.gauges.setdefault(into, np.full(self._size, np.nan))
        known = ~np.isnan(gone)
        kept[known] = np.nan_to_num(kept[known]) + gone[known]

    def _places(self, first: int, last: int) -> npt.NDArray[np.int64]:
        return np.arange(first, last + 1, dtype=np.int64) % self._size

    def _fold(self) -> None:
        """Double the step: of every two intervals the sum, or the value at the end of the second one."""
        numbers = np.arange(self.first, self.head + 1, dtype=np.int64)
        pairs = numbers // 2
        for name, kept in self.gauges.items():
            folded = np.full(self._size, np.nan)
            folded[pairs % self._size] = kept[numbers % self._size]  # of equal places the last one stays
            self.gauges[name] = folded
        for name, kept in self.counts.items():
            folded = np.zeros(self._size)
            np.add.at(folded, pairs % self._size, kept[numbers % self._size])
            self.counts[name] = folded
        self.step_s *= 2
        self.first, self.head = self.first // 2, self.head // 2


class Rings:
    """Series in several levels; see the module."""

    def __init__(self, fixed: tuple[tuple[float, int], ...] = FIXED, last: tuple[float, int] = LAST) -> None:
        self._levels = [
            *(Level(step_s, size, folds=False) for step_s, size in fixed),
            Level(*last, folds=True),
        ]
        self.began_s: float | None = None
        """The first moment."""
        self.now_s = -_FURTHEST_S
        """The latest moment."""

    def is_due(self, now_s: float) -> bool:
        """Whether another interval of the finest level has begun, so that gauges have to be told."""
        finest = self._levels[0]
        return self.began_s is None or finest.number(now_s) > finest.head

    def hold(self, gauges: Mapping[str, float], now_s: float) -> None:
        """Gauges have had these values since they were last told, and still have."""
        if not -_FURTHEST_S < now_s < _FURTHEST_S:
            return
        if self.began_s is None:
            self.began_s = self.now_s = now_s
        since_s, self.now_s = self.now_s, max(self.now_s, now_s)
        for level in self._levels:
            level.reach(self.now_s)
            level.hold(gauges, since_s)

    def pause(self, now_s: float) -> None:
        """Nothing is known of the time since the latest moment."""
        if self.began_s is not None and now_s > self.now_s:
            self.now_s = now_s
            for level in self._levels:
                level.reach(now_s)

    def count(self, name: str, at_s: float, amount: float = 1.0) -> None:
        """Something happened; what was before the beginning, or is too long ago, is left out."""
        if self.began_s is None or at_s < self.began_s:
            return
        at_s = min(at_s, self.now_s)
        for level in self._levels:
            level.count(name, at_s, amount)

    def merge(self, name: str, into: str) -> None:
        """Add one gauge to another one, and forget it."""
        for level in self._levels:
            level.merge(name, into)

    def forget(self, name: str) -> None:
        """Forget a gauge."""
        for level in self._levels:
            level.gauges.pop(name, None)

    def gauges(self) -> list[str]:
        """The names of all gauges."""
        return list(self._levels[-1].gauges)

    def read(self, since_s: float, until_s: float, most: int, step_s: float = 0.0) -> Stretch:
        """A range in at most `most` intervals (two or more) of at least `step_s`, as finely as possible."""
        if self.began_s is None:
            return Stretch(self._levels[0].step_s, np.empty(0), {})
        since_s, until_s = max(since_s, self.began_s), min(until_s, self.now_s)
        if step_s > 0:
            since_s = max(since_s - since_s % step_s, self.began_s)
        level = min(
            self._reaching(since_s), key=lambda each: each.step_s * _factor(each, since_s, until_s, most, step_s)
        )
        first, last = max(level.oldest, level.number(since_s)), min(level.head, level.number(until_s))
        return self._merged(level, first, last, _factor(level, since_s, until_s, most, step_s))

    def _reaching(self, since_s: float) -> list[Level]:
        """The levels that reach back so far, the coarsest first."""
        return [self._levels[-1], *(each for each in self._levels[-2::-1] if each.oldest <= each.number(since_s))]

    def _merged(self, level: Level, first: int, last: int, factor: int) -> Stretch:
        """Intervals of `factor` times the step. They begin at multiples of it, so the first one may reach further."""
        first = max(level.oldest, first - first % factor)
        numbers = np.arange(first, last + 1, dtype=np.int64) // factor
        groups = numbers - (numbers[0] if len(numbers) else 0)
        size = int(groups[-1]) + 1 if len(groups) else 0
        gauges, counts = level.read(first, last)
        found: dict[str, Values] = {}
        for name, values in gauges.items():
            merged = np.full(size, np.nan)
            merged[groups] = values
            found[name] = merged
        for name, values in counts.items():
            summed = np.zeros(size)
            np.add.at(summed, groups, values)
            found[name] = summed
        step_s = level.step_s * factor
        begins_s = (np.arange(size) + (numbers[0] if size else 0)) * step_s
        # The newest one ends now; it has some length, so that the ends rise.
        ends_s = np.minimum(begins_s + step_s, np.maximum(self.now_s, begins_s + _SHORTEST_S))
        return Stretch(step_s, ends_s, found)


def _factor(level: Level, since_s: float, until_s: float, most: int, step_s: float) -> int:
    """How many intervals of a level become one."""
    count = level.number(until_s) - level.number(since_s) + 1
    # Merged intervals begin at multiples of their step, so that a range may touch one more than it has room for.
    merging = 1 if count <= most else math.ceil(count / max(1, most - 1))
    return max(merging, math.ceil(step_s / level.step_s))
