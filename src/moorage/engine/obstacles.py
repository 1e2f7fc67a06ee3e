"""The last check before a bind is sent: whether the decision still holds."""

from __future__ import annotations

import numpy as np

from moorage.core.commands import Bind
from moorage.core.state import ClusterState
from moorage.engine.bindingcycles import BindingCycles
from moorage.engine.faults import failed


def obstacle(state: ClusterState, bindings: BindingCycles, bind: Bind) -> str:
    """Why a bind must not be sent any more; empty if it may be. Costs next to nothing if no node has changed.

    The pod may be gone or on a node. The node may be gone, replaced by one of the same name, cordoned or tainted: if it
    has changed since the decision, the filters that read nothing but the node are called again.
    """
    binding = bindings.get(bind.pod.uid)
    if binding is None or binding.node != bind.node:
        return "the pod does not wait for this bind any more"
    log = state.node_log
    if log.position == binding.nodes_at:
        return ""
    row = state.row_of(bind.node)
    if row is None or state.node(row).uid != binding.node_uid:
        return f"node {bind.node} was deleted since the decision"
    changed = log.since(binding.nodes_at)
    if changed is None or row in changed:
        try:
            fits = bool(binding.runner.node_mask(binding.cycle, np.array([row], dtype=np.intp))[0])
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            return failed(error)
        if not fits:
            return f"node {bind.node} has changed since the decision, and does not take the pod any more"
    binding.nodes_at = log.position
    return ""
