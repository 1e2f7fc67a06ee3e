"""What came of trying to place a gang, and what it is filed under if that was in vain.

Everything counts that kept any kind of member from any node: where not all are needed, room for another one than the
first may be enough; and one that found a node may have taken the only one that another could have had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from moorage.core.pods import Pod
from moorage.engine.failures import Failure
from moorage.engine.flights import Flight
from moorage.framework.gang_capacity import kind_of
from moorage.framework.status import Code

_MOST_KINDS = 8
"""So many kinds of members are asked about; a gang of more of them is filed under every filter instead."""


@dataclass(slots=True)
class Trial:
    """What came of trying to place a gang."""

    flights: list[Flight] = field(default_factory=list)
    """Members that found a node; undone again if they are too few."""
    failure: Failure | None = None
    """Why the first one that found none did not."""
    rejected_by: set[str] = field(default_factory=set)
    """Plugins that kept members from nodes, in earlier trials of the same attempt too."""
    tried: list[Pod] = field(default_factory=list)
    """Members that were tried and are not in `_kinds` yet: nobody asks about a gang that fits."""
    _kinds: set[object] = field(default_factory=set)
    _failed: set[object] = field(default_factory=set)
    """Those of which one found no node."""

    def kinds(self) -> set[object]:
        """Kinds of members that were tried."""
        while self.tried:
            self._kinds.add(kind_of(self.tried.pop()))
        return self._kinds

    def wants_to_know(self, pod: Pod) -> bool:
        """Whether it is worth asking why a member found no node."""
        return kind_of(pod) not in self._failed and len(self._failed) < _MOST_KINDS

    def fail(self, failure: Failure, pod: Pod) -> None:
        """A member found no node. The first reason is told, unless a plugin made a mistake."""
        self._failed.add(kind_of(pod))
        self.rejected_by |= failure.rejected_by
        if self.failure is None or (failure.code is Code.ERROR and self.failure.code is not Code.ERROR):
            self.failure = failure

    def placed_only(self) -> Iterable[Flight]:
        """One member of each kind of which all found a node."""
        placed = {kind_of(flight.entry.pod): flight for flight in self.flights}
        return [flight for kind, flight in placed.items() if kind not in self._failed]

    @property
    def too_many(self) -> bool:
        """Whether there may be more kinds of members than are asked about."""
        return len(self.kinds()) >= _MOST_KINDS
