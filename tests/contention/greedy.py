"""A plain reference: packs by rank, evicts nobody, knows everything at once and needs no time for it.

Whenever a pod ends or a Job arrives, Jobs start that fit, in order: those of queues below their quota first, then by
priority, then by age. A Job that does not fit keeps nobody out.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass

from tests.contention.room import Room, Taken
from tests.contention.shapes import JobPlan, Shape


@dataclass(frozen=True)
class Reference:
    """What it amounted to."""

    utilisation: float
    makespan_s: float


def greedy(shape: Shape) -> Reference:
    """Play a shape."""
    room = Room(shape)
    quotas = {queue.name: (queue.quota, queue.limit) for queue in shape.queues}
    used: Counter[str] = Counter()
    ends: list[tuple[float, int, JobPlan, Taken]] = []
    arrivals = sorted(shape.jobs, key=lambda job: job.at_s)
    waiting: list[JobPlan] = []
    now_s = area = 0.0
    serial = itertools.count()
    while arrivals or waiting or ends:
        now_s = min([*(job.at_s for job in arrivals[:1]), *(each[0] for each in ends[:1])])
        while arrivals and arrivals[0].at_s <= now_s:
            waiting.append(arrivals.pop(0))
        while ends and ends[0][0] <= now_s:
            _, _, job, taken = heapq.heappop(ends)
            used[job.queue] -= round(job.size * job.weight * 1000)
            for row, devices, share in taken:
                room.use(row, devices, -share)
        for job in _in_order(waiting, used, quotas):
            started = room.take(job, job.size) if _may(job, used, quotas) else None
            if started is not None:
                waiting.remove(job)
                used[job.queue] += round(job.size * job.weight * 1000)
                area += job.size * job.weight * job.run_s
                heapq.heappush(ends, (now_s + job.run_s, next(serial), job, started))
        if waiting and not ends and not arrivals:
            raise AssertionError(f"{len(waiting)} jobs of {shape.name} never fit")
    return Reference(area / shape.capacity / now_s, now_s)


def _in_order(waiting: list[JobPlan], used: Counter[str], quotas: dict[str, tuple[int, int | None]]) -> list[JobPlan]:
    def rank(job: JobPlan) -> tuple[bool, int, float]:
        below = used[job.queue] < 1000 * quotas.get(job.queue, (0, None))[0]
        return not below, -job.priority, job.at_s

    return sorted(waiting, key=rank)


def _may(job: JobPlan, used: Counter[str], quotas: dict[str, tuple[int, int | None]]) -> bool:
    limit = quotas.get(job.queue, (0, None))[1]
    return limit is None or used[job.queue] + 1000 * job.size * job.weight <= 1000 * limit
