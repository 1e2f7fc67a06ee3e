"""How fast pods come and end by themselves: what is about to become free anyway need not be taken from anybody.

Both are what this process has observed: one that has just begun to lead knows of no pod that it has come lately.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from math import inf

from moorage.core.pods import Pod
from moorage.core.resources import Requests

WINDOW_S = 10.0
"""How far back ends count."""
_MOST = 4096
"""How many ends are remembered."""


class Turnover:
    """The pods that ended by themselves lately, by what they requested."""

    def __init__(self) -> None:
        self.ends: deque[tuple[float, Requests]] = deque()
        """When each ended, the oldest first."""
        self._count: dict[Requests, int] = {}
        """How many of them requested what."""
        self.placed_s: dict[str, float] = {}
        """When pods were placed lately, by uid, the oldest first."""

    def ended(self, pod: Pod, now: float) -> None:
        """A pod on a node ran to its end."""
        if len(self.ends) == _MOST:
            self._drop()
        self.ends.append((now, pod.requests))
        self._count[pod.requests] = self._count.get(pod.requests, 0) + 1

    def placed(self, uid: str, now: float) -> None:
        """A pod was bound to its node."""
        self.placed_s[uid] = now

    def least_s(self, period_s: float, now: float) -> float:
        """This period, or 0 if no pod was placed within it; earlier ones are forgotten."""
        while self.placed_s and (first := next(iter(self.placed_s.items())))[1] <= now - period_s:
            del self.placed_s[first[0]]
        return period_s if self.placed_s else 0.0

    def expected_s(self, pods: Iterable[Pod], now: float) -> float:
        """How long it takes until as many pods have ended that are at least as large as each of these."""
        while self.ends and self.ends[0][0] <= now - WINDOW_S:
            self._drop()
        if not self.ends:
            return inf
        wanted: dict[Requests, int] = {}
        for pod in pods:
            wanted[pod.requests] = wanted.get(pod.requests, 0) + 1
        return max((_expected_s(each, count, self._count) for each, count in wanted.items()), default=0.0)

    def tidy(self) -> None:
        """Count the ends again, after an image was read."""
        self._count = dict(Counter(requests for _, requests in self.ends))

    def _drop(self) -> None:
        _, requests = self.ends.popleft()
        left = self._count.pop(requests) - 1
        if left:
            self._count[requests] = left


def _expected_s(wanted: Requests, count: int, ended: dict[Requests, int]) -> float:
    large = [n for each, n in ended.items() if all(each.get(name) >= amount for name, amount in wanted.amounts)]
    return WINDOW_S * count / sum(large) if large else inf
