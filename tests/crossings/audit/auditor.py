"""The auditor: it hears of everything that the API server shows, and of what the scheduler orders, and judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.crossings.audit.breach import Breach
from tests.crossings.audit.budgets import StrictBudgets
from tests.crossings.audit.case import Case, Rule, Terms
from tests.crossings.audit.evictions import BarePods, Guarantee, InVain
from tests.crossings.audit.gangs import Gangs
from tests.crossings.audit.needless import Needless
from tests.crossings.audit.orders import Move, Order, Verb
from tests.crossings.audit.overcommit import ClaimUsers, GivenDevices, Overcommit
from tests.crossings.audit.placement import Placement, QueueBounds
from tests.crossings.audit.quiet import Quiet
from tests.crossings.audit.scene import Object, Scene, is_over, node_of
from tests.crossings.audit.starving import Starving
from tests.crossings.audit.units import is_made_again
from tests.crossings.audit.waiting import Idle

RULES: tuple[type[Rule], ...] = (
    *(GivenDevices, Overcommit, ClaimUsers, Placement, QueueBounds, Gangs, StrictBudgets, BarePods, Guarantee),
    *(Needless, InVain, Idle, Starving),
)


class Auditor:
    """Judges one world."""

    def __init__(self, configuration: Sequence[Mapping[str, Any]], *, late: bool = False) -> None:
        self.case = Case(Terms(configuration), late=late)
        self.quiet = Quiet(self.case)
        self._rules = [*(rule(self.case) for rule in RULES), self.quiet]
        self.binds = self.evictions = 0
        self.uids: set[str] = set()
        """All pods that there ever were."""
        self._ends = False

    @property
    def scene(self) -> Scene:
        """The cluster as it is."""
        return self.case.scene

    @property
    def excused(self) -> Counter[str]:
        """What looked like a breach and is none -> how often."""
        return self.case.excused

    def breaches(self) -> list[Breach]:
        """All that was found, each once."""
        return list(dict.fromkeys(self.case.breaches))

    def found(self, rule: str, what: str) -> None:
        """Something that others have seen."""
        self.case.say(rule, what)

    def changed(self, kind: str, old: Object | None, new: Object | None, now_s: float) -> None:
        """The API server shows a change."""
        self.case.now_s = now_s
        self.scene.apply(kind, old, new)
        if kind == "Pod" and new is not None:
            self.uids.add(str(new["metadata"]["uid"]))
            self.binds += bool(node_of(new) and old is not None and not node_of(old))
        for rule in () if self._ends else self._rules:
            rule.changed(kind, old, new)

    def ordered(self, orders: Sequence[Order], now_s: float) -> None:
        """The scheduler has decided, and nothing of it is carried out yet."""
        self.case.now_s = now_s
        self.evictions += sum(each.verb is Verb.EVICT for each in orders)
        for rule in () if self._ends else self._rules:
            rule.ordered(orders)

    def moved(self, moves: Sequence[Move]) -> None:
        """The keeper has evicted pods."""
        for move in moves:
            pod = self.scene.pods.get(move.uid)
            if pod is not None and not is_over(pod) and not is_made_again(self.scene, pod) and not self._ends:
                self.case.say("bare pod", f"{move.key} is evicted by the keeper ({move.cause})")

    def disturbed(self, do: str) -> None:
        """Somebody from outside has done something."""
        self.case.deeds += 1
        self.case.refused |= do == "fail"

    def crashed(self) -> None:
        """The leader has died."""
        self.case.crashes += 1

    def looked(self, now_s: float) -> None:
        """Nearly at rest."""
        self.case.now_s = now_s
        for rule in self._rules:
            rule.looked()

    def rested(self, now_s: float) -> None:
        """Nothing has happened for long."""
        self.case.now_s = now_s
        for rule in self._rules:
            rule.rested()

    def ending(self) -> None:
        """Everything is going to be deleted: only what is left counts from now on."""
        self._ends = True
