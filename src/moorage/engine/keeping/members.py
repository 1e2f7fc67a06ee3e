"""The live pods of every owner, bound or pending, and the owners to which something happened.

Pods without an owner that are one workload for placement strategies (`strategy_group`) count as if they had one.

A pod that is being deleted or has finished is not a member. Pods of DaemonSets and mirror pods belong to their nodes
and are left out.

Invariant: an owner is listed exactly while it has a member.
"""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.disruption.ledger import belongs_to_node
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod


class Members:
    """Live pods by owner (`strategy_group`)."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._owner_of: dict[str, str] = {}
        self._namespaces: dict[str, dict[str, None]] = {}
        self._touched: dict[str, None] = {}
        self._all_touched = False

    def see(self, pod: Pod) -> None:
        """A pod was added or changed."""
        key = "" if belongs_to_node(pod.template) else strategy_group(pod.template)
        if not key or pod.deleted_s is not None or pod.finished:
            self.gone(pod.uid)
            return
        if self._owner_of.get(pod.uid, key) != key:
            self.gone(pod.uid)  # it was released, and another owner has adopted it
        pods = self._pods.get(key)
        if pods is None:
            pods = self._pods[key] = {}
            self._namespaces.setdefault(pod.namespace, {})[key] = None
        before = pods.get(pod.uid)
        pods[pod.uid] = pod
        self._owner_of[pod.uid] = key
        if before is None or before.node != pod.node or before.template != pod.template:
            self._touched[key] = None

    def gone(self, uid: str) -> None:
        """A pod is gone, or no longer counts."""
        key = self._owner_of.pop(uid, None)
        if key is None:
            return
        pod = self._pods[key].pop(uid)
        self._touched[key] = None
        if not self._pods[key]:
            del self._pods[key]
            self._namespaces[pod.namespace].pop(key)
            if not self._namespaces[pod.namespace]:
                del self._namespaces[pod.namespace]

    def of(self, owner: str) -> Iterable[Pod]:
        """The members of an owner."""
        return self._pods.get(owner, {}).values()

    def owner_of(self, uid: str) -> str | None:
        """The owner of a member."""
        return self._owner_of.get(uid)

    def touch(self, owner: str) -> None:
        """Something happened to an owner."""
        if owner in self._pods:
            self._touched[owner] = None

    def touch_namespace(self, namespace: str) -> None:
        """Something happened that may matter to every owner of a namespace."""
        self._touched |= self._namespaces.get(namespace, {})

    def touch_all(self) -> None:
        """Something happened that may matter to every owner."""
        self._all_touched = True

    def take_touched(self) -> list[str]:
        """The owners to which something happened since the last call; some may no longer have members."""
        found = [*(self._touched | dict.fromkeys(self._pods) if self._all_touched else self._touched)]
        self._touched.clear()
        self._all_touched = False
        return found
