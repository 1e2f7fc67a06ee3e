"""Gangs of queues that lost so many members that the rest is of no use: evicted whole after a while.

The rest holds what others in its queue, or other queues, could use; its members wait for room that may never come.
"""

from __future__ import annotations

from moorage.core.gangs import lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import SUCCEEDED, Pod
from moorage.engine.context import EngineContext
from moorage.engine.turn import Turn

STALE = "StaleGang"
"""The reason of the event and of the condition DisruptionTarget."""


class StaleGangs:
    """Gangs that something happened to, and those that have too few members."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._met: dict[GangKey, None] = {}
        self._since_s: dict[GangKey, float] = {}
        """Gangs with too few members -> since when."""
        self._due_s: dict[GangKey, float] = {}
        self._succeeded: set[GangKey] = set()
        """Gangs of which a member has run to its end: the others may do so, too."""

    def met(self, key: GangKey, pod: Pod) -> None:
        """Something happened to a member."""
        self._met[key] = None
        if pod.phase == SUCCEEDED:
            self._succeeded.add(key)

    def next_s(self) -> float | None:
        """When `review` has something to do even if nothing happens."""
        return min(self._due_s.values()) if self._due_s else None

    def review(self, turn: Turn) -> None:
        """Evict what has lacked members for too long."""
        due = [key for key, at_s in self._due_s.items() if at_s <= turn.now]
        met, self._met = self._met, {}
        for key in dict.fromkeys([*met, *due]):
            self._look(key, turn)

    def _look(self, key: GangKey, turn: Turn) -> None:
        state, sharing = self._context.state, self._context.sharing
        there, terms = lasting(state, key), terms_of(state, key)
        patience_s = -1.0
        if there and sharing is not None and sharing.governs(there[0].pod):
            patience_s = sharing.terms(there[0].pod).stale_gang_seconds
        enough = terms is None or terms.min_count is None or len(there) >= terms.min_count
        if not there or enough or patience_s < 0 or key in self._succeeded:
            self._since_s.pop(key, None)
            self._due_s.pop(key, None)
            if not there:
                self._succeeded.discard(key)
            return
        self._due_s[key] = self._since_s.setdefault(key, turn.now) + patience_s
        if turn.now < self._due_s[key]:
            return
        del self._due_s[key]
        message = f"pod group {key.object_key} has {len(there)} members left, fewer than it needs"
        for record in there:
            reporter = record.pod.template.scheduler_name
            self._context.evictor.release(record.pod, STALE, message, reporter, turn.commands)
