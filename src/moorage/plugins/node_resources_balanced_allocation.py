"""NodeResourcesBalancedAllocation: prefer nodes on which the pod evens out how much of each resource is used.

With f the used fraction of each resource (at most 1), a node's balance is int((1 - std(f)) * 100). The score is
50 + (50 + balance with the pod - balance without it) / 2. Resources that the node lacks do not count there, scalar
resources that the pod does not request do not count at all, and a pod that requests nothing is not scored.

The integers depend on the last bit of the fractions, so the order of the floating point operations is part of the rule:
amounts become floats before they are divided, two fractions are halved after subtracting, more are summed in the order
of the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from moorage.core.amountplans import DivisorColumns, RequestPlans
from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.columns import ResourceColumns
from moorage.core.pods import PodTemplate
from moorage.core.resourcenames import is_scalar_resource
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Requests
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, Status

_ROW_BY_ROW = 64


class BalancedResource(PluginArgs):
    """A resource to balance. All weigh the same: the weight is 1 (0 stands for 1)."""

    name: str
    weight: Annotated[int, Field(ge=0, le=1)] = 1


_DEFAULT_RESOURCES = (BalancedResource(name=CPU), BalancedResource(name=MEMORY))


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """The resources to balance; none means cpu and memory."""

    resources: Annotated[tuple[BalancedResource, ...], Field(strict=False)] = _DEFAULT_RESOURCES

    @field_validator("resources")
    @classmethod
    def _unique(cls, resources: tuple[BalancedResource, ...]) -> tuple[BalancedResource, ...]:
        names = [resource.name for resource in resources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: name each resource once")
        return resources


class _Part(NamedTuple):
    """One resource that counts for the pod, and how much the pod requests of it."""

    column: int
    amount: int


@dataclass(slots=True)
class _Kept:
    """50 minus the balances without any new pod, up to two positions of the state's change logs."""

    of: ClusterState
    balances: Ints
    node_position: int
    pod_position: int = -1


