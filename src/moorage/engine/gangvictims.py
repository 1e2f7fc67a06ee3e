"""Victims for a gang with many members, one member after another: those that have a place keep it meanwhile.

Trying all members anew with every further victim would take a time that grows with the square of the gang. What is
found here is tried as a whole afterwards, so it may be too little, but nothing follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from moorage.core.pods import Pod
from moorage.engine.sharedjobs import VictimUnit
from moorage.framework.gang_capacity import kind_of

Take = Callable[[Pod, list[VictimUnit]], bool]
"""Place a pod once these are gone; whether that worked and is allowed. If not, nothing has changed."""


class GangVictims:
    """One search; in a statement, which undoes what it tries."""

    def __init__(
        self,
        order: Iterator[VictimUnit],
        place: Callable[[Pod], bool],
        could_hold: Callable[[Pod, str, list[VictimUnit]], bool],
        take: Take,
        ends: Callable[[int], bool],
    ) -> None:
        """`could_hold`: whether a try is worth it; `ends`: whether so many tries for one pod are enough."""
        self._order, self._place, self._take, self._ends = order, place, take, ends
        self._could_hold = could_hold
        self._drawn: dict[str, list[VictimUnit]] = {}
        """Node -> the victims that touch it, came in the order so far, and are not taken."""
        self._vain: dict[tuple[object, str], int] = {}
        """Kind of pod and node -> how many of them were not enough."""
        self._tries = 0
        self.taken: list[VictimUnit] = []

    def find(self, pods: Iterable[Pod]) -> list[VictimUnit] | None:
        """What has to be taken for the pods; None if nothing is found."""
        return self.taken if all(self._place(pod) or self._make_room(pod) for pod in pods) else None

    def _make_room(self, pod: Pod) -> bool:
        self._tries, kind = 0, kind_of(pod)
        if any(self._takes(pod, kind, node) for node in list(self._drawn)):
            return True
        for unit in () if self._ends(self._tries) else self._order:
            for node in unit.nodes:
                self._drawn.setdefault(node, []).append(unit)
            if any(self._takes(pod, kind, node) for node in unit.nodes):
                return True
            if self._ends(self._tries):
                return False
        return False

    def _takes(self, pod: Pod, kind: object, node: str) -> bool:
        units = self._drawn[node]
        if not units or self._vain.get((kind, node)) == len(units):
            return False
        worth = self._could_hold(pod, node, units)
        self._tries += worth
        if not worth or not self._take(pod, list(units)):
            self._vain[kind, node] = len(units)
            return False
        self.taken += units
        for unit in list(units):
            for each in unit.nodes:
                self._drawn[each].remove(unit)
                self._vain.pop((kind, each), None)
        return True
