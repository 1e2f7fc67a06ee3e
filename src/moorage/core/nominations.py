"""Pods that wait for room on the node they are nominated to. They count as present for pods of equal or lower
priority; where one of two pods belongs to a queue, priorities are not compared, and the nomination always counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from moorage.core.pods import Pod, PodTemplate
from moorage.core.queueledger import QueueLedger
from moorage.core.statement import Undo

_KEPT_CHANGES = 4096


class Nominations:
    """uid -> node and node -> pods, kept together."""

    def __init__(self, undo: Undo, queues: QueueLedger) -> None:
        """`queues` counts what pods of queues are promised."""
        self._undo, self._queues = undo, queues
        self.position = 0
        """The current end of the log of changes; keep it and pass it to `since` later."""
        self.count = 0
        """Number of nominated pods; read at every decision, and so not a method."""
        self._log: list[str] = []
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, Pod]] = {}

    def __bool__(self) -> bool:
        return self.count > 0

    def set(self, pod: Pod, node: str) -> None:
        """Nominate a pod to a node; an earlier nomination to another node ends."""
        known = self.pod(pod.uid) if self._node_of.get(pod.uid) == node else None
        if known is None:
            self.clear(pod.uid)
        self._undo.note(lambda: self.clear(pod.uid) if known is None else self.set(known, node))
        self._note(node)
        self._node_of[pod.uid] = node
        self.count = len(self._node_of)
        self._pods_on.setdefault(node, {})[pod.uid] = pod
        if self._queues.active:
            self._queues.promise(pod)

    def renew(self, pod: Pod) -> None:
        """A pod changed: if it is nominated, then as it is now. Its queue and what it requests may be others."""
        node = self._node_of.get(pod.uid)
        if node is not None:
            self.set(pod, node)

    def clear(self, uid: str) -> str | None:
        """End a nomination; returns its node."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            if self._queues.active:
                self._queues.unpromise(uid)
            self.count = len(self._node_of)
            self._note(node)
            pods = self._pods_on[node]
            if self._undo.steps is not None:
                before = dict(pods)
                self._undo.steps.append(lambda: self._restore(uid, node, before))
            del pods[uid]
            if not pods:
                del self._pods_on[node]
        return node

    def _restore(self, uid: str, node: str, pods: dict[str, Pod]) -> None:
        """Restore a nomination, as old as it was among those of its node."""
        self._note(node)
        self._node_of[uid] = node
        self.count = len(self._node_of)
        self._pods_on[node] = pods
        if self._queues.active:
            self._queues.promise(pods[uid])

    def touch(self, uid: str) -> None:
        """The pod was placed on a node, or was removed from it: its nomination counts differently now."""
        node = self._node_of.get(uid)
        if node is not None:
            self._note(node)

    def node_of(self, uid: str) -> str | None:
        """The node that a pod is nominated to."""
        return self._node_of.get(uid)

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid as it was when it was nominated."""
        node = self._node_of.get(uid)
        return None if node is None else self._pods_on[node][uid]

    def pods(self) -> Iterator[Pod]:
        """All nominated pods."""
        return (pod for pods in self._pods_on.values() for pod in pods.values())

    def bound_from(self, template: PodTemplate) -> float:
        """The priority from which on nominated pods outside queues count for such a pod."""
        return -inf if self._queues.governs(template) else template.priority

    def binds(self, pod: Pod, template: PodTemplate) -> bool:
        """Whether a nominated pod counts as present for such a pod, which must leave it its room."""
        return pod.template.priority >= self.bound_from(template) or self._queues.governs(pod.template)

    def nodes(self) -> list[str]:
        """All nodes with nominated pods."""
        return list(self._pods_on)

    def on(self, node: str) -> list[Pod]:
        """The pods nominated to this node, oldest nomination first."""
        return list(self._pods_on.get(node, {}).values())

    def since(self, position: int) -> list[str] | None:
        """The nodes whose nominations changed from `position` on, repeats included; None if that is too long ago."""
        start = self.position - len(self._log)
        return self._log[position - start :] if position >= start else None

    def _note(self, node: str) -> None:
        if len(self._log) >= _KEPT_CHANGES:
            del self._log[: _KEPT_CHANGES // 2]
        self._log.append(node)
        self.position += 1