class NodeResourcesBalancedAllocation(Plugin):
    """How evenly the resources of a node are used."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    Args: ClassVar[type[PluginArgs]] = NodeResourcesBalancedAllocationArgs
    reads: ClassVar[Reads] = Reads.AMOUNTS
    wakes: ClassVar[What] = What(0)

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self.args: NodeResourcesBalancedAllocationArgs = args or NodeResourcesBalancedAllocationArgs()
        self._names = tuple(r.name for r in self.args.resources or _DEFAULT_RESOURCES)
        self._plans = RequestPlans(self._parts)
        self._divisors = DivisorColumns()
        self._kept: dict[tuple[int, ...], _Kept] = {}

    def sign(self, template: PodTemplate) -> tuple[tuple[str, int], ...]:
        """The real requests."""
        return template.requests.amounts

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Skip pods that request none of the resources: they would all end up on the same balanced node."""
        amounts = cycle.template.requests
        return None if any(amounts.get(name) for name in self._names) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The change of balance on each row, 0..100."""
        state = cycle.state
        parts = self._plans.get(state.resources, cycle.template.requests)
        change = self._balances(state, parts, rows)
        change += state.pick(self._before(state, parts), rows)
        np.maximum(change, 0, out=change)
        change >>= 1
        change += 50
        return change

    def _balances(self, state: ClusterState, parts: tuple[_Part, ...], rows: Rows) -> Ints:
        """The balance of each row with the amounts of the parts added, int64[len(rows)] in 0..100."""
        divisors = [self._divisors.get(state, column) for column, _ in parts]
        offered = [state.pick(divisor.amounts, rows) for divisor in divisors]
        fractions: list[Floats] = []
        for (column, amount), whole in zip(parts, offered, strict=True):
            fraction: Floats = np.divide(np.add(state.pick(state.resources.requested[column], rows), amount), whole)
            fractions.append(np.minimum(fraction, 1.0, out=fraction))
        everywhere = all(divisor.everywhere for divisor in divisors)
        return _balance(fractions, None if everywhere else [np.isfinite(whole) for whole in offered], len(rows))

    def _before(self, state: ClusterState, parts: tuple[_Part, ...]) -> Ints:
        """50 minus the balance without the pod, int64[capacity].

        It is the same for all pods, so only changed rows are computed.
        """
        columns = tuple(part.column for part in parts)
        kept = self._kept.get(columns)
        changed = None
        if kept is not None and kept.node_position == state.node_log.position and kept.of is state:
            changed = state.pod_log.since(kept.pod_position)
        if kept is None or changed is None or len(changed) > _ROW_BY_ROW:
            balances = np.zeros(state.capacity, dtype=np.int64)
            rows = state.rows()
            balances[rows] = 50 - self._balances(state, tuple(_Part(column, 0) for column in columns), rows)
            kept = self._kept[columns] = _Kept(state, balances, state.node_log.position)
        else:
            for row in changed:
                kept.balances[row] = 50 - _balance_of(_fractions(state.resources, [_Part(c, 0) for c in columns], row))
        kept.pod_position = state.pod_log.position
        return kept.balances

    def score_row(self, cycle: Cycle, row: int) -> int:
        """The change of balance on one row."""
        resources = cycle.state.resources
        parts = self._plans.get(resources, cycle.template.requests)
        after = _balance_of(_fractions(resources, parts, row))
        before = _balance_of(_fractions(resources, [_Part(column, 0) for column, _ in parts], row))
        return 50 + max(50 + after - before, 0) // 2

    def _parts(self, resources: ResourceColumns, requests: Requests) -> tuple[_Part, ...]:
        parts = []
        for name in self._names:
            column, amount = resources.known(name), requests.get(name)
            counts = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or (amount and is_scalar_resource(name))
            if counts and column is not None:
                parts.append(_Part(column, amount))
        return tuple(parts)


def _fractions(resources: ResourceColumns, parts: Iterable[_Part], row: int) -> list[float]:
    """The used fraction of each resource that one row has, with the amounts of the parts added."""
    fractions: list[float] = []
    for column, amount in parts:
        whole = float(resources.allocatable.item(column, row))
        if whole:
            fractions.append(min(float(resources.requested.item(column, row) + amount) / whole, 1.0))
    return fractions


def _balance_of(fractions: list[float]) -> int:
    """The balance of one node, 0..100."""
    if len(fractions) < 2:
        return 100
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100)
    total = 0.0
    for fraction in fractions:
        total += fraction
    mean = total / len(fractions)
    squares = 0.0
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
    return int((1 - math.sqrt(squares / len(fractions))) * 100)


def _balance(fractions: list[Floats], counts: list[Mask] | None, rows: int) -> Ints:
    """The balance of each row, int64[rows] in 0..100; `counts` is None where all resources count everywhere."""
    if counts is not None or len(fractions) > 2:
        deviation = _deviation(fractions, counts or [np.ones(rows, dtype=np.bool_)] * len(fractions), rows)
    elif len(fractions) == 2:
        difference = np.subtract(fractions[0], fractions[1], out=fractions[0])
        np.abs(difference, out=difference)
        np.subtract(2.0, difference, out=difference)  # the same as half of it from 1, times 100, to the last bit
        difference *= 50.0
        return difference.astype(np.int64)
    else:
        return np.full(rows, 100, dtype=np.int64)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= 100.0
    return deviation.astype(np.int64)


def _deviation(fractions: list[Floats], counts: list[Mask], rows: int) -> Floats:
    """Standard deviation, float64[rows], over the resources that count on each row; the other fractions are 0."""
    number, total, squares, highest = (np.zeros(rows) for _ in range(4))
    lowest = np.full(rows, np.inf)
    for fraction, mask in zip(fractions, counts, strict=True):
        number += mask
        total += fraction
        np.maximum(highest, fraction, out=highest)
        np.minimum(lowest, fraction, out=lowest, where=mask)
    mean = total / np.maximum(number, 1)
    for fraction, mask in zip(fractions, counts, strict=True):
        difference = fraction - mean
        difference *= difference
        np.add(squares, difference, out=squares, where=mask)
    many = np.sqrt(squares / np.maximum(number, 1))
    pair = np.where(number == 2, highest - lowest, 0.0) * 0.5
    deviation: Floats = np.where(number > 2, many, pair)
    return deviation
