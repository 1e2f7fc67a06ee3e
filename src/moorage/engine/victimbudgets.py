"""Disruption budgets in a round of making room: which victims they protect, beside those that have to go already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.core.budgets import Budgets
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.engine.sharedjobs import VictimUnit

BUDGETS = "PodDisruptionBudget"


class VictimBudgets:
    """The budgets of one round."""

    def __init__(self, state: ClusterState) -> None:
        self._budgets = Budgets(state.objects.get(BUDGETS, {}).values())
        self.guards = False
        """Whether the search leaves alone what is protected."""
        self._going: list[Pod] = []
        """Pods that have to go and of which no budget knows yet."""

    def __len__(self) -> int:
        return len(self._budgets)

    def goes(self, pod: Pod) -> None:
        """A pod has to leave its node."""
        if self._budgets.charged(pod):
            self._going.append(pod)

    def refuse(self, pods: Iterable[Pod]) -> bool:
        """Whether these may not be evicted, all together."""
        if not self.guards:
            return False
        charged = [pod for pod in pods if self._budgets.charged(pod)]
        return bool(charged) and self._budgets.refusing([*self._going, *charged]) is not None

    def protect(self, units: Iterable[VictimUnit]) -> bool:
        """The same for pods of these units."""
        return self.guards and self.refuse(record.pod for unit in units for record in unit.records)

    def pass_on(self, units: Iterable[VictimUnit]) -> Iterator[VictimUnit]:
        """Units that may be evicted, all together."""
        passed: list[Pod] = []
        for unit in units:
            pods = [record.pod for record in unit.records if self.guards and self._budgets.charged(record.pod)]
            if not pods or not self.refuse([*passed, *pods]):
                passed += pods
                yield unit
