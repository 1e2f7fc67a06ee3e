"""Node resources as columns: one contiguous int64 column per resource, cpu in milli, the rest in whole units.

A resource has a column while a node offers some of it. Amounts of other resources have no column: `Vector.unknown`
keeps those that a pod requests, so that they count as soon as a node offers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moorage.core.arrays import Ints
from moorage.core.limits import AMOUNT, NODE_PODS
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests

FIRST_COLUMNS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
CPU_COLUMN, MEMORY_COLUMN, EPHEMERAL_COLUMN, PODS_COLUMN = range(4)
_FIRST = len(FIRST_COLUMNS)
_SCORED = 2
_NO_AMOUNTS: Ints = np.zeros(_SCORED + _FIRST, dtype=np.int64)
_KEPT_VECTORS = 20_000
_KEPT_AMOUNTS = 1 << 17
"""In all vectors, some 200 bytes each: few pods name more than five resources."""

Matrix = npt.NDArray[np.int64]
"""int64[resources, capacity]"""
Matrices = npt.NDArray[np.int64]
"""int64[2, resources, capacity]"""


class Vector(NamedTuple):
    """A pod's requests as (column, amount) pairs, the pod itself included as one of `pods`."""

    pairs: tuple[tuple[int, int], ...]
    score_cpu_milli: int
    score_memory_bytes: int
    further: tuple[int, ...] = ()
    """Those columns of `pairs` that may be dropped."""
    unknown: tuple[str, ...] = ()
    """Resources that the pod asks for and no node offers."""
    always: Ints = _NO_AMOUNTS
    """int64[6]: what it takes of the two columns of scores, and of the permanent columns."""


NOTHING = Vector((), 0, 0)


