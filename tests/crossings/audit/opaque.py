"""Pods for which plugins have a say whose rules the auditor does not compute: it does not know where they fit."""

from __future__ import annotations

from tests.crossings.audit.case import Case
from tests.crossings.audit.scene import Object, controller, notes

ALL = {"OnePodPerNode", "PlanSort"}
OWNED = {"ControllerSpread", "SpotPlacement"}
STRATEGY = "moorage.dev/schedule-strategy"


def is_opaque(case: Case, pod: Object) -> bool:
    """Whether such a plugin concerns the pod."""
    plugins = case.terms.plugins
    if plugins & ALL or (plugins & OWNED and controller(pod)):
        return True
    return "PlacementStrategy" in plugins and _has_strategy(case, pod)


def _has_strategy(case: Case, pod: Object) -> bool:
    owner = case.scene.owner_of(pod)
    while owner is not None:
        if STRATEGY in notes(owner):
            return True
        owner = case.scene.owner_of(owner)
    return False
