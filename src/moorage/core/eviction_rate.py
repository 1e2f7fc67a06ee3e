"""How many evictions were ordered within the last minute, in all and per owner: a guard against storms and loops.

A loop is a preemption that its own victims bring about again, for example when their controller makes new ones that are
more important than they. It shows as many evictions of one owner; a storm shows as many evictions altogether.

Invariants:
- in no stretch of a minute are more evictions noted than a limit allows, as long as `refusal` is asked before `note`;
- only the last minute is remembered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod

WINDOW_S = 60.0


class Refusal(NamedTuple):
    """Some evictions would be too many."""

    limit: int
    owner: str | None
    """The owner that the limit is for, None if it is the overall limit."""
    retry_s: float | None
    """When they are not too many any more, seconds since the epoch; None if they are more than the limit at once."""


def owner_of(pod: Pod) -> str:
    """The owner for which an eviction of this pod is counted: its controller, or the pod itself by name if it has
    none.
    """
    return owner_key(pod.template) or pod.key


class EvictionRate:
    """Evictions of the last minute. A limit of 0 means that there is none."""

    def __init__(self, per_minute: int, per_owner_per_minute: int) -> None:
        self._per_minute = per_minute
        self._per_owner = per_owner_per_minute
        self._times: deque[float] = deque()
        self._owners: deque[str] = deque()
        """Aligned, oldest first."""
        self._count: dict[str, int] = {}
        """Owner -> its evictions among them."""

    def refusal(self, owners: Sequence[str], now: float) -> Refusal | None:
        """Why one eviction for each of these (repeated for several pods of one owner) would be too many just now."""
        self._forget(now)
        refusals = [_excess(self._per_minute, None, len(owners), self._times)]
        if self._per_owner and len(self._times) + len(owners) > self._per_owner:
            for owner, count in Counter(owners).items():
                if self._count.get(owner, 0) + count > self._per_owner:
                    times = [at_s for at_s, whose in zip(self._times, self._owners, strict=True) if whose == owner]
                    refusals.append(_excess(self._per_owner, owner, count, times))
        return max(filter(None, refusals), key=_wait, default=None)

    def note(self, owners: Iterable[str], now: float) -> None:
        """One eviction for each of these was ordered."""
        self._forget(now)
        for owner in owners:
            self._times.append(now)
            self._owners.append(owner)
            self._count[owner] = self._count.get(owner, 0) + 1

    def take_back(self, count: int) -> None:
        """The latest evictions were not ordered after all."""
        for _ in range(min(count, len(self._times))):
            self._times.pop()
            self._drop(self._owners.pop())

    def _forget(self, now: float) -> None:
        """Drop what is a minute old, and what a clock that was set back has left in the future."""
        while self._times and self._times[0] + WINDOW_S <= now:
            self._times.popleft()
            self._drop(self._owners.popleft())
        while self._times and self._times[-1] > now:
            self._times.pop()
            self._drop(self._owners.pop())

    def _drop(self, owner: str) -> None:
        self._count[owner] -= 1
        if not self._count[owner]:
            del self._count[owner]


def _excess(limit: int, owner: str | None, count: int, times: Sequence[float]) -> Refusal | None:
    """Whether so many more evictions exceed a limit, after those at these times, oldest first."""
    excess = len(times) + count - limit
    if not limit or excess <= 0:
        return None
    return Refusal(limit, owner, times[excess - 1] + WINDOW_S if count <= limit else None)


def _wait(refusal: Refusal) -> float:
    return float("inf") if refusal.retry_s is None else refusal.retry_s
