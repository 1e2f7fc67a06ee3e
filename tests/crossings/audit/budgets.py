"""Disruption budgets, counted by the auditor itself."""

from __future__ import annotations

from tests.crossings.audit.case import Rule
from tests.crossings.audit.scene import (
    Object,
    Scene,
    condition,
    is_leaving,
    is_over,
    is_ready,
    labels,
    metadata,
    name_of,
    namespace_of,
    node_of,
    spec,
    uid_of,
)
from tests.crossings.audit.selectors import matches

BUDGET = "PodDisruptionBudget"
BY_KEEPER = "EvictionByEvictionAPI"


def budgets_of(scene: Scene, pod: Object) -> list[Object]:
    """The budgets that cover a pod."""
    return [
        each
        for each in scene.of(BUDGET).values()
        if namespace_of(each) == namespace_of(pod) and matches(spec(each).get("selector"), labels(pod))
    ]


def covered(scene: Scene, budget: Object) -> list[Object]:
    """The pods that a budget is about."""
    return [
        pod
        for pod in scene.pods.values()
        if namespace_of(pod) == namespace_of(budget)
        and matches(spec(budget).get("selector"), labels(pod))
        and not is_over(pod)
    ]


def desired(scene: Scene, budget: Object, pods: list[Object]) -> int:
    """How many of them have to be healthy."""
    about = spec(budget)
    if "minAvailable" in about:
        return int(about["minAvailable"])
    owners = {}
    for pod in pods:
        owner = scene.owner_of(pod)
        top = scene.owner_of(owner) or owner if owner is not None else None
        if top is not None:
            owners[uid_of(top)] = int(spec(top).get("replicas", 1))
    return sum(owners.values()) - int(about.get("maxUnavailable", 0))


class StrictBudgets(Rule):
    """Where budgets are strict, no eviction by the scheduler leaves fewer healthy pods than a budget wants."""

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod" or old is None or is_leaving(old) or is_over(old) or not node_of(old):
            return
        if new is not None and not is_leaving(new):
            return
        told = condition(new if new is not None else old, "DisruptionTarget")
        if not self.case.terms.strict or not told or told.get("reason") == BY_KEEPER:
            return
        scene = self.case.scene
        for budget in budgets_of(scene, old):
            pods = [each for each in covered(scene, budget) if uid_of(each) != uid_of(old)]
            healthy = sum(is_ready(each) and not is_leaving(each) for each in pods)
            wanted = desired(scene, budget, [*pods, old])
            if is_ready(old) and healthy < wanted:
                about = f"{metadata(budget)['name']} wants {wanted} healthy pods, {healthy} are left"
                self.case.say("budget", f"{name_of(old)} is evicted ({told.get('reason')}): {about}")
