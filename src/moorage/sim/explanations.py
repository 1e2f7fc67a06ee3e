"""The explanation of each pod's deciding attempt, kept small until it is printed.

An explanation names every node, so those of ten thousand pods on a thousand nodes would fill the memory. They are kept
as compressed JSON (much of it repeats) and unpacked one at a time when the report is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.engine.explain import NodeExplanation, explain
from moorage.framework.cycle import Cycle
from moorage.framework.details import Detail
from moorage.framework.runner import Runner

_FASTEST = 1


class Explanations:
    """By uid of the pod; a later attempt takes the place of an earlier one."""

    def __init__(self, only: str | None = None) -> None:
        """With `only`, a pod's `namespace/name`, the others' attempts are not explained."""
        self._only = only
        self._packed: dict[str, bytes] = {}

    def observe(self, runner: Runner, cycle: Cycle) -> None:
        """Explain the attempt that is about to be made (an `Observer` of the engine)."""
        if self._only is not None and cycle.pod.key != self._only:
            return
        try:
            found = explain(runner, cycle.state, cycle.pod, cycle.now)
        except Exception:  # noqa: BLE001 - a plugin's fault; the attempt itself will meet it and say so in its message
            found = {}
        document = nodes_document(found)
        self._packed[cycle.pod.uid] = zlib.compress(msgspec.json.encode(document), _FASTEST)

    def of(self, uid: str) -> dict[str, Any]:
        """Node name -> its rejection or its scores; empty for a pod that was never attempted."""
        packed = self._packed.get(uid)
        document: dict[str, Any] = msgspec.json.decode(zlib.decompress(packed)) if packed else {}
        return document


def nodes_document(nodes: Mapping[str, NodeExplanation]) -> dict[str, dict[str, Any]]:
    """Each node with its rejection, soft or not, or with its scores, as `explain` of a pod's entry has them."""
    return {name: _node_document(node) for name, node in nodes.items()}


def _node_document(node: NodeExplanation) -> dict[str, Any]:
    if node.passed_over:
        return {"passedOver": node.passed_over}
    if not node.rejected:
        return {"scores": node.scores, "total": node.total}
    details = {"details": [each.document() for each in node.details]} if node.details else {}
    return {"rejected": node.rejected, **details}


def node_explanation(document: Mapping[str, Any]) -> NodeExplanation:
    """The explanation of a node, from its document."""
    details = tuple(map(Detail.read, document.get("details", ())))
    passed_over = document.get("passedOver", {})
    return NodeExplanation(document.get("rejected", {}), document.get("scores", {}), details, passed_over)
