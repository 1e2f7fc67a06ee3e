"""One evaluation of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from moorage.cel.values import MISSING, Value
from moorage.cel.work import CostExceededError


class Frame:
    """One evaluation: its variables, its slots for variables of folds, and what it has cost so far."""

    __slots__ = ("cost", "limit", "slots", "variables")

    def __init__(self, variables: Mapping[str, Value], slots: int, limit: int) -> None:
        self.variables = variables
        self.slots: list[Value] = [MISSING] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Add to the cost."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError


Run: TypeAlias = Callable[[Frame], Value]
