"""The signals that a node is about to go away: those of clouds and autoscalers, and those of a configuration.

If a cloud gives less than the usual two minutes, the signal says so. Signals of a configuration come first: they
replace a built-in one of the same kind and key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moorage.core.nodes import Node
from moorage.engine.keeping import marks
from moorage.framework.keeping import NodeSignal, SignalKind

_TAINT, _CONDITION, _CORDON = SignalKind.TAINT, SignalKind.CONDITION, SignalKind.CORDON
_AWS = "aws-node-termination-handler"
_SHORT_S = 30.0
"""The notice that Azure and Google give."""

BUILT_IN: tuple[NodeSignal, ...] = (
    NodeSignal(_TAINT, f"{_AWS}/spot-itn"),
    NodeSignal(_TAINT, f"{_AWS}/scheduled-maintenance"),
    NodeSignal(_TAINT, f"{_AWS}/asg-lifecycle-termination"),
    NodeSignal(_TAINT, f"{_AWS}/rebalance-recommendation", soft=True),
    NodeSignal(_CORDON, f"{_AWS}/event-id"),
    # Karpenter drains before it removes, and waits for pods that ask it to; a real interruption has other signals.
    NodeSignal(_TAINT, "karpenter.sh/disrupted", soft=True),
    NodeSignal(_TAINT, "karpenter.sh/disruption", soft=True),
    # Cluster Autoscaler removes a node with this taint after a while, even if pods are still on it.
    NodeSignal(_TAINT, "ToBeDeletedByClusterAutoscaler"),
    NodeSignal(_TAINT, "cloud.google.com/impending-node-termination", notice_s=_SHORT_S),
    NodeSignal(_TAINT, "remediator.kubernetes.azure.com/unschedulable", notice_s=_SHORT_S),
    NodeSignal(_TAINT, "remediator.aks.microsoft.com/unschedulable", notice_s=_SHORT_S),
    NodeSignal(_CONDITION, "PreemptScheduled", notice_s=_SHORT_S),
    NodeSignal(_CONDITION, "TerminateScheduled", notice_s=_SHORT_S),
    NodeSignal(_CONDITION, "RedeployScheduled", notice_s=_SHORT_S),
    # Azure has one condition for all events; freezes and reboots leave the pods where they are.
    NodeSignal(_CONDITION, "VMEventScheduled", "Preempt", _SHORT_S),
    NodeSignal(_CONDITION, "VMEventScheduled", "Terminate", _SHORT_S),
    NodeSignal(_CONDITION, "VMEventScheduled", "Redeploy", _SHORT_S),
    NodeSignal(_CORDON, "moorage.dev/leaving"),
)
"""The built-in signals. A deletion timestamp on the node object is a notice, too, and a soft one: it is seen only while
a finalizer keeps the object, which means that the node is being drained."""

DELETION = "deletion of the node"


class NodeNotice(NamedTuple):
    """A notice found on a node."""

    words: str
    """The signal in words, for people."""
    notice_s: float
    soft: bool = False


class Signals:
    """Reads notices from nodes."""

    def __init__(self, configured: Iterable[NodeSignal], notice_s: float) -> None:
        own = tuple(configured)
        replaced = {(signal.kind, signal.key) for signal in own}
        built_in = (signal for signal in BUILT_IN if (signal.kind, signal.key) not in replaced)
        self._signals = (*(signal for signal in own if not signal.ignored), *built_in)
        self._notice_s = notice_s

    def notices(self, node: Node) -> list[NodeNotice]:
        """Every notice on the node, empty if it stays."""
        found = [
            NodeNotice(
                f"{signal.kind} {signal.key}",
                self._notice_s if signal.notice_s is None else signal.notice_s,
                signal.soft,
            )
            for signal in self._signals
            if _gives(node, signal)
        ]
        if node.deleting:
            found.append(NodeNotice(DELETION, self._notice_s, soft=True))
        return found


def _gives(node: Node, signal: NodeSignal) -> bool:
    key, text = signal.key, signal.text
    if signal.kind is _TAINT:
        return any(taint.key == key and text in taint.value for taint in node.taints)
    if signal.kind is _CONDITION:
        return any(c.type == key and (text in c.reason or text in c.message) for c in node.conditions)
    if not node.unschedulable or marks.CORDONED in node.annotations:
        return False  # the keeper's own cordon follows from a notice; if it counted as one, it would never end
    return any(key in table and text in table[key] for table in (node.labels, node.annotations))
