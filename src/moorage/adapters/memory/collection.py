"""What is left over and goes: children of deleted owners, pods of deleted nodes."""

from __future__ import annotations

from functools import partial

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.objects import KubeObject, is_terminating, owner_references
from moorage.adapters.memory.store import Store


class GarbageCollection:
    """Deletes objects once the last of their owners has been deleted.

    Owners that were never there do not count: a snapshot need not hold them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch()

    def step(self) -> None:
        """Delete the children of everything that was deleted."""
        for change in self._watch.pull():
            if change.type is ChangeType.DELETED:
                self._collect(change.object)

    def _collect(self, owner: KubeObject) -> None:
        for child in self._store.children(owner):
            owned = any(self._store.owner(child, reference) for reference in owner_references(child))
            if not owned and not is_terminating(child):
                metadata = child["metadata"]
                self._store.delete(child["kind"], metadata.get("namespace") or "", metadata["name"])


class PodCollection:
    """Deletes the pods of a node some time after the node was deleted, unless it has come back."""

    def __init__(self, store: Store, delay_s: float) -> None:
        self._store = store
        self._delay_s = delay_s
        self._watch = store.watch(("Node",))

    def step(self) -> None:
        """Set a timer for each node that went."""
        for change in self._watch.pull():
            if change.type is ChangeType.DELETED:
                name = change.object["metadata"]["name"]
                self._store.clock.after(self._delay_s, partial(self._collect, name))

    def _collect(self, node: str) -> None:
        if self._store.find("Node", "", node) is not None:
            return
        for pod in self._store.pods_on(node):
            self._store.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"], grace_s=0)
