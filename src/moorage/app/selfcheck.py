"""A scheduler that checks itself: the engine's invariants are checked between turns."""

from __future__ import annotations

import time
from collections.abc import Callable

from moorage.engine.engine import Engine
from moorage.engine.invariants import check_engine

_REST = 9
"""After a check the loop runs for this many times as long, so checks take a tenth of the time."""


class SelfCheck:
    """Checks an engine after its turns, unless the last check was too recent."""

    def __init__(self, engine: Engine, timer_s: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._timer_s = timer_s
        self._next_s = timer_s()

    def look(self) -> None:
        """Raise `InvariantError` if something is wrong: the last decisions must not be carried out."""
        began_s = self._timer_s()
        if began_s < self._next_s:
            return
        check_engine(self._engine)
        ended_s = self._timer_s()
        self._next_s = ended_s + _REST * (ended_s - began_s)
