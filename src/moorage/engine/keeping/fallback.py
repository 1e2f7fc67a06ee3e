"""Pods are moved off a node before it goes away: most important first, to verified places, as fast as budgets allow.

A pod without a place keeps running for as long as possible: it is evicted only at the last chance, so that it
terminates gracefully and its successor is seen pending. A budget is violated only if the configuration says so, and
then at the last chance, too. A node that is only being drained has no last chance, and pods that opt out are left to
whatever drains it.
"""

from __future__ import annotations

from math import inf

from moorage.core.arrays import Mask
from moorage.core.capacity import Capacity
from moorage.core.commands import DeletePod, EvictPod, KeeperCommand, RecordEvent
from moorage.core.disruption.ledger import DisruptionReason, goes, opts_out
from moorage.core.pods import Pod
from moorage.engine.evictor import ref_of
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.concerns import MovingConcern
from moorage.engine.keeping.departures import Departure, Departures
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.notes import REPORTER, KeeperReason, note
from moorage.engine.keeping.proofs import Proofs
from moorage.framework.keeping import AtDeadline, KeeperConfiguration

GATHER_S = 0.5
"""Notices come in groups. No pod is moved for this long after the first one, as its new node may be leaving, too."""
CORDON_PATIENCE_S = 3.0
"""A node that cannot be cordoned, or was uncordoned, is drained anyway after this long, but only once: nothing keeps
pods from coming back to it."""
AGAIN_S = 1.0
"""How long after a refusal, or after no place was found, a pod is considered again."""
DELETED = "DeletionByKeeper"
"""Reason of the condition DisruptionTarget on a pod that is deleted although a budget covers it."""


def is_movable(pod: Pod) -> bool:
    """Whether a pod stays where it is unless it is moved, and a controller would make it again elsewhere."""
    return goes(pod.template, DisruptionReason.SPOT) and pod.deleted_s is None and not pod.finished


def importance(pod: Pod) -> tuple[int, float, str]:
    """Sorts pods most important first: by priority, then by age, then by name."""
    return -pod.template.priority, inf if pod.started_s is None else pod.started_s, pod.key


class Fallback(MovingConcern):
    """The concern of pods whose node is about to go away."""

    def __init__(self, settings: KeeperConfiguration, departures: Departures, proofs: Proofs, moves: Moves) -> None:
        super().__init__(settings, departures, proofs, moves)
        self.without_place: set[str] = set()
        """Uids of pods on leaving nodes for which the last search found no place."""

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""
        if not len(self._departures):
            self._not_before_s.clear()
            self.without_place.clear()
            return []
        commands: list[KeeperCommand] = []
        places = self._moves.places(Cause.FALLBACK, self._settings.moves_at_once)
        leaving = self._departures.rows(self._proofs.state)
        for pod, departure in self._candidates(now):
            if not places.has_room(pod.namespace):
                continue
            ordered = self._consider(pod, departure, leaving, allowances, now)
            commands += ordered
            if ordered:
                places.take(pod.namespace)
        return commands

    def _candidates(self, now: float) -> list[tuple[Pod, Departure]]:
        """The pods that have to leave and are not being moved yet, most important first."""
        state = self._proofs.state
        found: list[tuple[Pod, Departure]] = []
        standing: set[str] = set()
        for departure in self._departures:
            row = state.row_of(departure.node)
            if row is None:
                continue
            pods = [record.pod for record in state.records_on(row)]
            standing.update(pod.uid for pod in pods)
            cordoned = bool(state.unschedulable[row])
            if now - departure.since_s >= (GATHER_S if cordoned else CORDON_PATIENCE_S):
                # A pod that was placed on an open node since the notice would come back to it.
                due = (pod for pod in pods if cordoned or pod.created_s <= departure.since_s)
                found += [(pod, departure) for pod in due if self._is_due(pod, departure, now)]
        self.without_place &= standing
        self._not_before_s = {uid: until_s for uid, until_s in self._not_before_s.items() if uid in standing}
        found.sort(key=lambda pair: importance(pair[0]))
        return found

    def _is_due(self, pod: Pod, departure: Departure, now: float) -> bool:
        if not departure.hard and opts_out(pod.template.annotations):
            return False  # what drains the node waits for it
        return is_movable(pod) and pod.uid not in self._moves and now >= self._not_before_s.get(pod.uid, 0.0)

    def _consider(
        self, pod: Pod, departure: Departure, leaving: Mask, allowances: Allowances, now: float
    ) -> list[KeeperCommand]:
        """Move one pod if possible; nothing if it has to wait."""
        last_chance = departure.last_chance(now, self._settings.margin_s)
        hurry = last_chance or now >= (departure.since_s + departure.until_s) / 2
        permitted = allowances.permit(pod, hurry=hurry)
        if not permitted and not (last_chance and self._settings.at_deadline is AtDeadline.DELETE):
            return []
        place = self._proofs.fallback(pod, now, leaving)
        if place is None:
            self.without_place.add(pod.uid)
            if not last_chance:
                self.put_off(pod.uid, now + AGAIN_S)
                return []
        else:
            self.without_place.discard(pod.uid)
        allowances.take(pod)
        from_spot = self._proofs.capacity(pod, departure.node) is Capacity.SPOT
        self._moves.order(Move(pod, Cause.FALLBACK, departure.node, place, now, from_spot))
        ending = _eviction(pod, departure, place) if permitted else _deletion(pod, departure)
        return [ending, _note(pod, departure, place)]


def _eviction(pod: Pod, departure: Departure, place: str | None) -> EvictPod:
    return EvictPod(ref_of(pod), departure.node, Cause.FALLBACK.value, place)


def _deletion(pod: Pod, departure: Departure) -> DeletePod:
    return DeletePod(ref_of(pod), DELETED, f"{REPORTER}: node {departure.node} is about to go away ({departure.words})")


def _note(pod: Pod, departure: Departure, place: str | None) -> RecordEvent:
    where = "no node has room for its successor" if place is None else f"there is room on node {place}"
    text = f"Node {departure.node} is about to go away ({departure.words}); {where}"
    return note(pod, KeeperReason.SPOT_FALLBACK, text, warning=place is None)
