"""ReplicaSets without a controller, and the Deployments that take them.

As the Deployment controller does: a ReplicaSet of the namespace belongs to the Deployment whose selector matches its
labels, once it has no other controller. A selector that cannot be read takes nothing.
"""

from __future__ import annotations

import msgspec

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    controller_of,
    is_terminating,
    metadata_of,
    owner_references,
    reference_to,
    spec_of,
)
from moorage.adapters.memory.store import Store
from moorage.core import selectors
from moorage.core.selectors import Selector
from moorage.wire.errors import FieldError
from moorage.wire.selectors import LabelSelectorWire, label_selector


class Adoption:
    """Gives orphans of a store to their Deployments, each time `step` is called."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = store.watch(("ReplicaSet", "Deployment"), replay=True)
        self._orphans: dict[tuple[str, str], KubeObject] = {}

    def step(self) -> None:
        """Look at what has changed."""
        changes = self._changes.pull()
        for change in changes:
            if change.object["kind"] == "ReplicaSet":
                self._see(change.object, gone=change.type is ChangeType.DELETED)
        if changes and self._orphans:
            for (namespace, name), orphan in [*self._orphans.items()]:
                owner = next((each for each in self._store.list("Deployment", namespace) if _takes(each, orphan)), None)
                if owner is not None:
                    references = [*owner_references(orphan), reference_to(owner)]
                    self._store.patch("ReplicaSet", namespace, name, {"metadata": {"ownerReferences": references}})
                    del self._orphans[namespace, name]

    def _see(self, replica_set: KubeObject, *, gone: bool) -> None:
        metadata = replica_set["metadata"]
        key = str(metadata["namespace"]), str(metadata["name"])
        if gone or controller_of(replica_set) is not None or is_terminating(replica_set):
            self._orphans.pop(key, None)
        else:
            self._orphans[key] = replica_set


def _takes(deployment: KubeObject, orphan: KubeObject) -> bool:
    selector = _selector(deployment)
    return not is_terminating(deployment) and selector.matches(metadata_of(orphan).get("labels") or NOTHING)


def _selector(deployment: KubeObject) -> Selector:
    try:
        wire = msgspec.convert(spec_of(deployment).get("selector"), LabelSelectorWire | None)
        found = label_selector(wire)
    except (msgspec.ValidationError, FieldError):
        return selectors.NOTHING
    return found if found.requirements else selectors.NOTHING  # an empty one selects nothing, as in Kubernetes
