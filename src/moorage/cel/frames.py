"""One evaluation of an expression, which may be interrupted between the steps of its folds.

An evaluation that goes on begins again at the front: everything outside folds is cheap and gives what it gave before.
Folds are not repeated. A `Trail` has what became of those that were met, in the order in which they were met: their
values, or how far they got; inside each step of a fold that did not end, there is another trail. Costs are set back to
what they were at the same place, so that they are the same with and without interruptions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from moorage.cel.values import MISSING, Value
from moorage.cel.work import CostExceededError, WorkAccount


class PauseError(Exception):
    """The evaluation is interrupted, and goes on later."""


class Ended:
    """A fold that has ended."""

    __slots__ = ("after", "cost", "left", "value")

    def __init__(self, value: Value, after: int, cost: int, left: int) -> None:
        self.value, self.after, self.cost, self.left = value, after, cost, left


class Begun:
    """A fold that has not ended: what is left of its range, and what it met in the step that it is in."""

    __slots__ = ("after", "cost", "finishing", "inside", "left", "rest")

    def __init__(self, rest: Iterator[Value], after: int, cost: int, left: int) -> None:
        self.rest = rest
        self.after = after
        """The place in the trail behind the folds of its range."""
        self.inside = Trail()
        self.finishing = False
        self.cost, self.left = cost, left
        """What had been spent before the step, and what was left of the account."""


class Trail:
    """The folds that were met on one level, and how many of them since the evaluation went on."""

    __slots__ = ("at", "met")

    def __init__(self) -> None:
        self.at = 0
        self.met: list[Ended | Begun | None] = []
        """None: a fold whose range is being found."""


class Frame:
    """One evaluation: its variables, its slots for variables of folds, and what it has cost so far."""

    __slots__ = ("account", "cost", "limit", "pause_cost", "pause_left", "slots", "trail", "variables")

    def __init__(
        self, variables: Mapping[str, Value], slots: int, limit: int, account: WorkAccount | None = None
    ) -> None:
        self.variables = variables
        self.slots: list[Value] = [MISSING] * slots
        self.cost = 0
        self.limit = limit
        self.account = account or WorkAccount()
        self.trail = Trail()
        self.pause_cost, self.pause_left = sys.maxsize, -sys.maxsize
        """Beyond this cost, or with less than this left of the account, it is interrupted."""

    def charge(self, cost: int) -> None:
        """Add to the cost."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError

    def reset(self, cost: int, left: int) -> None:
        """Set costs back to what they were."""
        self.cost, self.account.left = cost, left


Run: TypeAlias = Callable[[Frame], Value]
