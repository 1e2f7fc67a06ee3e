"""Whether several pods fit together: every way of placing them is tried, as far as the steps allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.crossings.audit.fitting import Fitting
from tests.crossings.audit.queues import queue_refuses
from tests.crossings.audit.scene import Key, Object, labels, notes, spec, uid_of
from tests.crossings.audit.units import gang_of
from tests.crossings.audit.whatif import WhatIf

MOST_STEPS = 400
REQUIRED = "moorage.dev/topology-required"


class TooManyStepsError(Exception):
    """The answer is not known."""


class Planner:
    """Tries to place pods one after the other."""

    def __init__(self, fitting: Fitting, view: WhatIf, promised: Mapping[str, str] | None = None) -> None:
        """`promised` has the nodes of pods that may only go there, by uid."""
        self._fitting, self._view = fitting, view
        self._promised = promised or {}
        self._steps = 0

    def places(self, pods: Sequence[Object]) -> list[str] | None:
        """Nodes for all of them; None if there are none. `TooManyStepsError` if it is not known."""
        if not pods:
            return []
        pod, rest = pods[0], pods[1:]
        if queue_refuses(self._view, pod):
            return None
        only = self._promised.get(uid_of(pod))
        for node in sorted(self._view.scene.nodes) if only is None else (only,):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise TooManyStepsError
            if self._fitting.refusal(self._view, pod, node) or not self._near(pod, node):
                continue
            self._view.placed.append((pod, node))
            try:
                found = self.places(rest)
            finally:
                self._view.placed.pop()
            if found is not None:
                return [node, *found]
        return None

    def _near(self, pod: Object, node: str) -> bool:
        """Whether a node is in the domain of the members that are placed already."""
        key = level_of(pod)
        if not key:
            return True
        scene = self._view.scene
        mine = domain(scene.of("Topology"), scene.nodes[node], key)
        if mine is None:
            return False
        gang = gang_of(scene, pod)
        return all(
            domain(scene.of("Topology"), scene.nodes[where], key) == mine
            for other, where in self._view.standing()
            if gang_of(scene, other) == gang
        )


def level_of(pod: Object) -> str:
    """The level that all members of the gang have to share."""
    return notes(pod).get(REQUIRED) or ""


def domain(topologies: Mapping[Key, Object], node: Object, key: str) -> tuple[str, ...] | None:
    """The values of a node's labels from the widest level down to this one; None if it lacks one."""
    levels = next((spec(each)["levels"] for each in topologies.values() if key in spec(each)["levels"]), [key])
    values = [labels(node).get(level) for level in levels[: levels.index(key) + 1]]
    return None if None in values else tuple(map(str, values))
