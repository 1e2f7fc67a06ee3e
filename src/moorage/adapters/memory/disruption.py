"""Disruption budgets of the embedded cluster: the controller that fills in their status, and the eviction verb.

Numbers are those of Kubernetes' disruption controller: how many pods are expected follows from the scale of the
controllers of the covered pods, percentages are rounded up, a pod is healthy if it is ready and not being deleted. An
eviction takes from the allowance at once and is remembered in `disruptedPods` until the pod is seen to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.adapters.memory.errors import ApiError, Conflict, TooManyRequests
from moorage.adapters.memory.objects import (
    KubeObject,
    controller_of,
    is_live,
    is_ready,
    is_terminating,
    key_of,
    metadata_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)
from moorage.adapters.memory.store import Store
from moorage.core.objects import PodDisruptionBudget
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID

BUDGET = "PodDisruptionBudget"
EVICTED = "EvictionByEvictionAPI"
"""Reason of the condition DisruptionTarget on an evicted pod."""
_SCALED = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_FORGET_S = 120.0
"""An evicted pod that is not seen to go for so long counts again."""


class DisruptionController:
    """Keeps the status of every budget current."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch((BUDGET, "Pod", *_SCALED), replay=True)

    def step(self) -> None:
        """Compute every budget anew if anything that they depend on has changed."""
        if not self._watch.pull():
            return
        for budget in self._store.list(BUDGET):
            self._reconcile(budget)

    def _reconcile(self, budget: KubeObject) -> None:
        value = _read(budget)
        if value is None or not value.selector.requirements:
            return
        pods = [pod for pod in self._store.list("Pod", value.namespace) if _covers(value, pod)]
        disrupted = self._still_disrupted(budget, pods)
        counted = [pod for pod in pods if is_live(pod)]
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in disrupted for pod in counted)
        expected, desired = self._wanted(value, counted)
        status = {
            **status_of(budget),
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
            "disruptedPods": disrupted,
            "observedGeneration": metadata_of(budget).get("generation", 1),
        }
        self._store.put_status(budget, status)

    def _still_disrupted(self, budget: KubeObject, pods: list[KubeObject]) -> dict[str, str]:
        known: Mapping[str, str] = status_of(budget).get("disruptedPods") or {}
        there = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
        oldest = timestamp(self._store.clock.now_s - _FORGET_S)
        return {name: since for name, since in known.items() if name in there and since >= oldest}

    def _wanted(self, budget: PodDisruptionBudget, pods: list[KubeObject]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if isinstance(budget.min_available, int):
            return len(pods), budget.min_available
        expected = self._expected(pods)
        if budget.min_available is not None:
            return expected, _share(budget.min_available, expected)
        return expected, max(0, expected - _share(budget.max_unavailable or 0, expected))

    def _expected(self, pods: list[KubeObject]) -> int:
        scales: dict[str, int] = {}
        for pod in pods:
            owner = self._scaled_owner(pod)
            if owner is not None:
                replicas = spec_of(owner).get("replicas")
                scales[uid_of(owner)] = 1 if replicas is None else int(replicas)
        return sum(scales.values())

    def _scaled_owner(self, pod: KubeObject) -> KubeObject | None:
        """The controller whose scale counts: the topmost one that has a scale."""
        found, reference = None, controller_of(pod)
        while reference is not None:
            owner = self._store.owner(pod, reference)
            if owner is None or owner["kind"] not in _SCALED:
                break
            found, reference = owner, controller_of(owner)
        return found


def evict(store: Store, namespace: str, name: str, uid: str) -> None:
    """What a POST to the eviction subresource does; raises what the API server would answer."""
    pod = store.get("Pod", namespace, name)
    if uid_of(pod) != uid:
        raise Conflict(
            f'Operation cannot be fulfilled on pods "{name}": Precondition failed: UID in precondition: {uid}'
        )
    if status_of(pod).get("phase") == "Running" and not is_terminating(pod):
        _charge(store, pod)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": EVICTED, "message": "Eviction API: evicting"}
    store.set_condition("Pod", namespace, name, condition, uid=uid)
    store.delete("Pod", namespace, name, uid=uid)


def _charge(store: Store, pod: KubeObject) -> None:
    """Take the pod from the allowance of the budget that covers it."""
    values = ((budget, _read(budget)) for budget in store.list(BUDGET, pod["metadata"]["namespace"]))
    covering = [budget for budget, value in values if value is not None and _covers(value, pod)]
    if not covering:
        return
    if len(covering) > 1:
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = covering[0]
    value = _read(budget)
    if not is_ready(pod) and value is not None and value.spares_unready:
        return
    status = status_of(budget)
    allowed = int(status.get("disruptionsAllowed") or 0)
    if allowed <= 0:
        raise TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: timestamp(store.clock.now_s)}
    store.put_status(budget, {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted})


def _read(budget: KubeObject) -> PodDisruptionBudget | None:
    try:
        value: PodDisruptionBudget = BY_ID[BUDGET].from_builtin(budget)
    except WireError:
        return None
    return value


def _covers(budget: PodDisruptionBudget, pod: KubeObject) -> bool:
    labels: Mapping[str, Any] = metadata_of(pod).get("labels") or {}
    return key_of(pod).namespace == budget.namespace and bool(labels) and budget.selector.matches(labels)


def _share(amount: int | str, of: int) -> int:
    """A number as it is; a percentage rounded up."""
    if isinstance(amount, int):
        return amount
    return -(-int(amount.removesuffix("%")) * of // 100)
