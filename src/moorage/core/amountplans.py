"""What plugins that read amounts keep between decisions: plans for requests, and allocatable columns as floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from moorage.core.arrays import Floats, Mask
from moorage.core.columns import ResourceColumns
from moorage.core.resources import Requests
from moorage.core.state import ClusterState

_KEPT = 4096
_KEPT_AMOUNTS = 1 << 15
"""In all plans, some 200 bytes each."""

T = TypeVar("T")


class RequestPlans(Generic[T]):
    """What each set of requests means on one state's columns; made anew when a resource gets or loses a column."""

    __slots__ = ("_amounts", "_last", "_layout", "_make", "_plans", "_resources")

    def __init__(self, make: Callable[[ResourceColumns, Requests], T]) -> None:
        self._make = make
        self._resources: ResourceColumns | None = None
        self._layout = -1
        self._plans: dict[Requests, T] = {}
        self._amounts = 0
        self._last: tuple[Requests, T] | None = None

    def get(self, resources: ResourceColumns, requests: Requests) -> T:
        """The plan for these requests."""
        if resources is self._resources and resources.layout == self._layout:
            last = self._last
            if last is not None and last[0] is requests:
                return last[1]
        else:
            self._plans.clear()
            self._amounts = 0
            self._resources, self._layout = resources, resources.layout
        plan = self._plans.get(requests)
        if plan is None:
            self._amounts += len(requests.amounts)
            if len(self._plans) >= _KEPT or self._amounts > _KEPT_AMOUNTS:
                self._plans.clear()
                self._amounts = len(requests.amounts)
            plan = self._plans[requests] = self._make(resources, requests)
        self._last = (requests, plan)
        return plan


class DivisorColumn(NamedTuple):
    """An allocatable column for dividing: float64[capacity], infinite where a node has none of the resource."""

    amounts: Floats
    everywhere: bool
    """Whether every living node has it."""
    largest: int


class DivisorColumns:
    """Allocatable columns for dividing, made anew when a node changed."""

    __slots__ = ("_divisors", "_position", "_state")

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._position = -1
        self._divisors: dict[int, DivisorColumn] = {}

    def get(self, state: ClusterState, column: int) -> DivisorColumn:
        """The column of this number."""
        if state.node_log.position != self._position or state is not self._state:
            self._divisors.clear()
            self._state, self._position = state, state.node_log.position
        found = self._divisors.get(column)
        if found is None:
            offered = state.resources.allocatable[column]
            has_some: Mask = offered > 0
            amounts = np.where(has_some, offered, np.inf)
            largest = int(offered.max()) if len(offered) else 0
            found = self._divisors[column] = DivisorColumn(amounts, bool(has_some[state.rows()].all()), largest)
        return found
