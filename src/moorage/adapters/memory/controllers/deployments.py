"""Deployment: one ReplicaSet per template, and the way from the old one to the new one."""

from __future__ import annotations

from moorage.adapters.memory.controllers.demand import replicas_wanted
from moorage.adapters.memory.controllers.intermediates import replica_set_for
from moorage.adapters.memory.controllers.reconciler import Reconciler
from moorage.adapters.memory.controllers.templates import TEMPLATE_HASH, template_hash, template_of
from moorage.adapters.memory.objects import NOTHING, KubeObject, metadata_of, spec_of, status_of


class Deployments(Reconciler):
    """The Deployment controller. A rollout moves on each time ReplicaSets report new counts."""

    def reconcile(self, owner: KubeObject) -> None:
        """Scale the ReplicaSets one step towards: the current template has all replicas, the others none."""
        digest = template_hash(template_of(owner))
        sets = self._store.children(owner, kind="ReplicaSet")
        current = next((s for s in sets if (metadata_of(s).get("labels") or {}).get(TEMPLATE_HASH) == digest), None)
        others = [s for s in sets if s is not current]
        if current is None:
            current = self._make_set(owner, digest, len(sets) + 1)
        old_replicas = sum(replicas_wanted(s) for s in others)
        if not old_replicas and not (_recreates(owner) and any(self._has_pods(s) for s in others)):
            self._scale(current, replicas_wanted(owner))
        elif _recreates(owner):
            for old in others:
                self._scale(old, 0)
        else:
            self._roll(owner, current, others)
        self._write_counts(owner, current)

    def _roll(self, owner: KubeObject, current: KubeObject, others: list[KubeObject]) -> None:
        """Grow the current set into the surge, shrink the old ones by what may be unavailable."""
        wanted = replicas_wanted(owner)
        surge, unavailable = _rolling_limits(owner, wanted)
        total = replicas_wanted(current) + sum(replicas_wanted(s) for s in others)
        room = max(0, wanted + surge - total)
        self._scale(current, min(wanted, replicas_wanted(current) + room))
        # The counts that a set reports lag behind a scale-down; what is on its way out must not be counted on.
        ready = sum(min(_ready(s), replicas_wanted(s)) for s in (current, *others))
        removable = max(0, ready - (wanted - unavailable))
        for old in others:
            idle = max(0, replicas_wanted(old) - _ready(old))
            less = min(replicas_wanted(old), idle + removable)
            removable -= max(0, less - idle)
            self._scale(old, replicas_wanted(old) - less)

    def _make_set(self, owner: KubeObject, digest: str, revision: int) -> KubeObject:
        """An empty ReplicaSet for the current template; it is scaled as a second step."""
        name = f"{owner['metadata']['name']}-{digest}"
        return self._admission.create(replica_set_for(owner, name, digest, revision=revision, replicas=0))

    def _scale(self, replica_set: KubeObject, replicas: int) -> None:
        if replicas_wanted(replica_set) != replicas:
            metadata = replica_set["metadata"]
            self._store.patch("ReplicaSet", metadata["namespace"], metadata["name"], {"spec": {"replicas": replicas}})

    def _has_pods(self, replica_set: KubeObject) -> bool:
        return bool(self._store.children(replica_set, kind="Pod"))

    def _write_counts(self, owner: KubeObject, current: KubeObject) -> None:
        sets = self._store.children(owner, kind="ReplicaSet")
        ready = sum(_ready(s) for s in sets)
        counts = {
            "replicas": sum(int(status_of(s).get("replicas") or 0) for s in sets),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": int(status_of(current).get("replicas") or 0),
            "observedGeneration": metadata_of(owner).get("generation"),
        }
        self._store.put_status(owner, {**status_of(owner), **counts})


def _recreates(owner: KubeObject) -> bool:
    return bool((spec_of(owner).get("strategy") or NOTHING).get("type") == "Recreate")


def _ready(replica_set: KubeObject) -> int:
    return int(status_of(replica_set).get("readyReplicas") or 0)


def _rolling_limits(owner: KubeObject, replicas: int) -> tuple[int, int]:
    """How many pods too many, and how many too few, a rollout may have; percentages round up and down."""
    rolling = (spec_of(owner).get("strategy") or NOTHING).get("rollingUpdate") or NOTHING
    surge = _share(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def _share(value: int | str, whole: int, *, round_up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        percent = int(value[:-1]) * whole
        return -(-percent // 100) if round_up else percent // 100
    return int(value)
