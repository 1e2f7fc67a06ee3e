"""Pods that are being moved: evicted, and not yet seen running somewhere else.

A successor is the first new pod of the same owner that appears after the eviction was ordered. Names cannot tell (a
ReplicaSet makes up new ones, a StatefulSet reuses the old ones), and timestamps have a resolution of one second.

Invariants: a pod has at most one move, and its eviction is not ordered again before the last order was answered, so
every answer belongs to the latest order; a successor belongs to one move; a move whose successor does not run within
`PATIENCE_S` is given up, so that nothing waits forever for a workload that was scaled down in the meantime.
"""

from __future__ import annotations

from enum import StrEnum

from moorage.core.ownercounts import owner_key
from moorage.core.pods import RUNNING, Pod
from moorage.core.shares import Shares
from moorage.core.values import dataclass

PATIENCE_S = 120.0


class Cause(StrEnum):
    """Why a pod is moved."""

    FALLBACK = "fallback"
    """Its node is about to go away."""
    RETURN = "return"
    """Spot capacity is back."""
    REPAIR = "repair"
    """Its workload deviates from its rule."""
    REPACK = "repack"
    """Its node becomes empty, or has room for others then."""


@dataclass(slots=True)
class Move:
    """One pod that is being moved."""

    pod: Pod
    """As it was when the eviction was ordered."""
    cause: Cause
    origin: str
    """The node that it is evicted from."""
    place: str | None
    """Where its successor fits, as verified when the eviction was ordered."""
    ordered_s: float
    from_spot: bool = False
    """Whether the pod leaves spot capacity."""
    answered: bool = False
    successor: Pod | None = None
    seen_s: float = 0.0
    """When the successor was first seen."""
    nominated_s: float | None = None

    @property
    def owner(self) -> str:
        """`owner_key` of the controller that creates the successor."""
        return owner_key(self.pod.template)


class Moves:
    """All moves."""

    def __init__(self) -> None:
        self._moves: dict[str, Move] = {}
        self._of_owner: dict[str, list[Move]] = {}
        self._of_successor: dict[str, Move] = {}
        self._unanswered: set[str] = set()
        """Pods whose eviction was ordered and not answered, including those of moves that were given up."""
        self.finished: list[tuple[Move, float]] = []
        """Moves that ended with a running successor, and how long they took; the metrics empty the list."""

    def __len__(self) -> int:
        return len(self._moves)

    def __contains__(self, uid: str) -> bool:
        return uid in self._moves or uid in self._unanswered

    def all(self) -> list[Move]:
        """Every unfinished move, oldest first."""
        return [*self._moves.values()]

    def get(self, uid: str) -> Move | None:
        """The move of this pod."""
        return self._moves.get(uid)

    def count(self, cause: Cause) -> int:
        """How many moves of this cause are unfinished."""
        return sum(move.cause is cause for move in self._moves.values())

    def places(self, cause: Cause, at_once: int) -> Shares:
        """The places for moves of a kind: so many for a namespace that is alone, as others share with it."""
        places = Shares(2 * at_once)
        for move in self._moves.values():
            if move.cause is cause:
                places.take_if_any(move.pod.namespace)
        return places

    def of_owner(self, owner: str) -> int:
        """How many pods of this controller (`owner_key`) are being moved."""
        return len(self._of_owner.get(owner, ()))

    def follows(self, uid: str) -> bool:
        """Whether this pod is the successor of an unfinished move."""
        return uid in self._of_successor

    def ask(self, uid: str) -> None:
        """An eviction was ordered that is no move: nothing is known of where the successor fits."""
        self._unanswered.add(uid)

    def order(self, move: Move) -> None:
        """An eviction was ordered."""
        self.ask(move.pod.uid)
        self._moves[move.pod.uid] = move
        self._of_owner.setdefault(move.owner, []).append(move)

    def answered(self, uid: str) -> Move | None:
        """An eviction was answered; returns its move unless that has ended."""
        self._unanswered.discard(uid)
        return self._moves.get(uid)

    def cancel(self, uid: str) -> Move | None:
        """A move does not take place, or its end no longer matters."""
        move = self._moves.pop(uid, None)
        if move is not None:
            siblings = self._of_owner[move.owner]
            siblings.remove(move)
            if not siblings:
                del self._of_owner[move.owner]
            if move.successor is not None:
                self._of_successor.pop(move.successor.uid, None)
        return move

    def newcomer(self, pod: Pod, now: float) -> None:
        """A pod was seen for the first time; it may be a successor."""
        if pod.template.owner is None:
            return
        siblings = self._of_owner.get(owner_key(pod.template), ())
        move = next((move for move in siblings if move.successor is None), None)
        if move is not None and pod.uid != move.pod.uid:
            move.successor, move.seen_s = pod, now
            self._of_successor[pod.uid] = move

    def see(self, pod: Pod, now: float) -> Move | None:
        """A pod was changed; returns the move that it completes, if it is a successor that runs."""
        move = self._of_successor.get(pod.uid)
        if move is None:
            return None
        move.successor = pod
        if pod.deleted_s is not None or pod.finished:
            self._orphan(move)
            return None
        if pod.node is None or pod.phase != RUNNING:
            return None
        self.cancel(move.pod.uid)
        self.finished.append((move, now - move.ordered_s))
        return move

    def gone(self, uid: str) -> None:
        """A pod is gone; if it was a successor, another one will be created."""
        self._unanswered.discard(uid)
        move = self._of_successor.get(uid)
        if move is not None:
            self._orphan(move)

    def expire(self, now: float) -> list[Move]:
        """Give up moves whose successor does not run in time; returns them."""
        late = [move for move in self._moves.values() if move.answered and now - move.ordered_s > PATIENCE_S]
        for move in late:
            self.cancel(move.pod.uid)
        return late

    def _orphan(self, move: Move) -> None:
        if move.successor is not None:
            self._of_successor.pop(move.successor.uid, None)
        move.successor = None
