"""StatefulSet: pods with fixed names, one per ordinal, all at once (as with podManagementPolicy Parallel)."""

from __future__ import annotations

from typing import Any

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.controllers.demand import replicas_wanted
from moorage.adapters.memory.controllers.reconciler import Reconciler
from moorage.adapters.memory.controllers.replicasets import write_counts
from moorage.adapters.memory.controllers.templates import pod_from, stateful_labels, stateful_spec, template_of
from moorage.adapters.memory.objects import (
    FINISHED,
    NOTHING,
    KubeObject,
    is_terminating,
    metadata_of,
    spec_of,
    status_of,
)
from moorage.adapters.memory.store import Store


def first_ordinal(owner: KubeObject) -> int:
    """The ordinal of the first pod."""
    return int((spec_of(owner).get("ordinals") or NOTHING).get("start") or 0)


def make_claims(owner: KubeObject, pod_name: str, store: Store, admission: StoreAdmission) -> None:
    """The claims of one pod, where they do not exist yet; they outlive the pod."""
    for template in spec_of(owner).get("volumeClaimTemplates") or ():
        namespace, name = owner["metadata"]["namespace"], f"{metadata_of(template).get('name')}-{pod_name}"
        if store.find("PersistentVolumeClaim", namespace, name) is not None:
            continue
        metadata: dict[str, Any] = {**metadata_of(template), "name": name, "namespace": namespace}
        admission.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec_of(template)}
        )


class StatefulSets(Reconciler):
    """The StatefulSet controller."""

    def reconcile(self, owner: KubeObject) -> None:
        """Make the missing ordinals, replace finished pods, remove those beyond the last ordinal."""
        namespace, first = owner["metadata"]["namespace"], first_ordinal(owner)
        wanted = {f"{owner['metadata']['name']}-{n}": n for n in range(first, first + replicas_wanted(owner))}
        for pod in reversed(self._store.children(owner, kind="Pod")):
            name = pod["metadata"]["name"]
            if not is_terminating(pod) and (name not in wanted or status_of(pod).get("phase") in FINISHED):
                self._store.delete("Pod", namespace, name)
        for name, ordinal in wanted.items():
            if self._store.find("Pod", namespace, name) is None:
                make_claims(owner, name, self._store, self._admission)
                labels, spec = stateful_labels(name, ordinal), stateful_spec(owner, name)
                self._admission.create(pod_from(owner, name, template_of(owner), labels=labels, spec=spec))
        write_counts(self._store, owner, self._store.children(owner, kind="Pod"))
