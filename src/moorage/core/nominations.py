"""Pods that wait for room on a node they were promised. They count as present for pods of equal or lower priority."""

from __future__ import annotations

from moorage.core.pods import Pod
from moorage.core.statement import Undo

_KEPT_CHANGES = 4096


class Nominations:
    """uid -> node and node -> pods, kept together."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self.position = 0
        """Where the log of changes ends now; keep it and hand it to `since` later."""
        self.count = 0
        """Number of pods that were promised a node; asked for at every decision, and so not a method."""
        self._log: list[str] = []
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, Pod]] = {}

    def __bool__(self) -> bool:
        return self.count > 0

    def set(self, pod: Pod, node: str) -> None:
        """Promise a node to a pod; an earlier promise of another node ends."""
        known = self.pod(pod.uid) if self._node_of.get(pod.uid) == node else None
        if known is None:
            self.clear(pod.uid)
        self._undo.note(lambda: self.clear(pod.uid) if known is None else self.set(known, node))
        self._note(node)
        self._node_of[pod.uid] = node
        self.count = len(self._node_of)
        self._pods_on.setdefault(node, {})[pod.uid] = pod

    def clear(self, uid: str) -> str | None:
        """End a promise; returns the node it was for."""
        node = self._node_of.pop(uid, None)
        if node is not None:
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
        """A promise holds again, and is as old as it was among those of its node."""
        self._note(node)
        self._node_of[uid] = node
        self.count = len(self._node_of)
        self._pods_on[node] = pods

    def touch(self, uid: str) -> None:
        """The pod came to stand on a node, or does so no longer: what is promised to it counts differently now."""
        node = self._node_of.get(uid)
        if node is not None:
            self._note(node)

    def node_of(self, uid: str) -> str | None:
        """The node promised to a pod."""
        return self._node_of.get(uid)

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid as it was when it was promised a node."""
        node = self._node_of.get(uid)
        return None if node is None else self._pods_on[node][uid]

    def nodes(self) -> list[str]:
        """All nodes that are promised to somebody."""
        return list(self._pods_on)

    def on(self, node: str) -> list[Pod]:
        """The pods that are promised this node, oldest promise first."""
        return list(self._pods_on.get(node, {}).values())

    def since(self, position: int) -> list[str] | None:
        """The nodes whose promises changed from `position` on, repeats included; None if that is too long ago."""
        start = self.position - len(self._log)
        return self._log[position - start :] if position >= start else None

    def _note(self, node: str) -> None:
        if len(self._log) >= _KEPT_CHANGES:
            del self._log[: _KEPT_CHANGES // 2]
        self._log.append(node)
        self.position += 1
