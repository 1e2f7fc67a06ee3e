"""What is left of a gang is evicted whole or not at all: users are told once why it is not."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.commands import RecordEvent
from moorage.core.disruption.ledger import DisruptionReason
from moorage.core.membership import GangKey
from moorage.core.state import PodRecord
from moorage.engine.context import EngineContext
from moorage.engine.evictor import ref_of
from moorage.engine.turn import Turn
from moorage.framework.contract import GangPatience

STUCK = "GangIncomplete"
"""Reason of the event on members of a gang that is incomplete and must not be evicted."""
AGAIN_S = 30.0
"""How long after a release that was not possible the next one is tried."""


class GangReleases:
    """Evictions of gangs that cannot run, for one reason."""

    def __init__(self, context: EngineContext, reason: DisruptionReason, condition: str) -> None:
        """`condition` is the reason of the event, and of the condition DisruptionTarget."""
        self._context, self._reason, self._condition = context, reason, condition
        self._told: dict[GangKey, str] = {}
        """What was reported of gangs that must not be evicted."""

    def objection(self, there: Sequence[PodRecord], now: float, *, strict: bool = True) -> str | None:
        """Why these members must not be evicted; None if they may."""
        patience = self.patience(there[0])
        bare = patience is not None and patience.release_bare_pods
        pods = [record.pod for record in there]
        return self._context.state.disruptions.objection(pods, self._reason, now, strict=strict, bare=bare)

    def release(
        self, key: GangKey, there: Sequence[PodRecord], state: str, why: str, turn: Turn, *, strict: bool = True
    ) -> bool:
        """Evict these members of a gang that is in such a state, and why; or tell why not. Whether they go.

        Without `strict` disruption budgets are not asked.
        """
        objection = self.objection(there, turn.now, strict=strict)
        if objection is None:
            self.order(there, f"pod group {key.object_key} {state} {why}".rstrip(" ,"), turn)
            return True
        message = f"pod group {key.object_key} {state} and is not released: {objection}"
        if self._told.get(key) != message:
            self._told[key] = message
            for record in there:
                reporter = self._reporter(record)
                turn.commands.append(RecordEvent(ref_of(record.pod), "Warning", STUCK, "Releasing", message, reporter))
        return False

    def order(self, there: Sequence[PodRecord], message: str, turn: Turn) -> None:
        """Evict these."""
        for record in there:
            self._context.evictor.release(record.pod, self._condition, message, self._reporter(record), turn)

    def forget(self, key: GangKey) -> None:
        """A gang is not in that state any more."""
        self._told.pop(key, None)

    def patience(self, record: PodRecord) -> GangPatience | None:
        """How patient the profile of a pod is with gangs; None if it places none."""
        runner = self._context.runner_of(record.pod)
        return None if runner is None or runner.gangs is None else runner.gangs.gang_patience

    def _reporter(self, record: PodRecord) -> str:
        runner = self._context.runner_of(record.pod)
        return record.pod.template.scheduler_name if runner is None else runner.profile.scheduler_name
