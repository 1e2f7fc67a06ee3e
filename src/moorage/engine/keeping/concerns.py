"""What all reasons to move pods have in common."""

from __future__ import annotations

from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.moves import Moves
from moorage.engine.keeping.proofs import Proofs
from moorage.framework.keeping import KeeperConfiguration


class MovingConcern:
    """Moves pods if there is a place for their successors; what was tried in vain is left alone for a while."""

    def __init__(self, settings: KeeperConfiguration, departures: Departures, proofs: Proofs, moves: Moves) -> None:
        self._settings = settings
        self._departures = departures
        self._proofs = proofs
        self._moves = moves
        self._not_before_s: dict[str, float] = {}
        """What was tried in vain, mostly pods -> when it is considered again."""

    def put_off(self, uid: str, until_s: float) -> None:
        """The move of a pod did not take place: do not consider it before then."""
        self._not_before_s[uid] = until_s
