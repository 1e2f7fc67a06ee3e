"""At rest, whatever waits fits nowhere, and has been told why."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crossings.audit.case import Case, Rule
from tests.crossings.audit.opaque import is_opaque
from tests.crossings.audit.planning import Planner, TooManyStepsError
from tests.crossings.audit.scene import Object, condition, is_leaving, name_of, notes, priority, spec
from tests.crossings.audit.units import Unit, gang_of, units
from tests.crossings.audit.whatif import WhatIf

SLICES = "moorage.dev/topology-slice-required"


class Idle(Rule):
    """Every unit that waits is tried on every node, with others of its gang in every way. One that fits for a moment
    only, or while a gang has its turn, is no breach.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._before: set[str] = set()

    def looked(self) -> None:
        self._before = {name for name, _, _ in self._fitting()}

    def rested(self) -> None:
        for name, needed, nodes in self._fitting():
            if name in self._before:
                told = condition(needed[0], "PodScheduled").get("message") or "nothing was said"
                what = f"{name} waits, and {len(needed)} of it would fit on {', '.join(nodes)} ({told})"
                self.case.say("gang idle" if gang_of(self.case.scene, needed[0]) else "idle", what)
        for pod in self.case.scene.waiting():
            if self.case.ours(pod) and not condition(pod, "PodScheduled").get("message") and not self.case.refused:
                self.case.say("untold", f"{name_of(pod)} waits, and nothing says why")

    def _fitting(self) -> Iterator[tuple[str, list[Object], list[str]]]:
        """Units that fit: their names, the pods that would have to start together, and where."""
        scene = self.case.scene
        if any(is_leaving(pod) for pod in scene.standing()):
            return
        living = units(scene)
        rank = max((_rank(each) for each in living if each.is_gang and each.waiting), default=0)
        for unit in living:
            if not unit.is_gang and _rank(unit) < rank:
                continue  # a more important gang may keep room for as long as it likes
            if unit.waiting and self.case.ours(unit.members[0]):
                needed = self._needed(unit)
                found = self._places(needed) if needed else None
                if found is not None:
                    yield unit.name, needed, found

    def _needed(self, unit: Unit) -> list[Object]:
        """The pods that would have to start together; none where that is not known."""
        able = [pod for pod in unit.waiting if not spec(pod).get("schedulingGates")]
        if not able or unit.least is None or any(is_opaque(self.case, pod) for pod in able):
            return []
        if any(SLICES in notes(pod) for pod in able):
            return []
        count = max(unit.least - len(unit.standing), 1)
        return able[:count] if len(able) >= count else []

    def _places(self, needed: list[Object]) -> list[str] | None:
        try:
            return Planner(self.case.fitting, WhatIf(self.case.scene, frees_idle=True)).places(needed)
        except TooManyStepsError:
            self.case.excused["waiting units not tried, too large"] += 1
            return None


def _rank(unit: Unit) -> int:
    return min(map(priority, unit.members))
