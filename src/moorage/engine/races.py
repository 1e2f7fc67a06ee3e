"""Two schedulers that bind to the same node at the same moment can overcommit it. That is reported as an event.

It cannot be prevented, since neither scheduler sees the other's bind in time. All pods on the node count, so no more
are added while it is overcommitted.
"""

from __future__ import annotations

import numpy as np

from moorage.core.commands import Command, RecordEvent
from moorage.core.pods import PENDING, Pod
from moorage.core.quantity import format_amount
from moorage.core.resources import PODS
from moorage.core.state import ClusterState
from moorage.engine.evictor import ref_of

REASON = "Overcommitted"


def overcommitted_count(state: ClusterState) -> int:
    """How many nodes hold more than they offer, in any resource."""
    resources = state.resources
    beyond = np.any(resources.requested > resources.allocatable, axis=0)
    return int(np.count_nonzero(beyond & state.alive))


def tell_race(state: ClusterState, pod: Pod, reporter: str, commands: list[Command]) -> None:
    """Report it if a pod that another process has just bound overcommits its node."""
    row = None if pod.node is None or pod.phase != PENDING else state.row_of(pod.node)
    if row is None:
        return
    resources = state.resources
    for column in np.flatnonzero(resources.requested[:, row] > resources.allocatable[:, row]):
        name = resources.names[column]
        asked = int(resources.requested[column, row])
        before = asked - (1 if name == PODS else pod.requests.get(name))
        if before <= resources.allocatable[column, row]:
            has, used = format_amount(name, int(resources.allocatable[column, row])), format_amount(name, asked)
            note = (
                f"Node {pod.node} has {has} of {name} and pods that request {used}: the process that bound the pod "
                "did not see, or did not count, the others on it"
            )
            commands.append(RecordEvent(ref_of(pod), "Warning", REASON, "Binding", note, reporter))
            return
