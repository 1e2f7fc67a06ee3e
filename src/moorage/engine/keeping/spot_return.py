"""Pods return to spot capacity once it is back for good: a few at a time, and never in a loop.

Only pods that fell back because of the keeper return; they carry an annotation. They return only to nodes that the
profile itself would choose now. The successor of a returned pod does not carry the annotation, so it is not moved back
again, and the keeper moves no pod that is younger than the loop guard allows.
"""

from __future__ import annotations

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.capacity import Capacity
from moorage.core.commands import EvictPod, KeeperCommand
from moorage.core.nodes import Node
from moorage.core.ownercounts import owner_key
from moorage.core.pods import RUNNING, Pod
from moorage.engine.evictor import ref_of
from moorage.engine.keeping import marks
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.concerns import MovingConcern
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.fallback import importance, is_movable
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.notes import KeeperReason, note
from moorage.engine.keeping.proofs import Proofs
from moorage.framework.keeping import KeeperConfiguration

AGAIN_S = 10.0
"""How long after the profile preferred another node, or a budget refused, a pod is considered again."""


class SpotReturn(MovingConcern):
    """The concern of pods that fell back."""

    def __init__(self, settings: KeeperConfiguration, departures: Departures, proofs: Proofs, moves: Moves) -> None:
        super().__init__(settings, departures, proofs, moves)
        self._good_since_s: dict[str, float] = {}
        """Spot node -> since when it has been ready, schedulable and not leaving, as far as this process has seen."""
        self._away: set[str] = set()
        """Uids of pods that carry the annotation."""

    @property
    def away(self) -> int:
        """How many pods fell back and have not returned."""
        return len(self._away)

    def see_node(self, node: Node, now: float) -> None:
        """A node was added or changed."""
        good = node.ready and not node.unschedulable and not node.deleting and node.name not in self._departures
        if good and self._proofs.is_spot(node.name):
            self._good_since_s.setdefault(node.name, now)
        else:
            self._good_since_s.pop(node.name, None)

    def node_gone(self, name: str) -> None:
        """A node is gone."""
        self._good_since_s.pop(name, None)

    def see_pod(self, pod: Pod) -> None:
        """A pod was added or changed."""
        if marks.FALLBACK in pod.template.annotations and pod.deleted_s is None and not pod.finished:
            self._away.add(pod.uid)
        else:
            self.pod_gone(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._away.discard(uid)
        self._not_before_s.pop(uid, None)

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""
        places = self._moves.places(Cause.RETURN, self._settings.returns_at_once)
        if not self._away:
            return []
        settled = self._settled(now)
        if not settled.any():
            return []
        commands: list[KeeperCommand] = []
        for pod in self._candidates(now):
            if not places.has_room(pod.namespace):
                continue
            ordered = self._consider(pod, settled, allowances, now)
            commands += ordered
            if ordered:
                places.take(pod.namespace)
        return commands

    def _settled(self, now: float) -> Mask:
        """Rows of spot nodes that are back for good, bool[capacity]."""
        state = self._proofs.state
        mask: Mask = np.zeros(state.capacity, dtype=np.bool_)
        for name, since_s in self._good_since_s.items():
            row = state.row_of(name)
            if row is not None and now - since_s >= self._settings.return_after_s:
                mask[row] = True
        return mask

    def _candidates(self, now: float) -> list[Pod]:
        records = (self._proofs.state.record(uid) for uid in self._away)
        pods = [record.pod for record in records if record is not None and not record.assumed]
        return sorted((pod for pod in pods if self._is_due(pod, now)), key=importance)

    def _is_due(self, pod: Pod, now: float) -> bool:
        if not is_movable(pod) or not marks.may_be_disturbed(pod.template) or pod.phase != RUNNING:
            return False
        if pod.node is None or pod.node in self._departures or self._moves.of_owner(owner_key(pod.template)):
            return False
        old_enough = now - pod.created_s >= self._settings.move_again_after_s
        return old_enough and pod.uid not in self._moves and now >= self._not_before_s.get(pod.uid, 0.0)

    def _consider(self, pod: Pod, settled: Mask, allowances: Allowances, now: float) -> list[KeeperCommand]:
        node = pod.node or ""
        if self._proofs.capacity(pod, node) is Capacity.SPOT:
            self.put_off(pod.uid, now + AGAIN_S)
            return []
        if self._moves.of_owner(owner_key(pod.template)) or not allowances.permit(pod, hurry=False):
            return []
        place = self._proofs.home(pod, now, settled)
        if place is None:
            self.put_off(pod.uid, now + AGAIN_S)
            return []
        allowances.take(pod)
        self._moves.order(Move(pod, Cause.RETURN, node, place, now))
        event = note(pod, KeeperReason.SPOT_RETURN, f"Spot capacity is back: there is room on node {place}")
        return [EvictPod(ref_of(pod), node, Cause.RETURN.value, place), event]
