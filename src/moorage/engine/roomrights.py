"""Who may have room that a round has made: a unit that could have taken it itself from those who leave.

Room goes by the order of queues, and so to others than those that it was made for. Here it is taken once more, with
everybody who leaves back on their nodes: those that made room take first, each as little as it needs, then the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from moorage.core.disruption.away import MOVED, let_go
from moorage.core.queueorder import within
from moorage.core.queuetree import QueueNode
from moorage.core.reclaiming import Loss, allowed
from moorage.core.state import PodRecord
from moorage.engine.departures import RoundDepartures
from moorage.engine.roomparts import Claimant, Held, Returning
from moorage.engine.roomplacing import RoomPlacing
from moorage.engine.sharedjobs import RunningJob, VictimUnit, jobs_of
from moorage.engine.sharing import Sharing
from moorage.engine.trial import Trial


class RoomRights:
    """Asks that for one round, in its what-if."""

    def __init__(self, sharing: Sharing, trial: Trial, placing: RoomPlacing, departures: RoundDepartures) -> None:
        self._state, self._sharing, self._trial = trial.context.state, sharing, trial
        self._placing, self._departures = placing, departures

    def without(self, claimants: Sequence[Claimant]) -> list[Claimant]:
        """Those of the claimants, in the order in which they take, that could not have taken their room themselves."""
        jobs = jobs_of(self._state, self._sharing, self._departures.nowhere())
        left = [unit for job, records in jobs for unit in self._units(Returning(job, records))]
        nodes = {uid: self._departures.node_of(uid) for each in claimants for uid in _uids(each)}
        found = []
        with self._state.statement():
            for uid in nodes:
                let_go(self._state, uid)
            for unit in left:
                self._stand(unit.records)
            for claimant in claimants:
                before = _held([claimant.leaf, *(unit.job.leaf for unit in left)])
                with self._state.statement() as what_if:
                    taken = self._take(claimant, nodes, left)
                    if not self._may_take(claimant, taken, before):
                        found.append(claimant)
                        continue
                    what_if.commit()
                left = [unit for unit in left if unit not in taken]
        return found

    def _units(self, lost: Returning) -> Iterator[VictimUnit]:
        """What a job lost, piece by piece: single pods above its minimum, then the rest at once."""
        left, stand = lost.records, len(lost.job.records)
        while left:
            gone = 1 if stand > lost.job.least else len(left)
            piece = tuple(left[-gone:])
            left, stand = left[:-gone], stand - gone
            yield VictimUnit(lost.job, piece, self._sharing.need([record.pod for record in piece]))

    def _take(self, claimant: Claimant, nodes: Mapping[str, str], left: Sequence[VictimUnit]) -> list[VictimUnit]:
        """Place a claimant where it got room, instead of as few of the others as that takes."""
        taken, more = list[VictimUnit](), iter(self._in_turn(claimant, nodes, left))
        for entry in claimant.entries:
            row = self._state.row_of(nodes[entry.pod.uid])
            while row is not None and self._trial.put(entry.pod, row) is None:
                unit = next(more, None)
                if unit is None:  # it stands there thanks to another claimant
                    self._trial.hold(entry.pod, row)
                    break
                taken.append(unit)
                for record in unit.records:
                    self._departures.expect(record.pod, value=True)
                    self._departures.pods.take((record,), MOVED)
        return [unit for unit in reversed(taken) if not self._stand(unit.records)][::-1]

    def _in_turn(self, claimant: Claimant, nodes: Mapping[str, str], left: Sequence[VictimUnit]) -> list[VictimUnit]:
        """Those who left for it come first, then those on its nodes, rather the ones that it may take."""
        here = {nodes[uid] for uid in _uids(claimant)}
        maker = self._departures.maker

        def place(unit: VictimUnit) -> tuple[bool, bool, bool]:
            apart = here.isdisjoint(unit.nodes)
            taboo = not apart and not self._may_take(claimant, [unit], {})
            return maker(unit.records[0].pod.uid) != claimant.unit.uid, apart, taboo

        return sorted(left, key=place)

    def _stand(self, records: Sequence[PodRecord]) -> bool:
        """Put pods back on their nodes, all or none."""
        with self._state.statement() as what_if:
            for record in records:
                self._departures.expect(record.pod, value=False)
            if not self._placing.go_home(records, self._departures.pods):
                return False
            what_if.commit()
        return True

    def _may_take(self, claimant: Claimant, units: Iterable[VictimUnit], before: Held) -> bool:
        """Whether a claimant may take these: less important ones of its leaf, of other leaves what reclaim allows."""
        leaf, losses = claimant.leaf, list[Loss]()
        for unit in units:
            if unit.job.leaf is not leaf:
                losses.append(Loss(unit.job.leaf, unit.amounts))
            elif not self._outranks(claimant, unit.job):
                return False
        if not losses:
            return True
        multiplier = self._sharing.terms(claimant.unit.pod).reclaim_multiplier
        return within(before.get(leaf, leaf.allocated), claimant.need, leaf.share) and allowed(
            leaf, claimant.need, losses, multiplier, preemptible=True, before=before
        )  # a quota that it must not exceed kept it from its node

    def _outranks(self, claimant: Claimant, job: RunningJob) -> bool:
        gang = claimant.gang
        return -int(self._sharing.pod_key(job.pod)[0]) < claimant.priority and (
            gang is None or job.pod.template.gang != gang
        )


def _uids(claimant: Claimant) -> list[str]:
    return [entry.pod.uid for entry in claimant.entries]


def _held(leaves: Iterable[QueueNode]) -> Held:
    return {node: list(node.allocated) for leaf in leaves for node in leaf.path}
