"""Pods on their way: evicted, and not yet seen running somewhere else.

A successor is the first new pod of the same owner that appears after the eviction was ordered. Names cannot tell (a
ReplicaSet makes up new ones, a StatefulSet uses the old ones), and times are cut to seconds.

Invariants: a pod is in the book at most once, and is not ordered to go again before the last order was answered, so
that every answer is one to the latest order; a successor belongs to one move; a move whose successor does not come to
run within `PATIENCE_S` is given up, so that nothing waits for ever for a workload that was scaled down meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from moorage.core.ownercounts import owner_key
from moorage.core.pods import RUNNING, Pod

PATIENCE_S = 120.0


class Cause(StrEnum):
    """Why a pod is moved."""

    FALLBACK = "fallback"
    """Its node goes."""
    RETURN = "return"
    """What made it fall back is over."""
    REPAIR = "repair"
    """The pods of its workload do not stand as their rule says."""


@dataclass(slots=True)
class Move:
    """One pod on its way."""

    pod: Pod
    """As it was when the eviction was ordered."""
    cause: Cause
    origin: str
    """The node that it leaves."""
    place: str | None
    """Where its successor can stand, as proven when the eviction was ordered."""
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
        """`owner_key` of the controller that makes the successor."""
        return owner_key(self.pod.template)


class Moves:
    """The book of moves."""

    def __init__(self) -> None:
        self._moves: dict[str, Move] = {}
        self._of_owner: dict[str, list[Move]] = {}
        self._of_successor: dict[str, Move] = {}
        self._unanswered: set[str] = set()
        """Pods whose eviction was ordered and not answered, whether somebody still waits for its end or not."""
        self.finished: list[tuple[Move, float]] = []
        """Moves that ended with a running successor, and how long they took; whoever counts them empties the list."""

    def __len__(self) -> int:
        return len(self._moves)

    def __contains__(self, uid: str) -> bool:
        return uid in self._moves or uid in self._unanswered

    def all(self) -> list[Move]:
        """Every move on its way, oldest first."""
        return [*self._moves.values()]

    def get(self, uid: str) -> Move | None:
        """The move of this pod."""
        return self._moves.get(uid)

    def count(self, cause: Cause) -> int:
        """How many moves of this kind are on their way."""
        return sum(move.cause is cause for move in self._moves.values())

    def of_owner(self, owner: str) -> int:
        """How many pods of this controller (`owner_key`) are on their way."""
        return len(self._of_owner.get(owner, ()))

    def follows(self, uid: str) -> bool:
        """Whether this pod is the successor of one on its way."""
        return uid in self._of_successor

    def order(self, move: Move) -> None:
        """An eviction was ordered."""
        self._unanswered.add(move.pod.uid)
        self._moves[move.pod.uid] = move
        self._of_owner.setdefault(move.owner, []).append(move)

    def answered(self, uid: str) -> Move | None:
        """An eviction was answered; returns the move that it is part of, if that has not ended."""
        self._unanswered.discard(uid)
        return self._moves.get(uid)

    def cancel(self, uid: str) -> Move | None:
        """A move does not take place, or nobody waits for its end any more."""
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
        """A pod was seen for the first time; it may be somebody's successor."""
        if pod.template.owner is None:
            return
        siblings = self._of_owner.get(owner_key(pod.template), ())
        move = next((move for move in siblings if move.successor is None), None)
        if move is not None and pod.uid != move.pod.uid:
            move.successor, move.seen_s = pod, now
            self._of_successor[pod.uid] = move

    def see(self, pod: Pod, now: float) -> Move | None:
        """A new version of a pod; returns the move that it ends, if it is a successor that runs."""
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
        """A pod is no more; if it was a successor, another one will come."""
        self._unanswered.discard(uid)
        move = self._of_successor.get(uid)
        if move is not None:
            self._orphan(move)

    def expire(self, now: float) -> list[Move]:
        """Give up moves whose successor has not come to run; returns them."""
        late = [move for move in self._moves.values() if move.answered and now - move.ordered_s > PATIENCE_S]
        for move in late:
            self.cancel(move.pod.uid)
        return late

    def _orphan(self, move: Move) -> None:
        if move.successor is not None:
            self._of_successor.pop(move.successor.uid, None)
        move.successor = None
