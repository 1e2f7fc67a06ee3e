"""A queue gets its quota back from queues that are beyond theirs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.crossings.audit.budgets import budgets_of
from tests.crossings.audit.case import Rule
from tests.crossings.audit.opaque import is_opaque
from tests.crossings.audit.planning import Planner, TooManyStepsError
from tests.crossings.audit.queues import amounts, beside, beyond_quota, held, is_fixed, is_usable, path, queue_of
from tests.crossings.audit.scene import Object, condition, notes, spec, uid_of
from tests.crossings.audit.units import Unit, gang_of, units
from tests.crossings.audit.waiting import SLICES
from tests.crossings.audit.whatif import WhatIf


class Starving(Rule):
    """A unit that waits alone, and fits into the quotas of all its queues, starts, if it fits where queues beyond their
    quotas run pods that may be evicted. Where budgets are strict, guarded pods stay.
    """

    def rested(self) -> None:
        scene = self.case.scene
        if not scene.of("Queue") or self.case.terms.extended:
            return
        entitled = [unit for unit in units(scene) if unit.waiting and self._entitled(unit)]
        if len(entitled) == 1:
            self._try(entitled[0])

    def _needed(self, unit: Unit) -> Sequence[Object]:
        able = [pod for pod in unit.waiting if not spec(pod).get("schedulingGates")]
        count = max((unit.least or 1) - len(unit.standing), 1)
        return able[:count] if len(able) >= count and not any(SLICES in notes(pod) for pod in able) else ()

    def _entitled(self, unit: Unit) -> bool:
        """Whether its queue, and each above it, would stay within its quota."""
        scene, pods = self.case.scene, self._needed(unit)
        if not pods or unit.least is None or not self.case.ours(pods[0]) or is_opaque(self.case, pods[0]):
            return False
        name = queue_of(scene, pods[0])
        if not name or not is_usable(scene, name):
            return False
        after = held(scene, [*scene.standing(), *pods])
        asked = {resource for pod in pods for resource, amount in amounts(scene, pod).items() if amount}
        governed = {resource for queue in path(scene, name) for resource in spec(queue).get("resources") or {}}
        return bool(asked & governed) and not any(
            beyond_quota(scene, queue["metadata"]["name"], after) for queue in path(scene, name)
        )

    def _try(self, unit: Unit) -> None:
        scene, pods = self.case.scene, self._needed(unit)
        name = queue_of(scene, pods[0])
        gone = {uid_of(pod) for pod in scene.standing() if self._may_go(pod, name)}
        gangs = {gang_of(scene, pod) for pod in scene.standing() if uid_of(pod) not in gone} - {""}
        gone -= {uid for uid in gone if gang_of(scene, scene.pods[uid]) in gangs}
        try:
            found = Planner(self.case.fitting, WhatIf(scene, frozenset(gone))).places(pods)
        except TooManyStepsError:
            self.case.excused["starving units not tried, too large"] += 1
            return
        if gone and found is not None:
            told = condition(pods[0], "PodScheduled").get("message")
            what = f"{unit.name} of queue {name} is within its quota and waits beside pods of queues beyond theirs"
            self.case.say("starving", f"{what}; {len(pods)} of it would fit on {', '.join(found)} ({told})")

    def _may_go(self, pod: Object, claimant: str) -> bool:
        scene = self.case.scene
        theirs = queue_of(scene, pod)
        name = beside(scene, theirs, claimant) if theirs and theirs != claimant else ""
        if not name or is_fixed(pod) or (self.case.terms.strict and budgets_of(scene, pod)):
            return False
        return bool(beyond_quota(scene, name, held(scene, scene.standing())))
