"""Pending pods, counted as they come and go: by reason, by resource, and since when each one waits.

The reason is the one that the most nodes were rejected for, in the words of the scheduler, or where the pod waits.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from moorage.core.pods import Pod
from moorage.core.resources import Requests
from moorage.core.values import dataclass
from moorage.engine.units import Place
from moorage.views.words import main_reason

_AVAILABLE = "nodes are available: "
_PART = re.compile(r"([0-9]{1,9}) ([^,]{1,200}(?:,(?! [0-9])[^,]{1,200}){0,3})")
"""A number of nodes and the reason for which they were rejected; a reason may have commas, but no number after them."""
_LONGEST = 2000
_LONGEST_REASON = 120
_WORDS = {
    Place.ACTIVE: "not tried yet",
    Place.BACKOFF: "backing off after an error",
    Place.UNSCHEDULABLE: "fits nowhere, without a reason",
    Place.GATED: "scheduling gates",
    Place.IN_FLIGHT: "being bound",
}


def reason_of(place: Place, message: str) -> str:
    """Why a pod is pending, in a few words that many pods share."""
    if place in (Place.GATED, Place.IN_FLIGHT):
        return _WORDS[place]
    return _most_frequent(message[:_LONGEST]) or _WORDS[place]


@lru_cache(maxsize=512)
def _most_frequent(message: str) -> str:
    """The reason of `0/5 nodes are available: 1 ..., 4 ... .` that is given for most nodes; empty if there is none."""
    _, found, rest = main_reason(message).partition(_AVAILABLE)
    if not found:
        return ""
    parts: list[tuple[str, str]] = _PART.findall(rest)
    text = max(parts, key=lambda part: int(part[0]))[1] if parts else rest
    return text.partition(". ")[0].rstrip(". ")[:_LONGEST_REASON]


@dataclass(frozen=True, slots=True)
class PendingWait:
    """One pending pod."""

    reason: str
    requests: Requests
    since_s: float


class Pending:
    """All pending pods."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        """How many pods wait for each reason."""
        self.requested: Counter[str] = Counter()
        """What they request together, by resource."""
        self._waits: dict[str, PendingWait] = {}

    def file(self, pod: Pod, reason: str, now_s: float) -> None:
        """A pod waits, for this reason; it has been seen for the first time if it is not known."""
        before = self._waits.get(pod.uid)
        if before is not None and before.reason == reason and before.requests is pod.requests:
            return
        since_s = now_s if before is None else before.since_s
        self.leave(pod.uid)
        self._waits[pod.uid] = PendingWait(reason, pod.requests, since_s)
        self.reasons[reason] += 1
        self.requested.update(dict(pod.requests.amounts))

    def leave(self, uid: str) -> PendingWait | None:
        """A pod no longer waits."""
        wait = self._waits.pop(uid, None)
        if wait is not None:
            _take(self.reasons, wait.reason, 1)
            for name, amount in wait.requests.amounts:
                _take(self.requested, name, amount)
        return wait


def _take(counter: Counter[str], key: str, amount: int) -> None:
    counter[key] -= amount
    if not counter[key]:
        del counter[key]
