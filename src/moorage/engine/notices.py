"""Why a pod may not be tried yet: reported to users if it lasts for more than a moment.

Members of a gang that are created one after another, or units that a plan admits a moment later, are not worth a
condition and an event each.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from moorage.engine.failures import Failure
from moorage.engine.turn import Turn
from moorage.engine.units import Place, QueuedPod, Unit

if TYPE_CHECKING:
    from moorage.engine.context import EngineContext
    from moorage.engine.failing import Failing

_TELL_AFTER_S = 2.0


class Notices:
    """Gated units that are to be reported."""

    def __init__(self, context: EngineContext, failing: Failing) -> None:
        self._context = context
        self._failing = failing
        self._due: list[tuple[float, str]] = []
        """A heap of (when, which unit)."""
        self._listed: set[str] = set()

    def later(self, unit: Unit, message: str, now: float) -> None:
        """The unit waits for this; it is reported if that lasts."""
        unit.message = message
        if unit.uid not in self._listed and any(_says_otherwise(each, message) for each in unit.members.values()):
            self._listed.add(unit.uid)
            heapq.heappush(self._due, (now + _TELL_AFTER_S, unit.uid))

    def next_s(self) -> float | None:
        """When `tell` has something to do next."""
        return self._due[0][0] if self._due else None

    def tell(self, turn: Turn) -> None:
        """Report what has lasted long enough."""
        while self._due and self._due[0][0] <= turn.now:
            _, uid = heapq.heappop(self._due)
            self._listed.discard(uid)
            unit = self._context.queue.find(uid)
            if unit is None or unit.uid != uid or unit.place is not Place.GATED:
                continue
            for entry in unit.members.values():
                runner = self._context.runner_of(entry.pod)
                if runner is not None and not entry.pod.gates and _says_otherwise(entry, unit.message):
                    self._failing.tell(entry, runner, Failure(unit.message, frozenset()), turn)


def _says_otherwise(entry: QueuedPod, message: str) -> bool:
    condition = entry.pod.scheduled_condition
    return condition is None or condition.message != message
