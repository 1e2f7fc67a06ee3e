"""What an hour of a node costs: rules over instance type, capacity type and labels, the most specific one first.

Money is whole millionths of a currency (`micros`), never a float. A node that no rule is for has no price, which is not
the price 0. A rule is for the nodes that meet all of its conditions; of several rules the one with most conditions
counts, among those the first in the list. A rule without conditions is for every node.

Invariant: `PriceTable.column` equals `of` on the labels of every living row; rows of dead nodes have no price.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.capacity import Capacity, CapacityTypes
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.nodecolumn import NodeColumn
from moorage.core.objects import ClusterWide
from moorage.core.resources import CPU, MEMORY, Requests
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

PRICE_LIST = "PriceList"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MICROS = 1_000_000
"""Parts of one unit of a currency."""
NO_PRICE = -1
"""Stands in columns where a node has no price."""
LARGEST = 10_000_000
"""Units of a currency that an hour may cost; keeps every sum and product of scores within int64."""

_DIGITS = 6
_SHOWN_DIGITS = 4
_PRICE = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,30}))?", re.ASCII)

_Shape: TypeAlias = tuple[tuple[str, ...], bool]
"""What a rule asks about: label keys, sorted, and whether it asks about the capacity type."""
_Asked: TypeAlias = tuple[object, ...]
"""What a node says to that: the values of the labels, and of the capacity type."""


class PriceError(ValueError):
    """A text that is no price; it says what to write instead."""


def read_price(text: str) -> int:
    """Micros of a text such as `0.096`."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise PriceError('not a price; write digits, perhaps with a point, such as "0.096"')
    whole, part = match[1], match[2] or ""
    if part[_DIGITS:].strip("0"):
        raise PriceError(f"has more than {_DIGITS} digits after the point; round it")
    micros = int(whole) * MICROS + int(part[:_DIGITS].ljust(_DIGITS, "0"))
    if micros > LARGEST * MICROS:
        raise PriceError(f"is more than {LARGEST} an hour; check it")
    return micros


def format_price(micros: int) -> str:
    """`1.2340`: exact, with four digits after the point or as many as it takes."""
    whole, part = divmod(micros, MICROS)
    digits = f"{part:0{_DIGITS}}"
    kept = max(_SHOWN_DIGITS, len(digits.rstrip("0")))
    return f"{whole}.{digits[:kept]}"


@dataclass(frozen=True, slots=True)
class PriceRule:
    """What an hour costs of the nodes that have all these labels and this capacity type."""

    micros_per_hour: int
    labels: FrozenDict[str, str] = EMPTY
    """The instance type is one of them."""
    capacity: Capacity | None = None
    """None: whatever it is."""

    @property
    def shape(self) -> _Shape:
        """What it asks about."""
        return tuple(sorted(self.labels)), self.capacity is not None

    @property
    def asked(self) -> _Asked:
        """What a node must say."""
        keys, by_capacity = self.shape
        return (*(self.labels[key] for key in keys), *((self.capacity,) if by_capacity else ()))

    @property
    def conditions(self) -> int:
        """How much it asks."""
        return len(self.labels) + (self.capacity is not None)


@dataclass(frozen=True, slots=True)
class PriceList(ClusterWide):
    """Prices from somewhere, as `ObjectSeen` brings them."""

    name: str
    currency: str = ""
    """An ISO 4217 code; empty if not given."""
    rules: tuple[PriceRule, ...] = ()
    as_of_s: float | None = None
    """The time of the prices; None if not given."""
    stale: bool = False
    """Whether they are too old to be used; the reader of the source decides that."""


def repeated(rules: Sequence[PriceRule]) -> tuple[int, int] | None:
    """The places of two rules that are for the same nodes, None if there are no such."""
    seen: dict[tuple[_Shape, _Asked], int] = {}
    for index, rule in enumerate(rules):
        earlier = seen.setdefault((rule.shape, rule.asked), index)
        if earlier != index:
            return earlier, index
    return None


class PriceTable:
    """Tells the prices of nodes. The capacity type is what `CapacityTypes` says."""

    def __init__(self, rules: Iterable[PriceRule]) -> None:
        ranked = sorted(rules, key=lambda rule: -rule.conditions)
        self._micros: Ints = np.array([*(rule.micros_per_hour for rule in ranked), NO_PRICE], dtype=np.int64)
        """By rank, and a last one for nodes that no rule is for."""
        self._ranks: dict[_Shape, dict[_Asked, int]] = {}
        for rank, rule in enumerate(ranked):
            self._ranks.setdefault(rule.shape, {}).setdefault(rule.asked, rank)
        self._types = CapacityTypes()
        self._column: NodeColumn[np.int64] = NodeColumn()

    def of(self, labels: Mapping[str, str]) -> int | None:
        """Micros an hour of a node with these labels, None if it has no price."""
        best, no_price = len(self._micros) - 1, len(self._micros) - 1
        for (keys, by_capacity), ranks in self._ranks.items():
            said = (*map(labels.get, keys), *((self._types.of(labels),) if by_capacity else ()))
            best = min(best, ranks.get(said, no_price))
        return None if best == no_price else int(self._micros[best])

    def column(self, state: ClusterState) -> Ints:
        """Micros an hour of every row, int64[state.capacity], kept until a node changes. Do not change the array."""

        def one_row(row: int) -> int:
            found = self.of(state.node(row).labels) if state.alive[row] else None
            return NO_PRICE if found is None else found

        return self._column.of(state, one_row, lambda: self._all_rows(state))

    def _all_rows(self, state: ClusterState) -> Ints:
        """Rows that say the same are looked up once, so that the number of rules does not matter."""
        best: Ints = np.full(state.capacity, len(self._micros) - 1, dtype=np.int64)
        for shape, ranks in self._ranks.items():
            np.minimum(best, self._ranks_of(state, shape, ranks), out=best)
        found: Ints = self._micros.take(best)
        found[~state.alive] = NO_PRICE
        return found

    def _ranks_of(self, state: ClusterState, shape: _Shape, ranks: Mapping[_Asked, int]) -> Ints:
        """The rank of the rule of this shape that is for each row, int64[state.capacity]."""
        keys, by_capacity = shape
        no_price = len(self._micros) - 1
        columns = [column for key in keys if (column := state.labels.known(key)) is not None]
        if len(columns) < len(keys):
            return np.full(state.capacity, no_price, dtype=np.int64)
        capacities = self._types.column(state) if by_capacity else np.zeros(state.capacity, dtype=np.int8)
        groups: Ints = capacities.astype(np.int64)
        for column in columns:
            mixed = groups * (len(column.values) + 1) + column.ids + 1
            groups = np.unique(mixed, return_inverse=True)[1].astype(np.int64)
        _, samples, groups_of = np.unique(groups, return_index=True, return_inverse=True)
        found = []
        for row in samples.tolist():
            texts = (None if column.ids[row] < 0 else column.values[column.ids[row]] for column in columns)
            said = (*texts, *((Capacity(int(capacities[row])),) if by_capacity else ()))
            found.append(ranks.get(said, no_price))
        return np.array(found, dtype=np.int64).take(groups_of)


def pod_micros(node_micros: int, requests: Requests, allocatable: Mapping[str, int]) -> int:
    """Micros an hour of a pod: the node's price times the largest share of a resource that the pod requests."""
    scored = {CPU: requests.score_cpu_milli, MEMORY: requests.score_memory_bytes}
    amounts = {**dict(requests.amounts), **scored}
    shares = (node_micros * amount // max(allocatable.get(name, 0), amount, 1) for name, amount in amounts.items())
    return max(shares, default=0)
