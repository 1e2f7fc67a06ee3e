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
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.columns import ResourceColumns
from moorage.core.pods import PodTemplate
from moorage.core.resourcenames import is_scalar_resource
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Requests
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, Status

_KEPT_PLANS = 4096
_BEFORE, _AFTER = 0, 1


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


class _Whole(NamedTuple):
    """An allocatable column for dividing: float64[capacity], infinite where a node has none of the resource."""

    amounts: Floats
    everywhere: bool
    """Whether every living node has it."""


class NodeResourcesBalancedAllocation(Plugin):
    """How evenly the resources of a node are used."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    Args: ClassVar[type[PluginArgs]] = NodeResourcesBalancedAllocationArgs
    reads: ClassVar[Reads] = Reads.AMOUNTS
    wakes: ClassVar[What] = What(0)

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self.args: NodeResourcesBalancedAllocationArgs = args or NodeResourcesBalancedAllocationArgs()
        self._names = tuple(r.name for r in self.args.resources or _DEFAULT_RESOURCES)
        self._resources: ResourceColumns | None = None
        self._known = 0
        self._plans: dict[Requests, tuple[_Part, ...]] = {}
        self._last: tuple[Requests, tuple[_Part, ...]] | None = None
        self._wholes: dict[int, _Whole] = {}
        self._wholes_position = -1

    def sign(self, template: PodTemplate) -> tuple[tuple[str, int], ...]:
        """The real requests."""
        return template.requests.amounts

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Leave out pods that request none of the resources: they would all end up on the same balanced node."""
        amounts = cycle.template.requests
        return None if any(amounts.get(name) for name in self._names) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The change of balance on each row, 0..100."""
        state = cycle.state
        parts = self._plan(state.resources, cycle.template.requests)
        fractions: list[Floats] = []
        counts: list[Mask] = []
        everywhere = True
        for column, amount in parts:
            whole = self._whole(state, column)
            used = np.empty((2, len(rows)), dtype=np.int64)
            used[_BEFORE] = state.pick(state.resources.requested[column], rows)
            np.add(used[_BEFORE], amount, out=used[_AFTER])
            offered = state.pick(whole.amounts, rows)
            fraction: Floats = np.divide(used, offered)
            fractions.append(np.minimum(fraction, 1.0, out=fraction))
            counts.append(np.isfinite(offered))
            everywhere = everywhere and whole.everywhere
        balance = _balance(fractions, None if everywhere else counts, len(rows))
        change: Ints = np.subtract(balance[_AFTER], balance[_BEFORE])
        change += 50
        np.maximum(change, 0, out=change)
        change >>= 1
        change += 50
        return change

    def score_row(self, cycle: Cycle, row: int) -> int:
        """The change of balance on one row."""
        resources = cycle.state.resources
        allocatable, requested = resources.allocatable.item, resources.requested.item
        before: list[float] = []
        after: list[float] = []
        for column, amount in self._plan(resources, cycle.template.requests):
            whole = float(allocatable(column, row))
            if whole:
                used = requested(column, row)
                before.append(min(float(used) / whole, 1.0))
                after.append(min(float(used + amount) / whole, 1.0))
        return 50 + max(50 + _balance_of(after) - _balance_of(before), 0) // 2

    def _plan(self, resources: ResourceColumns, requests: Requests) -> tuple[_Part, ...]:
        if resources is self._resources and len(resources.names) == self._known:
            last = self._last
            if last is not None and last[0] is requests:
                return last[1]
        else:
            self._plans.clear()
            self._wholes.clear()
            self._resources, self._known = resources, len(resources.names)
        plan = self._plans.get(requests)
        if plan is None:
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.clear()
            plan = self._plans[requests] = tuple(self._parts(resources, requests))
        self._last = (requests, plan)
        return plan

    def _parts(self, resources: ResourceColumns, requests: Requests) -> list[_Part]:
        parts = []
        for name in self._names:
            column, amount = resources.known(name), requests.get(name)
            counts = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or (amount and is_scalar_resource(name))
            if counts and column is not None:
                parts.append(_Part(column, amount))
        return parts

    def _whole(self, state: ClusterState, column: int) -> _Whole:
        position = state.node_log.position
        if position != self._wholes_position:
            self._wholes.clear()
            self._wholes_position = position
        found = self._wholes.get(column)
        if found is None:
            offered = state.resources.allocatable[column]
            has_some: Mask = offered > 0
            amounts = np.where(has_some, offered, np.inf)
            found = self._wholes[column] = _Whole(amounts, bool(has_some[state.rows()].all()))
        return found


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
    """The balance before and after, int64[2, rows] in 0..100; `counts` is None where all resources count everywhere."""
    if counts is not None or len(fractions) > 2:
        deviation = _deviation(fractions, counts or [np.ones(rows, dtype=np.bool_)] * len(fractions), rows)
    elif len(fractions) == 2:
        deviation = np.subtract(fractions[0], fractions[1], out=fractions[0])
        np.abs(deviation, out=deviation)
        deviation *= 0.5
    else:
        return np.full((2, rows), 100, dtype=np.int64)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= 100.0
    return deviation.astype(np.int64)


def _deviation(fractions: list[Floats], counts: list[Mask], rows: int) -> Floats:
    """Standard deviation, float64[2, rows], over the resources that count on each row; the other fractions are 0."""
    number = np.zeros(rows)
    total, squares, highest = (np.zeros((2, rows)) for _ in range(3))
    lowest = np.full((2, rows), np.inf)
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
