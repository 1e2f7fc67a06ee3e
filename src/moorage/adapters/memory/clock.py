"""A clock that moves only when it is told to.

`now_s` is in Unix seconds. Timers fire in order of their due time, those due together in the order in which they were
set; while one fires, `now_s` is its due time. Time never runs backwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import field

from moorage.core.values import dataclass

START_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z, where virtual time starts unless told otherwise."""


@dataclass(slots=True, order=True)
class Timer:
    """One pending action; `cancel()` makes it forget what it was for."""

    due_s: float
    order: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Never fire. Harmless after it has fired."""
        self.action = None


class Clock:
    """Virtual time and its timers."""

    def __init__(self, start_s: float = START_S) -> None:
        self._now_s = start_s
        self._timers: list[Timer] = []
        self._set_so_far = 0

    @property
    def now_s(self) -> float:
        """The current virtual time."""
        return self._now_s

    @property
    def next_s(self) -> float | None:
        """When the next timer is due, None without timers."""
        while self._timers and self._timers[0].action is None:
            heapq.heappop(self._timers)
        return self._timers[0].due_s if self._timers else None

    def at(self, due_s: float, action: Callable[[], None]) -> Timer:
        """Run the action when time reaches `due_s`; a time in the past means as soon as time is advanced at all."""
        self._set_so_far += 1
        timer = Timer(max(due_s, self._now_s), self._set_so_far, action)
        heapq.heappush(self._timers, timer)
        return timer

    def after(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Run the action once `delay_s` have passed."""
        return self.at(self._now_s + delay_s, action)

    def fire_next(self, until_s: float) -> bool:
        """Move to the next timer due at or before `until_s` and fire it; False, and time at `until_s`, without one."""
        due_s = self.next_s
        if due_s is None or due_s > until_s:
            self._now_s = max(self._now_s, until_s)
            return False
        timer = heapq.heappop(self._timers)
        self._now_s = max(self._now_s, due_s)
        action, timer.action = timer.action, None
        if action is not None:
            action()
        return True

    def advance_to(self, to_s: float) -> int:
        """Move to `to_s`, firing every timer on the way, also those set by others; the number fired."""
        if to_s < self._now_s:
            raise ValueError(f"time cannot run backwards: now {self._now_s}, asked for {to_s}")
        fired = 0
        while self.fire_next(to_s):
            fired += 1
        return fired
