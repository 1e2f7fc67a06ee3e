"""Looks at the clock for an engine that has none: a turn that takes long ends early, and goes on in the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moorage.core.events import Event


class TurnWatch:
    """Watches over one turn. Taking events over and deciding may take `limit_s` each, and one step more.

    `beat` gets the time at every step, as a sign of life; `timer_s` is monotonic.
    """

    def __init__(self, limit_s: float, timer_s: Callable[[], float], beat: Callable[[float], None]) -> None:
        self.taken = 0
        """How many events were taken over."""
        self.stopped_at = 0
        """At which question the turn was told to stop; 0: it was not."""
        self.step_s = 0.0
        """How long the step took after which it was told so, since the look at the clock before."""
        self._asked = 0
        self._limit_s = limit_s
        self._timer_s = timer_s
        self._beat = beat
        self._looked_s = timer_s()
        self._until_s = self._looked_s + limit_s

    def events(self, waiting: Sequence[Event]) -> Iterator[Event]:
        """The events that wait, as long as there is time."""
        for event in waiting:
            self.taken += 1
            yield event
            if self._is_over():
                break
        self._looked_s = self._timer_s()
        self._until_s = self._looked_s + self._limit_s

    def stop(self) -> bool:
        """Whether the turn had better end; asked by the engine between its steps."""
        self._asked += 1
        before_s = self._looked_s
        if not self._is_over():
            return False
        if not self.stopped_at:
            self.stopped_at, self.step_s = self._asked, self._looked_s - before_s
        return True

    def _is_over(self) -> bool:
        now_s = self._looked_s = self._timer_s()
        self._beat(now_s)
        return now_s >= self._until_s
