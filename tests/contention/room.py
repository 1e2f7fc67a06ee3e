"""How much room there is, by plain arithmetic and no code of the scheduler: nodes with devices that pods take from.

A node of cpus is one device of that size; GPUs are devices of size 1. A pod takes from one device, or several whole
ones of a node. What a gang asks for lies in one domain of a level, if it names one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from moorage.core.shareasks import NVIDIA_GPU
from tests.contention.shapes import JobPlan, Shape

_NEAR = 1e-6
Amounts: TypeAlias = NDArray[np.float64]
Taken = list[tuple[int, list[int], float]]
"""Of each pod: node, devices, and what it takes of each of them."""


class Room:
    """What is free."""

    def __init__(self, shape: Shape) -> None:
        counts = [node.allocatable.get(NVIDIA_GPU, 0) for node in shape.nodes]
        sizes = [
            1.0 if count else node.allocatable["cpu"] / 1000 for node, count in zip(shape.nodes, counts, strict=True)
        ]
        self.size: Amounts = np.array(sizes)
        """Of a device, by node."""
        self.free: Amounts = np.zeros((len(sizes), max(1, *counts)))
        """By node and device."""
        for row, count in enumerate(counts):
            self.free[row, : max(1, count)] = sizes[row]
        self.rows = {node.name: row for row, node in enumerate(shape.nodes)}
        levels = {job.level for job in shape.jobs if job.level}
        self._domains = {level: [node.labels.get(level, "") for node in shape.nodes] for level in levels}

    def slots(self, plan: JobPlan) -> NDArray[np.int64]:
        """By node, how many of the job's pods would fit."""
        whole = plan.weight > self.size + _NEAR
        parts = np.floor(self.free / plan.weight + _NEAR).sum(axis=1)
        empty = (self.free >= self.size[:, None] - _NEAR).sum(axis=1)
        found: NDArray[np.int64] = np.where(whole, empty // np.ceil(plan.weight / self.size), parts).astype(np.int64)
        return found

    def places(self, plan: JobPlan, count: int) -> list[int] | None:
        """The nodes among which so many of its pods fit; None if there are none. Of several domains the tightest."""
        slots = self.slots(plan)
        if not plan.level:
            return list(range(len(slots))) if int(slots.sum()) >= count else None
        domains = self._domains[plan.level]
        sums = {
            domain: sum(int(slots[row]) for row, each in enumerate(domains) if each == domain) for domain in domains
        }
        enough = {domain: total for domain, total in sums.items() if domain and total >= count}
        if not enough:
            return None
        best = min(enough, key=lambda domain: (enough[domain], domain))
        return [row for row, each in enumerate(domains) if each == best]

    def take(self, plan: JobPlan, count: int) -> Taken | None:
        """Place so many pods of the job, each on the fullest device that holds it; None if they do not all fit."""
        rows = self.places(plan, count)
        if rows is None:
            return None
        return [self._take_one(plan.weight, rows) for _ in range(count)]

    def take_on(self, plan: JobPlan, row: int) -> None:
        """Place one pod of the job on a node that has room for it."""
        self._take_one(plan.weight, [row])

    def _take_one(self, weight: float, rows: list[int]) -> tuple[int, list[int], float]:
        best: tuple[float, int, list[int]] | None = None
        for row in rows:
            size = self.size[row]
            if weight <= size + _NEAR:
                fitting = [(self.free[row, at], [at]) for at in _places(self.free[row] >= weight - _NEAR)]
            else:
                empty = _places(self.free[row] >= size - _NEAR)
                needed = round(weight / size)
                fitting = [(float(len(empty)), empty[:needed])] if len(empty) >= needed else []
            for left, devices in fitting:
                if best is None or (left, row) < best[:2]:
                    best = (float(left), row, devices)
        if best is None:
            raise AssertionError("there was room")
        _, row, devices = best
        share = weight / len(devices)
        self.use(row, devices, share)
        return row, devices, share

    def use(self, row: int, devices: list[int], share: float) -> None:
        """A pod takes so much of each of these devices; it gives it back if that is negative."""
        self.free[row, devices] -= share


def _places(true: NDArray[np.bool_]) -> list[int]:
    return [int(at) for at in np.flatnonzero(true)]
