"""Places pods that belong together, in the what-if of a round: those that get room, and those that gave it, again.

Members of a gang that a plugin plans go where it wants them, as they will when the gang is tried; others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.arrays import Rows
from moorage.core.disruption.away import Away
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod, as_pending
from moorage.core.state import ClusterState, PodRecord
from moorage.engine.roomparts import comes_back
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

    def place_again(self, records: Sequence[PodRecord], away: Away, *, home_first: bool) -> dict[str, str] | None:
        """The same for pods that are away; `home_first`: where they were before, if that is possible.

        One that comes home has what it had; where another pod has that by now, it comes there like a new one. Pods that
        nobody makes again only come home.
        """
        pods = [as_pending(record.pod) for record in records]
        if self._is_planned(pods):
            bound = not all(map(comes_back, records))
            if (home_first or bound) and self.go_home(records, away):
                return {record.pod.uid: record.node for record in records}
            return None if bound else self._seen(records, away, self._trial.place_together(pods, NO_PRICES))
        places: list[PodRecord] = []
        for record, pod in zip(records, pods, strict=True):
            bound = not comes_back(record)
            at_home = (home_first or bound) and self.go_home((record,), away)
            place = record if at_home else None if bound else self._trial.place(pod)
            if place is None:
                return None
            places.append(place)
        return self._seen(records, away, places)

    def go_home(self, records: Sequence[PodRecord], away: Away) -> bool:
        """Put pods back where they were, with all that they had; whether there is still room for all of them."""
        state = self._state
        with state.statement() as what_if:
            for record in records:
                row = state.row_of(record.node)
                self._trial.let_go(record.pod.uid)
                if row is None or not away.could_return(record) or not self._trial.fits(as_pending(record.pod), row):
                    return False
                away.put_back(record)
            what_if.commit()
        return True

    def _seen(
        self, records: Sequence[PodRecord], away: Away, places: Sequence[PodRecord] | None
    ) -> dict[str, str] | None:
        """Where pods are now; those that were placed at home have what they had there, if it is free."""
        for record in records if places is not None else ():
            now = self._state.record(record.pod.uid)
            if now is not None and now.node == record.node and not away.stays(record.pod.uid):
                self.go_home((record,), away)
        return _nodes(places)


def _nodes(records: Sequence[PodRecord] | None) -> dict[str, str] | None:
    return None if records is None else {record.pod.uid: record.node for record in records}
