"""What can happen in a cluster, for deciding which waiting pods it may help (queueing hints)."""

from __future__ import annotations

from enum import IntFlag, auto
from typing import NamedTuple

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.volumeindex import CLAIM


class What(IntFlag):
    """Kinds of change. A plugin's `wakes` is the union of those after which it may accept a pod that it rejected."""

    NODE_ADDED = auto()
    NODE_REMOVED = auto()
    """Helps only where nodes are compared with each other."""
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    """Taints or spec.unschedulable."""
    NODE_OTHER = auto()
    """Anything else of a node that plugins read: images, declared features, annotations."""
    POD_ADDED = auto()
    """A pod has been placed on a node (assumed pods included)."""
    POD_UPDATED = auto()
    """Labels, requests or the deletion mark of a pod on a node changed."""
    POD_REMOVED = auto()
    """A pod left its node, or stopped counting there."""
    OBJECT = auto()
    """An object of another kind; one of `Plugin.kinds`."""
    SELF = auto()
    """The waiting pod itself changed."""

    NODE = NODE_ADDED | NODE_REMOVED | NODE_ALLOCATABLE | NODE_LABELS | NODE_TAINTS | NODE_OTHER
    ANY = NODE | POD_ADDED | POD_UPDATED | POD_REMOVED | OBJECT | SELF

    @property
    def label(self) -> str:
        """What kube-scheduler's metrics call it."""
        return _LABELS.get(self, "NodeUpdate" if self & What.NODE else "")


_LABELS = {
    What.NODE_ADDED: "NodeAdd",
    What.NODE_REMOVED: "NodeDelete",
    What.NODE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    What.NODE_LABELS: "NodeUpdateNodeLabel",
    What.NODE_TAINTS: "NodeUpdateNodeTaint",
    What.POD_ADDED: "AssignedPodAdd",
    What.POD_UPDATED: "AssignedPodUpdate",
    What.POD_REMOVED: "AssignedPodDelete",
    What.SELF: "TargetPodUpdate",
}


class Change(NamedTuple):
    """One change, with what is known about it."""

    what: What
    node: Node | None = None
    pod: Pod | None = None
    before: Pod | None = None
    """For POD_UPDATED: the pod as it was."""
    kind: str = ""
    key: str = ""
    frees: bool = False
    """For OBJECT: whether a claim gave its devices back."""
    added: bool = False
    """For OBJECT: whether it is new."""
    gone: bool = False
    """For OBJECT: whether it was deleted."""

    @property
    def label(self) -> str:
        """What kube-scheduler's metrics call it."""
        return self.what.label or f"{self.kind}Update"

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Kinds and keys of what pods may wait for: the object that changed, or the claims of a pod that leaves."""
        if self.kind:
            return [(self.kind, self.key)]
        if self.pod is None or self.what is not What.POD_REMOVED:
            return []
        template = self.pod.template
        return [(CLAIM, f"{template.namespace}/{each.claim}") for each in template.volumes if each.claim is not None]
