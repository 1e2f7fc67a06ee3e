"""Why a pod may not be tried yet: reported to users if it lasts for more than a moment.

Members of a gang that are created one after another, or units that a plan admits a moment later, are not worth a
condition and an event each.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from moorage.engine.failures import Failure
from moorage.engine.queue import Place, QueuedGang, QueuedPod
from moorage.engine.turn import Turn

if TYPE_CHECKING:
    from moorage.engine.context import EngineContext
    from moorage.engine.failing import Failing

_TELL_AFTER_S = 2.0


class Notices:
    """Gated entries that are to be reported."""

    def __init__(self, context: EngineContext, failing: Failing) -> None:
        self._context = context
        self._failing = failing
        self._due: list[tuple[float, str]] = []
        """A heap of (when, which entry)."""
        self._listed: set[str] = set()

    def later(self, entry: QueuedPod, message: str, now: float) -> None:
        """The entry waits for this; it is reported if that lasts."""
        entry.message = message
        members = members_of(entry)
        for member in members:
            member.message = message
        if entry.uid not in self._listed and any(_says_otherwise(member, message) for member in members):
            self._listed.add(entry.uid)
            heapq.heappush(self._due, (now + _TELL_AFTER_S, entry.uid))

    def next_s(self) -> float | None:
        """When `tell` has something to do next."""
        return self._due[0][0] if self._due else None

    def tell(self, turn: Turn) -> None:
        """Report what has lasted long enough."""
        while self._due and self._due[0][0] <= turn.now:
            _, uid = heapq.heappop(self._due)
            self._listed.discard(uid)
            entry = self._context.queue.find(uid)
            if entry is None or entry.place is not Place.GATED:
                continue
            for member in members_of(entry):
                runner = self._context.runner_of(member.pod)
                if runner is not None and not member.pod.gates and _says_otherwise(member, entry.message):
                    self._failing.tell(member.pod, runner, Failure(entry.message, frozenset()), turn.commands)


def members_of(entry: QueuedPod) -> list[QueuedPod]:
    """The pods of an entry."""
    return list(entry.members.values()) if isinstance(entry, QueuedGang) else [entry]


def _says_otherwise(entry: QueuedPod, message: str) -> bool:
    condition = entry.pod.scheduled_condition
    return condition is None or condition.message != message
