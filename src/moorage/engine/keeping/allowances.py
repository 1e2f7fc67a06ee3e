"""Which pods may be disrupted at this moment: disruption budgets, and a limit for workloads that have none.

The API server has the last word on every eviction. This module saves it requests whose answer is known, and keeps
workloads without a budget from losing all their pods at once.

Created for every plan; what the plan uses is subtracted at once.
"""

from __future__ import annotations

from moorage.core.budgets import Budgets
from moorage.core.objects import PodDisruptionBudget, Workload
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.engine.keeping.moves import Moves

_SHARE = 4
"""Of a workload without a budget, one in this many pods may be moved at the same time, and at least one."""
BUDGET = "PodDisruptionBudget"


class BudgetTable:
    """The budgets of a state, looked up again only when one has changed."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._version = -1
        self._budgets = Budgets()

    def now(self) -> Budgets:
        """The budgets as they are."""
        version = self._state.object_versions.get(BUDGET, 0)
        if version != self._version:
            objects: dict[str, PodDisruptionBudget] = self._state.objects.get(BUDGET, {})
            self._budgets, self._version = Budgets(objects.values()), version
        return self._budgets


class Allowances:
    """What is left for one plan."""

    def __init__(self, state: ClusterState, budgets: Budgets, moves: Moves) -> None:
        self._state = state
        self._budgets = budgets
        self._moves = moves
        self._left = [int(allowed) for allowed in budgets.allowed]
        for move in moves.all():
            if not move.answered:
                self._subtract(move.pod)

    def permit(self, pod: Pod, *, hurry: bool) -> bool:
        """Whether the pod may be disrupted now; with `hurry`, workloads without a budget have no limit."""
        covering = self._budgets.covering(pod)
        if covering:
            return all(self._left[number] > 0 for number in self._budgets.charged(pod))
        owner = owner_key(pod.template)
        return hurry or not owner or self._moves.of_owner(owner) < self._pace(pod)

    def take(self, pod: Pod) -> None:
        """The pod is disrupted."""
        self._subtract(pod)

    def _subtract(self, pod: Pod) -> None:
        for number in self._budgets.charged(pod):
            self._left[number] -= 1

    def _pace(self, pod: Pod) -> int:
        """How many pods of a workload may be moved at the same time: a quarter of its desired replicas."""
        owner = pod.template.owner
        if owner is None:
            return 1
        workload = self._state.object(owner.kind, f"{pod.namespace}/{owner.name}")
        return max(1, workload.desired // _SHARE) if isinstance(workload, Workload) else 1
