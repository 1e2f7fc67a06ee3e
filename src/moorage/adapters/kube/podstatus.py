"""The status part of patches on pods, as strategic merge patches: conditions are merged by their type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from moorage.core.commands import PatchPodStatus
from moorage.core.pods import Condition
from moorage.wire.gangrecords import condition_of

REMEMBERED = 20_000


class StatusPatches:
    """Makes status patches, and remembers what was written lately.

    The time of a condition is that of its last change of status. Leaving it out of the patch keeps it; so it is sent
    only with a status that differs from the one we wrote last.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._written: dict[tuple[str, str], str] = {}

    def of(self, command: PatchPodStatus) -> dict[str, Any]:
        """Make the status part for a command."""
        status: dict[str, Any] = {}
        if command.nominated_node is not None:
            status["nominatedNodeName"] = command.nominated_node or None
        condition = condition_of(command)
        if condition is not None:
            changed = self._written.get((command.pod.uid, condition.type)) != condition.status
            status["conditions"] = [self._condition(condition, command.observed_generation, changed=changed)]
        return status

    def written(self, command: PatchPodStatus) -> None:
        """Remember a patch that the server took."""
        condition = condition_of(command)
        if condition is None:
            return
        key = (command.pod.uid, condition.type)
        self._written.pop(key, None)
        self._written[key] = condition.status
        if len(self._written) > REMEMBERED:
            self._written.pop(next(iter(self._written)))

    def disruption_target(self, reason: str, message: str) -> dict[str, Any]:
        """Make the status part that announces an eviction."""
        condition = Condition("DisruptionTarget", "True", reason, message)
        return {"conditions": [self._condition(condition, 0, changed=True)]}

    def _condition(self, condition: Condition, observed_generation: int, *, changed: bool) -> dict[str, Any]:
        # An empty reason or message must replace an older one, hence always sent.
        fields: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        if observed_generation > 0:
            fields["observedGeneration"] = observed_generation
        if changed:
            fields["lastTransitionTime"] = datetime.fromtimestamp(self._now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return fields
