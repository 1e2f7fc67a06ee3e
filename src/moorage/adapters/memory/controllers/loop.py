"""Which owners need a look: the part that all controllers have in common.

Changes are pulled, owners are marked, each marked one is reconciled once, in order of creation. Reconciling compares
what is wanted with what is there, so looking once too often is harmless and looking once too late cannot happen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from moorage.adapters.memory.changes import ChangeType, StoreChange
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.errors import ApiError
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    is_live,
    is_ready,
    is_terminating,
    spec_of,
    status_of,
    uid_of,
)
from moorage.adapters.memory.store import Store

Reconcile = Callable[[KubeObject], None]


class ControllerLoop:
    """Runs one reconcile function per kind over the owners that changes concern.

    With `by_life_only` pods concern their owners only by coming and going, not by becoming ready; but for the kinds
    in `by_readiness`, which make some pods when others are ready.
    """

    def __init__(
        self,
        store: Store,
        lineage: Lineage,
        reconcilers: Mapping[str, Reconcile],
        *,
        by_life_only: bool = False,
        by_readiness: frozenset[str] = frozenset(),
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._reconcilers = reconcilers
        self._watch = store.watch((*reconcilers, "Pod", "Node"), replay=True)
        self._by_readiness = by_readiness if by_life_only else frozenset(reconcilers)
        self._marked: dict[str, None] = {}
        self.refusals: dict[str, str] = {}
        """What an owner was refused last, by its uid; it is tried again when something about the owner changes."""

    def step(self) -> bool:
        """Reconcile everything that changes since the last step concern; whether there was anything."""
        for change in self._watch.pull():
            self._mark(change)
        if not self._marked:
            return False
        marked, self._marked = self._marked, {}
        for uid in sorted(marked, key=self._store.serial):
            owner = self._store.find_uid(uid)
            if owner is not None and not is_terminating(owner):
                self._reconcile(uid, owner)
        return True

    def _reconcile(self, uid: str, owner: KubeObject) -> None:
        try:
            self._reconcilers[owner["kind"]](owner)
        except ApiError as error:
            self.refusals[uid] = error.message
        else:
            self.refusals.pop(uid, None)

    def _mark(self, change: StoreChange) -> None:
        if change.kind == "Node":
            if _matters_to_daemons(change):
                self._marked.update((uid_of(daemons), None) for daemons in self._store.list("DaemonSet"))
            return
        concerned: Container[str] = self._reconcilers
        if change.kind == "Pod":
            if not _comes_or_goes(change):
                if not self._by_readiness or not _moves_on(change):
                    return
                concerned = self._by_readiness
            self._lineage.note(change)
        elif change.type is not ChangeType.DELETED:
            self._marked[uid_of(change.object)] = None
        for ancestor in self._lineage.ancestors(change.object):
            if ancestor["kind"] in concerned:
                self._marked[uid_of(ancestor)] = None


def _comes_or_goes(change: StoreChange) -> bool:
    """Whether a pod began or ceased to count as live, or is gone altogether."""
    if change.type is not ChangeType.MODIFIED or change.old is None:
        return True
    return is_live(change.old) != is_live(change.object)


def _moves_on(change: StoreChange) -> bool:
    """Whether a pod's phase or readiness changed."""
    old, new = change.old or NOTHING, change.object
    return status_of(old).get("phase") != status_of(new).get("phase") or is_ready(old) != is_ready(new)


def _matters_to_daemons(change: StoreChange) -> bool:
    """Whether a node came, went, or changed in what daemons are chosen by."""
    old, new = change.old, change.object
    if change.type is not ChangeType.MODIFIED or old is None:
        return True
    return old["metadata"].get("labels") != new["metadata"].get("labels") or spec_of(old) != spec_of(new)
