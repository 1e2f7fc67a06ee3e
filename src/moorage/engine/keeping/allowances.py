"""Which pods the keeper may disrupt at this moment: disruption budgets, and a limit for workloads that have none.

The API server has the last word on every eviction. This module saves it requests whose answer is known, and keeps
workloads without a budget from losing all their pods at once.
"""

from __future__ import annotations

from moorage.core.objects import Workload
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.engine.keeping.moves import Moves

_SHARE = 4
"""Of a workload without a budget, one in this many pods may be moved at the same time, and at least one."""
_KEEPER = "keeper"
"""For whose limit its evictions count in the ledger."""


class Allowances:
    """The disruption ledger, as a plan asks it."""

    def __init__(self, state: ClusterState, moves: Moves, now: float) -> None:
        self._state, self._moves, self._now = state, moves, now

    def permit(self, pod: Pod, *, hurry: bool) -> bool:
        """Whether the pod may be disrupted now; with `hurry`, workloads without a budget have no limit."""
        ledger = self._state.disruptions
        if ledger.budgets.covering(pod):
            return ledger.refusing((pod,), self._now) is None
        owner = owner_key(pod.template)
        return hurry or not owner or self._moves.of_owner(owner) < self._pace(pod)

    def take(self, pod: Pod) -> None:
        """The eviction of the pod is ordered."""
        self._state.disruptions.ordered(pod, _KEEPER, self._now)

    def _pace(self, pod: Pod) -> int:
        """How many pods of a workload may be moved at the same time: a quarter of its desired replicas."""
        owner = pod.template.owner
        if owner is None:
            return 1
        workload = self._state.object(owner.kind, f"{pod.namespace}/{owner.name}")
        return max(1, workload.desired // _SHARE) if isinstance(workload, Workload) else 1