class ResourceColumns:
    """`allocatable` and `requested` are int64[resources, capacity]; index the first axis with `known(name)`.

    `score_requested` is int64[2, capacity]: cpu and memory with kube-scheduler's defaults for containers that request
    nothing.

    Invariants: a column that is neither offered by a row nor held by a pod on a row is all zeros; when a node changes,
    it is taken back and given to the next name that needs one. Otherwise a name keeps its column. No sum overflows on a
    row that has room for a pod, see `limits.AMOUNT`.
    """

    def __init__(self, capacity: int) -> None:
        self._index: dict[str, int] = {name: number for number, name in enumerate(FIRST_COLUMNS)}
        self.names: list[str] = list(FIRST_COLUMNS)
        """The resource of each column; the empty text where a column is free."""
        self.layout = 0
        """Rises whenever a name gets or loses its column."""
        self._room: Matrices = np.zeros((2, _SCORED + 2 * _FIRST, capacity), dtype=np.int64)
        """Where `allocatable` and `requested` lie, with columns to spare: together, so that `amounts` takes one copy.
        Before `requested` lies `score_requested`, and nothing before `allocatable`."""
        self._uses: list[int] = [1] * _FIRST
        """Of each column how many rows offer what it is for, plus how many pods on rows hold some."""
        self._expose()
        self._vectors: dict[Requests, Vector] = {}
        self._latest: tuple[Requests, Vector] | None = None
        """What was asked for last: bursts are of equal pods."""
        self._amounts = 0

    def _expose(self) -> None:
        self._used: Matrices = self._room[:, : _SCORED + len(self.names)]
        self.allocatable: Matrix = self._used[0, _SCORED:]
        self.requested: Matrix = self._used[1, _SCORED:]
        self.score_requested: Matrix = self._used[1, :_SCORED]
        self._always: Matrix = self._used[1, : _SCORED + _FIRST]

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._room = np.pad(self._room, ((0, 0), (0, 0), (0, capacity - self._room.shape[2])))
        self._expose()

    def known(self, name: str) -> int | None:
        """The number of a resource's column, if a node offers it."""
        return self._index.get(name)

    def listed(self, row: int) -> Iterator[tuple[str, int, int]]:
        """Resources that a row offers or that its pods request: name, requested and allocatable amount."""
        for column, name in enumerate(self.names):
            asked, offered = int(self.requested[column, row]), int(self.allocatable[column, row])
            if asked or offered:
                yield name, asked, offered

    def vector(self, requests: Requests) -> Vector:
        """The requests by column; kept for requests that come again. Good for as long as `layout` stays."""
        latest = self._latest
        if latest is not None and latest[0] is requests:
            return latest[1]
        found = self._vectors.get(requests)
        if found is None:
            found = self._make_vector(requests)
            self._amounts += len(requests.amounts)
            if len(self._vectors) > _KEPT_VECTORS or self._amounts > _KEPT_AMOUNTS:
                self._vectors.clear()
                self._amounts = len(requests.amounts)
            self._vectors[requests] = found
        self._latest = (requests, found)
        return found

    def _make_vector(self, requests: Requests) -> Vector:
        cpu, memory = requests.score_cpu_milli, requests.score_memory_bytes
        always = [cpu, memory, 0, 0, 0, 0]
        always[_SCORED + PODS_COLUMN] = 1
        pairs = [(PODS_COLUMN, 1)]
        further: list[int] = []
        unknown: list[str] = []
        for name, amount in requests.amounts:
            column = self._index.get(name)
            if column is None:
                unknown.append(name)
            elif column >= _FIRST:
                pairs.append((column, amount))
                further.append(column)
            elif column != PODS_COLUMN:
                pairs.append((column, amount))
                always[_SCORED + column] = amount
        return Vector(tuple(pairs), cpu, memory, tuple(further), tuple(unknown), np.array(always, dtype=np.int64))

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> bool:
        """Replace what a row offers; an empty mapping clears it. Returns whether a name got a column by that."""
        layout = self.layout
        before = self.allocatable[_FIRST:, row].nonzero()[0] + _FIRST
        columns = {self._offered(name): min(amount, most_of(name)) for name, amount in amounts.items() if amount}
        gained = self.layout != layout
        for number in before.tolist():
            self._uses[number] -= 1
        self.allocatable[:, row] = 0
        for column, amount in columns.items():
            self.allocatable[column, row] = amount
        if 0 in self._uses:
            self._free_unused()
        return gained

    def _offered(self, name: str) -> int:
        """The column of a resource that one more row offers, made if there is none."""
        column = self._index.get(name)
        if column is None:
            column = self._make(name)
        if column >= _FIRST:
            self._uses[column] += 1
        return column

    def _make(self, name: str) -> int:
        column = self.names.index("") if "" in self.names else len(self.names)
        if column == len(self.names):
            self.names.append("")
            self._uses.append(0)
            if _SCORED + column == self._room.shape[1]:
                self._room = np.pad(self._room, ((0, 0), (0, column), (0, 0)))
            self._expose()
        self._rename(column, name)
        return column

    def _free_unused(self) -> None:
        """Free columns that are not needed; those at the end are dropped, and memory is released when it is worth
        it.
        """
        for column, uses in enumerate(self._uses):
            if not uses and self.names[column]:
                del self._index[self.names[column]]
                self._rename(column, "")
        while not self.names[-1]:
            self.names.pop()
            self._uses.pop()
        self._expose()
        if self._room.shape[1] > _SCORED + max(4 * len(self.names), 4 * _FIRST):
            self._room = self._room[:, : _SCORED + 2 * len(self.names)].copy()
            self._expose()

    def _rename(self, column: int, name: str) -> None:
        self.names[column] = name
        if name:
            self._index[name] = column
        self.layout += 1
        self._vectors.clear()
        self._latest = None
        self._amounts = 0

    def uses(self) -> dict[str, int]:
        """How many rows offer, and how many pods on rows hold, resources that come and go."""
        return {name: uses for name, uses in zip(self.names[_FIRST:], self._uses[_FIRST:], strict=True) if name}

    def amounts(self, row: int) -> bytes:
        """Everything that these columns hold about a row, as a key: equal keys, equal amounts while `layout` stays."""
        return self._used[:, :, row].tobytes()

    def add(self, row: int, vector: Vector, sign: int) -> None:
        """Add (sign 1) or take away (sign -1) a pod's requests on a row."""
        cells = self._always[:, row]
        (np.add if sign > 0 else np.subtract)(cells, vector.always, out=cells)
        if vector.further:
            for column, amount in vector.pairs:
                if column >= _FIRST:
                    self.requested[column, row] += sign * amount
                    self._uses[column] += sign


def most_of(name: str) -> int:
    """What a node may offer of a resource: less than the largest request, so that such a request never fits."""
    return NODE_PODS if name == PODS else AMOUNT - 1
