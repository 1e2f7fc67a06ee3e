"""Tells of pods and nodes of which only a part counts, since they are beyond a limit (see `core.limits`).

Each is told of when it is first seen so, and whenever that changes.
"""

from __future__ import annotations

from moorage.core import limits
from moorage.core.commands import PodRef, RecordEvent
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.engine.context import Commands, EngineContext
from moorage.engine.evictor import ref_of


def tell_pod(context: EngineContext, pod: Pod, commands: Commands) -> None:
    """A pod with an excess was seen, and the context does not know it so yet."""
    runner = context.runner_of(pod)
    if pod.finished or (pod.node is None and runner is None):
        return  # it counts nowhere
    known = context.state.record(pod.uid) or context.queue.get(pod.uid)
    if known is None or known.pod.template.excess != pod.template.excess:
        reporter = next(iter(context.runners)) if runner is None else runner.profile.scheduler_name
        note = limits.describe(pod.template.excess)
        commands.append(RecordEvent(ref_of(pod), "Warning", limits.REASON, "Scheduling", note, reporter))


def tell_node(context: EngineContext, before: Node | None, node: Node, commands: Commands) -> None:
    """A node with an excess was seen."""
    if before is None or before.excess != node.excess:
        note, reporter = limits.describe(node.excess), next(iter(context.runners))
        ref = PodRef("", node.name, node.uid)
        commands.append(RecordEvent(ref, "Warning", limits.REASON, "Scheduling", note, reporter, kind="Node"))
