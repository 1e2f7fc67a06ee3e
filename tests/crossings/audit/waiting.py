"""At rest, whatever waits fits nowhere, and has been told why."""

from __future__ import annotations

from tests.crossings.audit.case import Rule
from tests.crossings.audit.opaque import is_opaque
from tests.crossings.audit.planning import Planner, TooManyStepsError
from tests.crossings.audit.scene import Object, condition, is_leaving, name_of, notes, spec
from tests.crossings.audit.units import Unit, units
from tests.crossings.audit.whatif import WhatIf

SLICES = "moorage.dev/topology-slice-required"


class Idle(Rule):
    """Every unit that waits is tried on every node, with others of its gang in every way."""

    def rested(self) -> None:
        scene = self.case.scene
        if any(is_leaving(pod) for pod in scene.standing()):
            return
        for unit in units(scene):
            if not unit.waiting or not self.case.ours(unit.members[0]):
                continue
            self._told(unit)
            needed = self._needed(unit)
            if needed:
                self._try(unit, needed)

    def _needed(self, unit: Unit) -> list[Object]:
        """The pods that would have to start together; none where that is not known."""
        able = [pod for pod in unit.waiting if not spec(pod).get("schedulingGates")]
        if not able or unit.least is None or any(is_opaque(self.case, pod) for pod in able):
            return []
        if any(SLICES in notes(pod) for pod in able):
            return []
        count = max(unit.least - len(unit.standing), 1)
        return able[:count] if len(able) >= count else []

    def _try(self, unit: Unit, needed: list[Object]) -> None:
        try:
            found = Planner(self.case.fitting, WhatIf(self.case.scene, frees_idle=True)).places(needed)
        except TooManyStepsError:
            self.case.excused["waiting units not tried, too large"] += 1
            return
        if found is not None:
            told = condition(needed[0], "PodScheduled").get("message") or "nothing was said"
            what = f"{unit.name} waits, and {len(needed)} of it would fit on {', '.join(found)}"
            self.case.say("gang idle" if unit.is_gang else "idle", f"{what} ({told})")

    def _told(self, unit: Unit) -> None:
        for pod in unit.waiting:
            if not condition(pod, "PodScheduled").get("message") and not self.case.refused:
                self.case.say("untold", f"{name_of(pod)} waits, and nothing says why")
