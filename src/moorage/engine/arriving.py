"""Whether those who wait would fit on nodes that are on their way: found out in a statement, which undoes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.core.arrivals import PATIENCE_S, arrivals
from moorage.core.gangneeds import GangNeeds
from moorage.core.phrases import listed
from moorage.core.pods import Pod
from moorage.engine.context import EngineContext
from moorage.engine.trial import Trial
from moorage.engine.units import QueuedPod
from moorage.framework.cycle import Cycle


class Arriving(NamedTuple):
    """Nodes that are on their way and would be used."""

    nodes: tuple[str, ...] = ()
    expires_s: float = 0.0
    """When the first of them is not expected any more."""

    @property
    def told(self) -> str:
        """In words."""
        are = "node is" if len(self.nodes) == 1 else "nodes are"
        return f"{len(self.nodes)} {are} coming that would fit: {listed(self.nodes)}" if self.nodes else ""


def arriving_for_gang(
    context: EngineContext, ready: Sequence[QueuedPod], needs: GangNeeds, now: float, patience_s: float = PATIENCE_S
) -> Arriving:
    """The nodes on their way with which a gang would fit that does not fit without; none if it would not."""
    state, nodes = context.state, arrivals(context.state, now, patience_s)
    if not nodes:
        return Arriving()
    with state.statement():
        for node in nodes:
            state.upsert_node(node)
        placement = Trial(context, now, reserves=False).place_gang(ready, needs, needs.domains(state))
        used = {binding.node for binding in placement.bindings} if placement.enough else set()
    found = [node for node in nodes if node.name in used]
    expires_s = min((node.created_s for node in found), default=0.0) + patience_s
    return Arriving(tuple(node.name for node in found), expires_s)


def arriving_for_pod(context: EngineContext, pod: Pod, now: float) -> Arriving:
    """The nodes on their way that a pod would fit on."""
    state, nodes = context.state, arrivals(context.state, now)
    runner = context.runner_of(pod)
    if not nodes or runner is None:
        return Arriving()
    with state.statement():
        for node in nodes:
            state.upsert_node(node)
        passed = set(map(int, runner.judge(Cycle(pod, state, now), state.rows()).passed))
        found = [node.name for node in nodes if state.row_of(node.name) in passed]
    return Arriving(tuple(found))
