"""Pools with their devices in another order: those that are partly in use come first, from the fullest on.

Which claims can be served does not depend on the order, only which of several equal devices they get.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moorage.core.allocating import DeviceUsage
from moorage.core.devicepools import Counter, DeviceCandidate, Pool
from moorage.core.quantity import parse_quantity


def packed(pools: Iterable[Pool], usage: DeviceUsage) -> tuple[Pool, ...]:
    """The pools in their order, each with its devices from the fullest to the emptiest."""
    return tuple(_packed(pool, usage) for pool in pools)


def _packed(pool: Pool, usage: DeviceUsage) -> Pool:
    left = usage.available(pool)

    def fullness(candidate: DeviceCandidate) -> float:
        return max(_consumed(candidate, usage), _counted(candidate, pool, left))

    return replace(pool, candidates=tuple(sorted(pool.candidates, key=fullness, reverse=True)))


def _consumed(candidate: DeviceCandidate, usage: DeviceUsage) -> float:
    """Which share of a capacity is consumed, of the one of which most is; 0 to 1."""
    used, capacity = usage.consumed(candidate.id) or {}, candidate.device.capacity
    return max(
        (_share(used[name], parse_quantity(capacity[name].value)) for name in used if name in capacity), default=0
    )


def _counted(candidate: DeviceCandidate, pool: Pool, left: dict[Counter, int]) -> float:
    """The same of the counters that the device takes from."""
    totals = ((pool.counters[counter], left[counter]) for counter, _ in candidate.counters)
    return max((_share(total - rest, total) for total, rest in totals), default=0)


def _share(used: int, total: int) -> float:
    return used / total if total > 0 else 0
