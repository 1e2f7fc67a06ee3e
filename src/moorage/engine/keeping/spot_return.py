"""Pods return to the capacity where they belong: a few at a time, and never in a loop.

Two kinds of pods return: those that fell back because of the keeper, which carry an annotation, once spot capacity is
back for good; and those that stand on the wrong capacity for any other reason (`capacities`), once the rule for their
workload has been the same for as long. They return only to nodes that the profile itself would choose now. No pod is
moved that is younger than the loop guard allows. A workload whose pod ended up on the wrong capacity again is left
alone, longer each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.capacity import Capacity
from moorage.core.commands import EvictPod, KeeperCommand
from moorage.core.controllers import controller_of
from moorage.core.disruption.ledger import opts_out
from moorage.core.nodes import Node
from moorage.core.ownercounts import owner_key
from moorage.core.pods import RUNNING, Pod
from moorage.engine.evictor import ref_of
from moorage.engine.keeping import marks
from moorage.engine.keeping.allowances import Allowances
from moorage.engine.keeping.capacities import Capacities
from moorage.engine.keeping.concerns import MovingConcern
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.fallback import importance, is_movable
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.keeping.notes import PLACING, KeeperReason, note
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.census import may_be_moved
from moorage.framework.keeping import KeeperConfiguration

AGAIN_S = 10.0
"""How long after the profile preferred another node, or a budget refused, a pod is considered again."""
TRIES = 20
"""For how many pods a place is looked for in one plan."""
_MOST_DOUBLINGS = 6
_WORDS = {Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand", Capacity.UNKNOWN: "unknown"}


class _Candidate(NamedTuple):
    """A pod that might return."""

    pod: Pod
    target: Capacity
    back: bool
    """Whether it fell back because of the keeper."""


class SpotReturn(MovingConcern):
    """The concern of pods that are not on the capacity where they belong."""

    def __init__(
        self,
        settings: KeeperConfiguration,
        departures: Departures,
        proofs: Proofs,
        moves: Moves,
        capacities: Capacities,
    ) -> None:
        super().__init__(settings, departures, proofs, moves)
        self._capacities = capacities
        self._good_since_s: dict[str, float] = {}
        """Node -> since when it has been ready, schedulable and not leaving, as far as this process has seen."""
        self._away: set[str] = set()
        """Uids of pods that carry the annotation."""
        self._targets: dict[str, Capacity] = {}
        """Pod that is being moved -> where its successor should be."""
        self._misses: dict[str, int] = {}
        """Owner -> how many successors in a row ended up on the wrong capacity."""

    @property
    def away(self) -> int:
        """How many pods fell back and have not returned."""
        return len(self._away)

    @property
    def wanting(self) -> bool:
        """Whether there are pods that might return."""
        return bool(self._settings.returns_at_once and (self._away or self._capacities.off))

    # --- what happens ---

    def see_node(self, node: Node, now: float) -> None:
        """A node was added or changed."""
        if node.ready and not node.unschedulable and not node.deleting and node.name not in self._departures:
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
            self._away.discard(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._away.discard(uid)
        self._not_before_s.pop(uid, None)

    def arrived(self, move: Move, pod: Pod, now: float) -> list[KeeperCommand]:
        """The successor of a move runs; if it is on the wrong capacity again, its workload is left alone."""
        target = self._targets.pop(move.pod.uid, None)
        if target is None or pod.node is None:
            return []
        if self._proofs.capacity(pod, pod.node) is target:
            self._misses.pop(move.owner, None)
            return []
        misses = self._misses[move.owner] = self._misses.get(move.owner, 0) + 1
        rest_s = self._settings.move_again_after_s * 2 ** min(misses, _MOST_DOUBLINGS)
        self._not_before_s[move.owner] = now + rest_s
        where = f"an {_WORDS[target]}" if target is Capacity.ON_DEMAND else f"a {_WORDS[target]}"
        text = f"The pod was expected on {where} node, but is on node {pod.node}: does its scheduler know the rule?"
        return [note(pod, KeeperReason.RETURN_MISSED, text, PLACING, warning=True)]

    # --- planning ---

    def plan(self, now: float, allowances: Allowances) -> list[KeeperCommand]:
        """What to evict now."""
        if not self.wanting:
            return []
        self._tidy(now)
        candidates = self._candidates(now)
        if not candidates:
            return []
        places = self._moves.places(Cause.RETURN, self._settings.returns_at_once)
        open_rows = {
            Capacity.SPOT: self._open(now, self._settings.return_after_s),
            Capacity.ON_DEMAND: self._open(now, 0.0),
        }
        commands: list[KeeperCommand] = []
        left = TRIES
        for candidate in candidates:
            pod = candidate.pod
            rows = open_rows[candidate.target] & (self._proofs.capacities(pod) == candidate.target)
            if not left or not rows.any() or not places.has_room(pod.namespace):
                continue
            if self._is_put_off(owner_key(pod.template), now) or not self._is_permitted(pod, allowances):
                continue
            left -= 1
            ordered = self._consider(candidate, rows, allowances, now)
            commands += ordered
            if ordered:
                places.take(pod.namespace)
        return commands

    def _tidy(self, now: float) -> None:
        self._not_before_s = {key: until_s for key, until_s in self._not_before_s.items() if until_s > now}
        self._targets = {uid: target for uid, target in self._targets.items() if uid in self._moves}
        self._misses = {owner: misses for owner, misses in self._misses.items() if self._capacities.aim(owner)}

    def _open(self, now: float, good_for_s: float) -> Mask:
        """Rows of nodes that have been good for so long, bool[capacity]."""
        state = self._proofs.state
        mask: Mask = np.zeros(state.capacity, dtype=np.bool_)
        for name, since_s in self._good_since_s.items():
            row = state.row_of(name)
            if row is not None and now - since_s >= good_for_s:
                mask[row] = True
        return mask & self._departures.staying(state)

    def _candidates(self, now: float) -> list[_Candidate]:
        found: dict[str, _Candidate] = {}
        for pod in self._standing(self._away):
            if self._proofs.capacity(pod, pod.node or "") is not Capacity.SPOT:
                found[pod.uid] = _Candidate(pod, Capacity.SPOT, back=True)
        for misplaced in self._capacities.off.values():
            if now - misplaced.since_s < self._settings.return_after_s:
                continue
            for pod in self._standing(misplaced.uids):
                if may_be_moved(pod):
                    found.setdefault(pod.uid, _Candidate(pod, misplaced.target, back=False))
        due = (candidate for candidate in found.values() if self._is_due(candidate.pod, now))
        return sorted(due, key=lambda candidate: importance(candidate.pod))

    def _standing(self, uids: Iterable[str]) -> Iterator[Pod]:
        """The pods that are on nodes, as they are now."""
        for uid in uids:
            record = self._proofs.state.record(uid)
            if record is not None and not record.assumed and record.node is not None:
                yield record.pod

    def _is_put_off(self, key: str, now: float) -> bool:
        return now < self._not_before_s.get(key, 0.0)

    def _is_due(self, pod: Pod, now: float) -> bool:
        if not is_movable(pod) or opts_out(pod.template.annotations) or pod.phase != RUNNING:
            return False
        if pod.node is None or pod.node in self._departures or pod.uid in self._moves:
            return False
        old_enough = now - pod.created_s >= self._settings.move_again_after_s
        if not old_enough or self._is_put_off(pod.uid, now) or self._is_put_off(owner_key(pod.template), now):
            return False
        return self._settings.move_singles or not self._is_only_replica(pod)

    def _is_only_replica(self, pod: Pod) -> bool:
        controller = controller_of(self._proofs.state, pod.template)
        size = None if controller is None else controller.size
        return self._proofs.state.owner_rows(pod.template).total <= 1 if size is None else size <= 1

    def _is_permitted(self, pod: Pod, allowances: Allowances) -> bool:
        return not self._moves.of_owner(owner_key(pod.template)) and allowances.permit(pod, hurry=False)

    def _consider(self, candidate: _Candidate, rows: Mask, allowances: Allowances, now: float) -> list[KeeperCommand]:
        pod = candidate.pod
        place = self._proofs.home(pod, now, rows)
        if place is None:
            # What one misplaced pod of an owner does not find, the others do not find either.
            self.put_off(pod.uid if candidate.back else owner_key(pod.template), now + AGAIN_S)
            return []
        node = pod.node or ""
        allowances.take(pod)
        self._targets[pod.uid] = candidate.target
        self._moves.order(Move(pod, Cause.RETURN, node, place, now))
        return [EvictPod(ref_of(pod), node, Cause.RETURN.value, place), _event(candidate, place)]


def _event(candidate: _Candidate, place: str) -> KeeperCommand:
    room = f"there is room on node {place}"
    if candidate.back:
        return note(candidate.pod, KeeperReason.SPOT_RETURN, f"Spot capacity is back: {room}")
    reason = KeeperReason.SPOT_RETURN if candidate.target is Capacity.SPOT else KeeperReason.ON_DEMAND_RETURN
    return note(candidate.pod, reason, f"The pod belongs on {_WORDS[candidate.target]} capacity: {room}")
