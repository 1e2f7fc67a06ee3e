"""ReplicaSet and ReplicationController: so many equal pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from moorage.adapters.memory.controllers.demand import replicas_wanted
from moorage.adapters.memory.controllers.reconciler import Reconciler
from moorage.adapters.memory.controllers.templates import pod_from, template_of
from moorage.adapters.memory.objects import KubeObject, is_live, is_ready, metadata_of, node_of, status_of
from moorage.adapters.memory.store import Store

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}
_LONGEST_STEM = 58
"""Room for the suffix in a name of at most 63 characters, as for the API server's generateName."""


class ReplicaSets(Reconciler):
    """The controller of both kinds."""

    def reconcile(self, owner: KubeObject) -> None:
        """Make the missing pods, or delete the surplus."""
        live = self._live(owner)
        missing = replicas_wanted(owner) - len(live)
        for _ in range(missing):
            self._admission.create(pod_from(owner, random_name(self._store, owner), template_of(owner)))
        for pod in deletion_order(live, self._store)[: max(0, -missing)]:
            metadata = pod["metadata"]
            self._store.delete("Pod", metadata["namespace"], metadata["name"], uid=metadata["uid"])
        write_counts(self._store, owner, self._live(owner))

    def _live(self, owner: KubeObject) -> list[KubeObject]:
        return [pod for pod in self._store.children(owner, kind="Pod") if is_live(pod)]


def random_name(store: Store, owner: KubeObject) -> str:
    """A name for a pod of this owner, like those that the API server generates."""
    namespace, stem = owner["metadata"]["namespace"], owner["metadata"]["name"][: _LONGEST_STEM - 1]
    while True:
        name = f"{stem}-{store.suffix()}"
        if store.find("Pod", namespace, name) is None:
            return name


def deletion_order(pods: Iterable[KubeObject], store: Store) -> list[KubeObject]:
    """The pods in the order in which a scale-down deletes them.

    Unbound before bound, pending before running, not ready before ready, lower deletion cost first, then those that
    share their node with most of the others, then the newest.
    """
    pods = [*pods]
    crowd = Counter(node_of(pod) for pod in pods)

    def rank(pod: KubeObject) -> tuple[Any, ...]:
        phase = _PHASE_ORDER.get(status_of(pod).get("phase", "Pending"), 1)
        newest_first = -store.serial(pod["metadata"]["uid"])
        return (bool(node_of(pod)), phase, is_ready(pod), _deletion_cost(pod), -crowd[node_of(pod)], newest_first)

    return sorted(pods, key=rank)


def write_counts(store: Store, owner: KubeObject, pods: Iterable[KubeObject]) -> None:
    """Bring the owner's replica counts up to date."""
    live = [pod for pod in pods if is_live(pod)]
    ready = sum(1 for pod in live if is_ready(pod))
    counts = {"replicas": len(live), "readyReplicas": ready, "availableReplicas": ready}
    generation = metadata_of(owner).get("generation")
    store.put_status(owner, {**status_of(owner), **counts, "observedGeneration": generation})


def _deletion_cost(pod: KubeObject) -> int:
    text = str((metadata_of(pod).get("annotations") or {}).get(DELETION_COST, "0"))
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() else 0
