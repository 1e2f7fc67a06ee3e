"""Pods of nodes that are gone are deleted at once, so that their successors are created at once.

Kubernetes does the same, about a minute later. Only pods of workloads that have a rule here are deleted, and only after
a read of the node has confirmed that it does not exist. Pods of StatefulSets are left to Kubernetes: there must never
be two of the same, and a machine whose node object is gone may still run.
"""

from __future__ import annotations

from collections.abc import Callable

from moorage.core.commands import ClearNode
from moorage.core.objects import REPLICA_SET, REPLICATION_CONTROLLER
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE, ClusterState
from moorage.engine.evictor import ref_of

PATIENCE_S = 2.0
"""A node that is deleted and recreated within this time is not lost."""
AGAIN_S = 10.0
FORGET_S = 120.0
"""After this long Kubernetes has cleaned up itself."""
_KINDS = (REPLICA_SET, REPLICATION_CONTROLLER)


class LostNodes:
    """Nodes that were deleted lately; `is_kept` says whether a pod's workload has a rule here."""

    def __init__(self, state: ClusterState, is_kept: Callable[[Pod], bool]) -> None:
        self._state = state
        self._is_kept = is_kept
        self._gone_s: dict[str, float] = {}
        self._ordered_s: dict[str, float] = {}
        self._looked_back = False

    def __len__(self) -> int:
        return len(self._gone_s)

    def node_gone(self, name: str, now: float) -> None:
        """A node is gone."""
        self._gone_s[name] = now

    def node_seen(self, name: str) -> None:
        """A node exists again, or has nothing left to clean up."""
        self._gone_s.pop(name, None)
        self._ordered_s.pop(name, None)

    def plan(self, now: float) -> list[ClearNode]:
        """What to delete now."""
        if not self._looked_back:
            self._looked_back = True
            self._gone_s |= {record.node: now for record in self._state.records() if record.row == NOWHERE}
        for name in [name for name, gone_s in self._gone_s.items() if now - gone_s > FORGET_S]:
            self.node_seen(name)
        due = {name for name, gone_s in self._gone_s.items() if now - gone_s >= PATIENCE_S and self._is_due(name, now)}
        if not due:
            return []
        stranded: dict[str, list[Pod]] = {}
        for record in self._state.records():
            if record.row == NOWHERE and record.node in due and self._is_stranded(record.pod):
                stranded.setdefault(record.node, []).append(record.pod)
        for name in due - stranded.keys():
            self.node_seen(name)
        self._ordered_s |= dict.fromkeys(stranded, now)
        return [ClearNode(name, tuple(map(ref_of, pods))) for name, pods in stranded.items()]

    def _is_due(self, name: str, now: float) -> bool:
        return now - self._ordered_s.get(name, -AGAIN_S) >= AGAIN_S

    def _is_stranded(self, pod: Pod) -> bool:
        owner = pod.template.owner
        return owner is not None and owner.kind in _KINDS and pod.deleted_s is None and self._is_kept(pod)
