"""The Kubernetes events by which the keeper reports what it does; a dashboard shows those of every reason."""

from __future__ import annotations

from enum import StrEnum

from moorage.core.commands import RecordEvent
from moorage.core.pods import Pod
from moorage.core.strategies import FALLBACK
from moorage.engine.evictor import ref_of

REPORTER = "moorage-keeper"
EVICTING = "Evicting"
PLACING = "Placing"


class KeeperReason(StrEnum):
    """Reasons of the keeper's events."""

    SPOT_FALLBACK = "SpotFallback"
    SPOT_RETURN = "SpotReturn"
    ON_DEMAND_RETURN = "OnDemandReturn"
    RETURN_MISSED = "ReturnMissed"
    PLACEMENT_REPAIR = "PlacementRepair"
    REPAIR_MISSED = "RepairMissed"
    REPACK = "Repack"
    REPACK_MISSED = "RepackMissed"
    STRATEGY_FALLBACK = FALLBACK


def note(pod: Pod, reason: KeeperReason, text: str, action: str = EVICTING, *, warning: bool = False) -> RecordEvent:
    """An event about a pod."""
    return RecordEvent(ref_of(pod), "Warning" if warning else "Normal", reason.value, action, text, REPORTER)
