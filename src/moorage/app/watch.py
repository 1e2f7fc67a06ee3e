"""Watches the clock for an engine that has none: a turn that takes long ends early, and continues in the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moorage.core.events import Event


class TurnWatch:
    """Watches one turn. Applying events and deciding may take `limit_s` each, plus one step.

    `beat` gets the time at every step, as a heartbeat; `timer_s` is monotonic.
    """

    def __init__(self, limit_s: float, timer_s: Callable[[], float], beat: Callable[[float], None]) -> None:
        self.taken = 0
        """How many events were applied."""
        self.stopped_at = 0
        """At which call of `stop` the turn was told to end; 0: it was not."""
        self.step_s = 0.0
        """How long the step before that call took."""
        self._asked = 0
        self._limit_s = limit_s
        self._timer_s = timer_s
        self._beat = beat
        self._looked_s = timer_s()
        self._until_s = self._looked_s + limit_s

    def events(self, waiting: Sequence[Event]) -> Iterator[Event]:
        """The waiting events, as long as there is time."""
        timer_s, beat, until_s = self._timer_s, self._beat, self._until_s
        for event in waiting:
            self.taken += 1
            yield event
            now_s = timer_s()
            beat(now_s)
            if now_s >= until_s:
                break
        self._looked_s = timer_s()
        self._until_s = self._looked_s + self._limit_s

    def stop(self) -> bool:
        """Whether the turn should end; called by the engine between its steps."""
        self._asked += 1
        before_s, now_s = self._looked_s, self._timer_s()
        self._looked_s = now_s
        self._beat(now_s)
        if now_s < self._until_s:
            return False
        if not self.stopped_at:
            self.stopped_at, self.step_s = self._asked, now_s - before_s
        return True
