"""Everything comes to rest: few writes about a pod, and few searches for room, once nothing happens any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.crossings.audit.case import Case, Rule
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.audit.scene import Object, is_leaving, node_of, spec, status
from tests.crossings.audit.units import gang_of

MOST_WRITES, MOST_ROUNDS = 3, 3
MOST_FOR_TURNS = 14
"""Turns of gangs begin and end by themselves, every minute in our worlds."""
TRIED_AGAIN_S = 250.0
"""After this time all that wait are tried again, whether anything has happened or not; those writes do not count."""


class Quiet(Rule):
    """Counts since the last change that the scheduler did not make by writing a status."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._writes: Counter[str] = Counter()
        self._changed_s = 0.0
        self._evictions: Counter[str] = Counter()
        self.rounds = self._before = self._rounds = 0
        """Searches for room so far, how many there were at the last change, and how many soon after it."""

    def ordered(self, orders: Sequence[Order]) -> None:
        soon = self.case.now_s < self._changed_s + TRIED_AGAIN_S
        if soon:
            self._rounds = self.rounds
        for order in orders:
            if soon and order.verb is not Verb.BIND:
                self._writes[order.key] += 1
            if order.verb is Verb.EVICT:
                self._evictions[order.reason] += 1

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind in ("Event", "PodDisruptionBudget", "Queue") and old is not None and new is not None:
            return
        if kind == "Pod" and old is not None and new is not None and _alike(old, new):
            return
        self._writes.clear()
        self._changed_s = self.case.now_s
        self._before = self._rounds = self.rounds

    def rested(self) -> None:
        self._exchanges()
        scene = self.case.scene
        if self.case.terms.extended:  # answers of extenders are changes that nobody sees
            return
        turns = any(gang_of(scene, pod) for pod in scene.waiting())
        more = MOST_FOR_TURNS if turns else 0
        for key, count in self._writes.items():
            if count > MOST_WRITES + more:
                self.case.say("rest", f"{count} writes about {key} since the last change")
        if self._rounds - self._before > MOST_ROUNDS + more:
            self.case.say("rest", f"{self._rounds - self._before} searches for room since the last change")

    def _exchanges(self) -> None:
        """Evictions come to an end."""
        pods = len(self.case.scene.pods)
        for reason, count in self._evictions.items():
            if count > 3 * max(pods, 5):
                self.case.say("exchange", f"{count} evictions ({reason}) of {pods} pods since the last rest")
        self._evictions.clear()


def _alike(old: Object, new: Object) -> bool:
    """Whether only conditions and nominations have changed."""
    return (
        node_of(old) == node_of(new)
        and is_leaving(old) == is_leaving(new)
        and status(old).get("phase") == status(new).get("phase")
        and spec(old) == spec(new)
    )
