"""Ownership: Deployment -> ReplicaSet -> pod, CronJob -> Job -> pod.

Snapshots often leave out the one in the middle (`kubectl get deployments,pods`). Its pods then still belong to the
Deployment: the ReplicaSet's name is the Deployment's with the pod's template hash, and a CronJob's Job is numbered.
"""

from __future__ import annotations

from collections.abc import Iterator

from moorage.adapters.memory.changes import ChangeType, StoreChange
from moorage.adapters.memory.controllers.templates import TEMPLATE_HASH
from moorage.adapters.memory.objects import KubeObject, controller_of, metadata_of
from moorage.adapters.memory.store import Store

EXPANDABLE = (
    "CronJob", "DaemonSet", "Deployment", "Job", "JobSet", "LeaderWorkerSet", "ReplicaSet", "ReplicationController",
    "StatefulSet",
)  # fmt: skip
"""Kinds whose pods the simulator makes, through the objects between them and the pods."""


class Lineage:
    """Answers for one store; must be told of pods (`note`) to know those whose owner is missing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._missing: dict[tuple[str, str, str], dict[str, None]] = {}
        """(grandparent kind, namespace, name) -> uids of owners that are not in the store."""

    def note(self, change: StoreChange) -> None:
        """Remember the missing owner of a new pod under the grandparent that its name tells."""
        if change.type is not ChangeType.ADDED:
            return
        reference = controller_of(change.object)
        if reference is None or self._store.owner(change.object, reference) is not None:
            return
        key = _grandparent(change.object)
        if key is not None:
            self._missing.setdefault(key, {})[str(reference.get("uid"))] = None

    def ancestors(self, obj: KubeObject) -> Iterator[KubeObject]:
        """The stored controllers of the object: its own, that one's own, and so on."""
        seen: set[str] = set()
        reference = controller_of(obj)
        while reference is not None and reference.get("uid") not in seen:
            uid = str(reference.get("uid"))
            seen.add(uid)
            owner = self._store.owner(obj, reference)
            if owner is None:
                key = _grandparent(obj)
                owner = self._store.find(*key) if key is not None and not seen - {uid} else None
            if owner is None:
                return
            yield owner
            reference = controller_of(owner)

    def workload(self, obj: KubeObject) -> KubeObject | None:
        """The topmost stored controller that is made into pods: what users have written and go by."""
        return next((each for each in reversed([*self.ancestors(obj)]) if each["kind"] in EXPANDABLE), None)

    def pods_of(self, owner: KubeObject) -> Iterator[KubeObject]:
        """All pods that descend from the owner."""
        metadata = owner["metadata"]
        key = (owner["kind"], metadata.get("namespace") or "", metadata["name"])
        missing = (uid for uid in self._missing.get(key, ()) if self._store.find_uid(uid) is None)
        for uid in (metadata["uid"], *missing):
            for child in self._store.children(owner, uid):
                reference = controller_of(child)
                if reference is None or reference.get("uid") != uid:
                    continue
                if child["kind"] == "Pod":
                    yield child
                else:
                    yield from self.pods_of(child)


def _grandparent(pod: KubeObject) -> tuple[str, str, str] | None:
    """The Deployment or CronJob that a pod's direct owner is named after."""
    reference, metadata = controller_of(pod), metadata_of(pod)
    if reference is None:
        return None
    stem, _, last = str(reference.get("name")).rpartition("-")
    if not stem:
        return None
    namespace = str(metadata.get("namespace") or "")
    if reference.get("kind") == "ReplicaSet" and last == (metadata.get("labels") or {}).get(TEMPLATE_HASH):
        return ("Deployment", namespace, stem)
    if reference.get("kind") == "Job" and last.isascii() and last.isdigit():
        return ("CronJob", namespace, stem)
    return None
