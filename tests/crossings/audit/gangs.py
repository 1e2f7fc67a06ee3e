"""No gang runs in part."""

from __future__ import annotations

from tests.crossings.audit.budgets import budgets_of
from tests.crossings.audit.case import Case, Rule
from tests.crossings.audit.planning import domain, level_of
from tests.crossings.audit.scene import Object, name_of, node_of
from tests.crossings.audit.units import Unit, gang_of, is_made_again, units


class Gangs(Rule):
    """A gang that was never complete has no members on nodes for long; one that was evicted goes whole."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._complete: set[str] = set()

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod" or new is None:
            return
        gang = gang_of(self.case.scene, new)
        if not gang:
            return
        if node_of(new) and (old is None or not node_of(old)):
            self._note(gang)

    def _note(self, gang: str) -> None:
        scene = self.case.scene
        members = [pod for pod in scene.pods.values() if gang_of(scene, pod) == gang]
        for unit in units(scene, members):
            if unit.least is not None and len(unit.standing) >= unit.least:
                self._complete.add(gang)

    def rested(self) -> None:
        scene = self.case.scene
        for unit in units(scene):
            if not unit.is_gang:
                continue
            if unit.partial and unit.name not in self._complete:
                self._partial(unit)
            if unit.least is not None and len(unit.standing) >= unit.least and not self.case.deeds:
                self._levels(unit)
            if not unit.standing:
                self._complete.discard(unit.name)

    def _partial(self, unit: Unit) -> None:
        bare = not all(is_made_again(self.case.scene, pod) for pod in unit.standing)
        guarded = any(budgets_of(self.case.scene, pod) for pod in unit.standing)
        if bare or guarded:
            self.case.excused["partial gang of bare or guarded pods"] += 1
        else:
            self.case.say("partial gang", f"{unit.name}: {len(unit.standing)} of {unit.least} members run")

    def _levels(self, unit: Unit) -> None:
        """All members share a domain of the level that they require."""
        scene = self.case.scene
        topologies = scene.of("Topology")
        places = {
            domain(topologies, scene.nodes[node_of(pod)], level_of(pod))
            for pod in unit.standing
            if level_of(pod) and node_of(pod) in scene.nodes
        }
        if len(places) > 1:
            where = ", ".join(f"{name_of(pod)} on {node_of(pod)}" for pod in unit.standing)
            self.case.say("level", f"{unit.name} is in {len(places)} domains: {where}")
