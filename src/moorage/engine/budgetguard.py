"""Disruption budgets in a round of making room: which victims the search leaves alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.engine.evictor import SHARES
from moorage.engine.sharedjobs import VictimUnit


class BudgetGuard:
    """The disruption ledger, as a round asks it."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self._ledger, self._now = state.disruptions, now
        self.on = False
        """Whether the search leaves alone what budgets protect."""

    @property
    def matters(self) -> bool:
        """Whether there are budgets."""
        return len(self._ledger.budgets) > 0

    def spend(self, pod: Pod) -> None:
        """A pod has to leave its node, as far as the round goes."""
        self._ledger.spend([pod], SHARES, self._now)

    def refuses(self, pods: Iterable[Pod]) -> bool:
        """Whether these may not be evicted, all together."""
        return self.on and self._ledger.refusing(pods, self._now) is not None

    def protects(self, units: Iterable[VictimUnit]) -> bool:
        """The same for pods of these units."""
        return self.on and self.refuses(record.pod for unit in units for record in unit.records)

    def pass_on(self, units: Iterable[VictimUnit]) -> Iterator[VictimUnit]:
        """Units that may be evicted, all together."""
        passed, charged = list[Pod](), self._ledger.budgets.charged
        for unit in units:
            pods = [record.pod for record in unit.records if self.on and charged(record.pod)]
            if not pods or not self.refuses([*passed, *pods]):
                passed += pods
                yield unit
