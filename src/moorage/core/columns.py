"""Node resources as columns: one contiguous int64 column per resource, cpu in milli, the rest in whole units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests

FIRST_COLUMNS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
CPU_COLUMN, MEMORY_COLUMN, EPHEMERAL_COLUMN, PODS_COLUMN = range(4)


class Vector(NamedTuple):
    """A pod's requests as (column, amount) pairs, the pod itself included as one of `pods`."""

    pairs: tuple[tuple[int, int], ...]
    score_cpu_milli: int
    score_memory_bytes: int


class ResourceColumns:
    """`allocatable` and `requested` are int64[resources, capacity]; index the first axis with `column(name)`.

    `score_requested` is int64[2, capacity]: cpu and memory with kube-scheduler's defaults for containers that request
    nothing. New resource names add columns; columns are never removed.
    """

    def __init__(self, capacity: int) -> None:
        self._index: dict[str, int] = {name: number for number, name in enumerate(FIRST_COLUMNS)}
        self.names: list[str] = list(FIRST_COLUMNS)
        self.allocatable: npt.NDArray[np.int64] = np.zeros((len(FIRST_COLUMNS), capacity), dtype=np.int64)
        self.requested: npt.NDArray[np.int64] = np.zeros((len(FIRST_COLUMNS), capacity), dtype=np.int64)
        self.score_requested: npt.NDArray[np.int64] = np.zeros((2, capacity), dtype=np.int64)
        self._vectors: dict[Requests, Vector] = {}

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        extra = capacity - self.allocatable.shape[1]
        self.allocatable = np.pad(self.allocatable, ((0, 0), (0, extra)))
        self.requested = np.pad(self.requested, ((0, 0), (0, extra)))
        self.score_requested = np.pad(self.score_requested, ((0, 0), (0, extra)))

    def column(self, name: str) -> int:
        """The number of a resource's column, made on first use."""
        found = self._index.get(name)
        if found is None:
            found = self._index[name] = len(self.names)
            self.names.append(name)
            self.allocatable = np.pad(self.allocatable, ((0, 1), (0, 0)))
            self.requested = np.pad(self.requested, ((0, 1), (0, 0)))
        return found

    def known(self, name: str) -> int | None:
        """The number of a resource's column, if any node or pod has named it."""
        return self._index.get(name)

    def vector(self, requests: Requests) -> Vector:
        """The requests by column; kept for requests that come again."""
        found = self._vectors.get(requests)
        if found is None:
            pairs = [(self.column(name), amount) for name, amount in requests.amounts if name != PODS]
            pairs.append((PODS_COLUMN, 1))
            found = Vector(tuple(pairs), requests.score_cpu_milli, requests.score_memory_bytes)
            if len(self._vectors) > 20_000:
                self._vectors.clear()
            self._vectors[requests] = found
        return found

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Replace what a row offers; an empty mapping clears it."""
        columns = {self.column(name): amount for name, amount in amounts.items()}
        self.allocatable[:, row] = 0
        for column, amount in columns.items():
            self.allocatable[column, row] = amount

    def amounts(self, row: int) -> bytes:
        """Everything that these columns hold about a row, as a key: equal keys, equal amounts."""
        return (
            self.allocatable[:, row].tobytes()
            + self.requested[:, row].tobytes()
            + self.score_requested[:, row].tobytes()
        )

    def add(self, row: int, vector: Vector, sign: int) -> None:
        """Add (sign 1) or take away (sign -1) a pod's requests on a row."""
        requested = self.requested
        for column, amount in vector.pairs:
            requested[column, row] += sign * amount
        self.score_requested[0, row] += sign * vector.score_cpu_milli
        self.score_requested[1, row] += sign * vector.score_memory_bytes
