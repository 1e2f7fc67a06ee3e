"""How a keeper that takes over finds the successors of moves that its predecessor ordered.

Moves are kept in memory only. Nodes are marked with the time since when they are leaving; pods that were created since
then and are not on spot capacity are successors of the pods there, or would have been placed there. They get the mark
that a finished move would have given them; whether they really return is up to the profile.
"""

from __future__ import annotations

from moorage.core.capacity import Capacity
from moorage.core.pods import RUNNING, Pod
from moorage.core.state import ClusterState
from moorage.engine.keeping import marks
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.fallback import is_movable
from moorage.engine.keeping.moves import Moves
from moorage.engine.keeping.proofs import Proofs

WATCH_S = 30.0
"""How long after a takeover successors of earlier moves are expected."""
LOOK_S = 1.0


class Resumption:
    """Looks back once, when this process begins to act."""

    def __init__(self, departures: Departures, proofs: Proofs, moves: Moves) -> None:
        self._departures = departures
        self._proofs = proofs
        self._moves = moves
        self._until_s: float | None = None
        self._next_s = 0.0
        self._left: dict[str, float] = {}
        """Spot nodes that were leaving at the takeover -> since when."""
        self._done: set[str] = set()

    def overdue_marks(self, now: float) -> list[tuple[Pod, str]]:
        """Pods that lack their mark, and the node to name in it."""
        if self._until_s is None:
            self._until_s = now + WATCH_S
            self._left = self._emptied_before()
        if not self._left or now > self._until_s or now < self._next_s:
            return []
        self._next_s = now + LOOK_S
        origin, since_s = min(self._left.items(), key=lambda pair: (pair[1], pair[0]))
        found = [record.pod for record in self._proofs.state.records() if self._is_successor(record.pod, since_s)]
        self._done.update(pod.uid for pod in found)
        return [(pod, origin) for pod in found]

    def _emptied_before(self) -> dict[str, float]:
        state: ClusterState = self._proofs.state
        rows = ((departure.node, state.row_of(departure.node)) for departure in self._departures)
        nodes = [state.node(row) for name, row in rows if row is not None and self._proofs.is_spot(name)]
        times = {node.name: marks.time_s(node, marks.SINCE) for node in nodes}
        return {name: since_s for name, since_s in times.items() if since_s is not None}

    def _is_successor(self, pod: Pod, since_s: float) -> bool:
        if pod.created_s < since_s or pod.phase != RUNNING or pod.node is None or pod.uid in self._done:
            return False
        if not is_movable(pod) or marks.FALLBACK in pod.template.annotations or self._moves.follows(pod.uid):
            return False
        return self._proofs.capacity(pod, pod.node) is not Capacity.SPOT
