"""Gangs of queues that lost so many members that the rest is of no use: evicted whole after a while.

The rest holds what others in its queue, or other queues, could use; its members wait for room that may never come.
Members that nobody makes again stay unless the profile says `releaseBarePods`, and with `pdbPolicy: Strict` budgets are
asked. What could not be evicted is tried again.
"""

from __future__ import annotations

from moorage.core.disruption.ledger import DisruptionReason
from moorage.core.gangs import lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import SUCCEEDED, Pod
from moorage.core.state import PodRecord
from moorage.engine.context import EngineContext
from moorage.engine.gangreleases import AGAIN_S, GangReleases
from moorage.engine.turn import Turn
from moorage.framework.contract import SharingTerms

STALE = "StaleGang"
"""The reason of the event and of the condition DisruptionTarget."""


class StaleGangs:
    """Gangs that something happened to, and those that have too few members."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self.releases = GangReleases(context, DisruptionReason.STALE, STALE)
        self._met: dict[GangKey, None] = {}
        self._due_s: dict[GangKey, float] = {}
        """Gangs with too few members -> when they are evicted."""
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
        there, terms = lasting(self._context.state, key), terms_of(self._context.state, key)
        sharing = self._terms(there)
        enough = terms is None or terms.min_count is None or len(there) >= terms.min_count
        if sharing is None or sharing.stale_gang_seconds < 0 or enough or key in self._succeeded:
            self._due_s.pop(key, None)
            self.releases.forget(key)
            if not there:
                self._succeeded.discard(key)
        elif turn.now >= self._due_s.setdefault(key, turn.now + sharing.stale_gang_seconds):
            self._due_s[key] = turn.now + AGAIN_S
            state = f"has {len(there)} members left, fewer than it needs,"
            strict = self._context.keeps_budgets(there[0].pod)
            self.releases.release(key, there, state, "", turn, strict=strict)

    def _terms(self, there: list[PodRecord]) -> SharingTerms | None:
        """How the profile of these members shares; None where there are none, or no queue has them."""
        sharing = self._context.sharing
        return sharing.terms(there[0].pod) if there and sharing is not None and sharing.governs(there[0].pod) else None
