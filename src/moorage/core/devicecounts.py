"""What allocating devices comes to, counted for metrics; plain numbers that only rise."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field
from typing import NamedTuple

from moorage.core.values import dataclass

FOUND, NONE, TIMED_OUT = "found", "none", "timed out"
"""How searches end."""
SUCCESS, FAILURE, TIMEOUT = "success", "failure", "timeout"
"""How a wait for drivers ends."""
_KEPT_WAITS = 4096


class DriverWait(NamedTuple):
    """How long a pod waited until a driver had made devices ready, or had not."""

    driver: str
    status: str
    seconds: float


@dataclass(slots=True)
class DeviceCounts:
    """Searches, their steps, and what came of them."""

    searches: Counter[str] = field(default_factory=Counter)
    """By how they ended."""
    steps: int = 0
    allocations: int = 0
    """Claims that got devices."""
    waits: deque[DriverWait] = field(default_factory=lambda: deque(maxlen=_KEPT_WAITS))
    """Those that ended since this was last emptied."""

    def searched(self, steps: int, found: bool | None) -> None:
        """A search ended; None: it took too long."""
        self.searches[TIMED_OUT if found is None else FOUND if found else NONE] += 1
        self.steps += steps
