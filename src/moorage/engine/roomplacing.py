"""Places pods that belong together, in the what-if of a round: those that get room, and those that gave it, again.

Members of a gang that a plugin plans go where it wants them, as they will when the gang is tried; others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.arrays import Rows
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod, as_pending
from moorage.core.state import ClusterState, PodRecord
from moorage.engine.sharedjobs import VictimUnit
from moorage.engine.trial import NO_PRICES, Trial


class RoomPlacing:
    """Placing in one round."""

    def __init__(self, state: ClusterState, trial: Trial) -> None:
        self._state, self._trial = state, trial
        self._planned: dict[GangKey, bool] = {}
        """Whether a plugin plans a gang, as far as that was asked."""

    def domains(self, pods: Sequence[Pod]) -> Sequence[Rows] | None:
        """The domains in which members of a gang may lie that a plugin plans; None if none does."""
        return self._trial.planned_domains(pods) if self._is_planned(pods) else None

    def _is_planned(self, pods: Sequence[Pod]) -> bool:
        gang = pods[0].template.gang
        if gang is not None and gang not in self._planned:
            self._planned[gang] = self._trial.planned_domains(pods) is not None
        return gang is not None and self._planned[gang]

    def place(self, pods: Sequence[Pod], victims: Sequence[VictimUnit]) -> dict[str, str] | None:
        """Pod -> node if all of them find one; if a plugin plans them, rather where no victims were."""
        if self._is_planned(pods):
            rows = (self._state.row_of(record.node) for unit in victims for record in unit.records)
            return _nodes(self._trial.place_together(pods, {row: -1 for row in rows if row is not None}))
        found: dict[str, str] = {}
        for pod in pods:
            record = self._trial.place(pod)
            if record is None:
                return None
            found[pod.uid] = record.node
        return found

    def may_start(self, pods: Sequence[Pod]) -> bool:
        """Whether a gang of which these members are placed may start, if they are enough and none was there before."""
        gang = pods[0].template.gang
        terms = None if gang is None else terms_of(self._state, gang, pods)
        if gang is None or terms is None or not terms.min_resources or len(pods) < (terms.min_count or 0):
            return True
        if self._state.gangs.standing(gang).keys() - {pod.uid for pod in pods}:
            return True
        return GangNeeds(gang, terms, len(pods), terms.min_resources).obstacle(self._state) is None

    def place_again(self, records: Sequence[PodRecord], *, home_first: bool) -> dict[str, str] | None:
        """The same for pods that were taken away; `home_first`: where they were before, if that is possible."""
        pods = [as_pending(record.pod) for record in records]
        if self._is_planned(pods):
            homes = self._at_home(records, pods) if home_first else None
            return homes or _nodes(self._trial.place_together(pods, NO_PRICES))
        found: dict[str, str] = {}
        for record, pod in zip(records, pods, strict=True):
            row = self._state.row_of(record.node) if home_first else None
            place = None if row is None else self._trial.put(pod, row)
            place = place or self._trial.place(pod)
            if place is None:
                return None
            found[pod.uid] = place.node
        return found

    def _at_home(self, records: Sequence[PodRecord], pods: Sequence[Pod]) -> dict[str, str] | None:
        with self._state.statement() as what_if:
            for record, pod in zip(records, pods, strict=True):
                row = self._state.row_of(record.node)
                if row is None or self._trial.put(pod, row) is None:
                    return None
            what_if.commit()
        return {record.pod.uid: record.node for record in records}


def _nodes(records: Sequence[PodRecord] | None) -> dict[str, str] | None:
    return None if records is None else {record.pod.uid: record.node for record in records}
