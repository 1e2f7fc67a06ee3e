"""Evictions that the disruption budgets do not know of yet.

A budget's status is written by a controller a while after a pod went. Until then the allowance that it states is too
large. An eviction is a debt of a budget while the budget is still the object that it was when the eviction was ordered,
or the deletion of the pod has not been seen, for a minute at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.budgets import Budgets
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.core.state import ClusterState

_KEPT_S = 60.0


class Debt(NamedTuple):
    """One eviction that one budget covers, with the budget as it was then."""

    at_s: float
    pod: Pod
    budget: PodDisruptionBudget


class BudgetDebts:
    """Remembers ordered evictions of pods that budgets cover."""

    def __init__(self) -> None:
        self._debts: deque[Debt] = deque()

    def note(self, pods: Iterable[Pod], budgets: Budgets, now: float) -> int:
        """These evictions were ordered; returns the number of debts that they made."""
        debts = [Debt(now, pod, budgets.all[number]) for pod in pods for number in budgets.covering(pod)]
        self._debts.extend(debts)
        return len(debts)

    def take_back(self, count: int) -> None:
        """The latest debts are none: their evictions were not ordered after all."""
        for _ in range(min(count, len(self._debts))):
            self._debts.pop()

    def spent(self, state: ClusterState, budgets: Budgets, now: float) -> Ints | None:
        """What each budget has lost beyond what it says, by its number; None if nothing."""
        while self._debts and self._debts[0].at_s <= now - _KEPT_S:
            self._debts.popleft()
        if not self._debts:
            return None
        number_of = {budget.key: number for number, budget in enumerate(budgets.all)}
        spent: Ints = np.zeros(len(budgets), dtype=np.int64)
        for debt in self._debts:
            number = number_of.get(debt.budget.key)
            if number is not None and _is_open(state, debt, budgets.all[number]):
                spent[number] += 1
        return spent


def _is_open(state: ClusterState, debt: Debt, budget: PodDisruptionBudget) -> bool:
    if debt.pod.name in budget.disrupted_pods:
        return False
    record = state.record(debt.pod.uid)
    return budget == debt.budget or (record is not None and record.pod.deleted_s is None)
