"""Events about pods and nodes that exceed a limit, so that only a part of them is considered (see `core.limits`).

One is published when the excess is first seen, and whenever it changes.
"""

from __future__ import annotations

from moorage.core import limits
from moorage.core.commands import PodRef, RecordEvent
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.engine.context import Commands, EngineContext
from moorage.engine.evictor import ref_of


def tell_pod(context: EngineContext, pod: Pod, commands: Commands) -> None:
    """Report a pod that exceeds a limit, unless that is known."""
    runner = context.runner_of(pod)
    if pod.finished or (pod.node is None and runner is None):
        return  # it is neither on a node nor ours to schedule
    known = context.state.record(pod.uid) or context.queue.get(pod.uid)
    if known is None or known.pod.template.excess != pod.template.excess:
        reporter = next(iter(context.runners)) if runner is None else runner.profile.scheduler_name
        note = limits.describe(pod.template.excess)
        commands.append(RecordEvent(ref_of(pod), "Warning", limits.REASON, "Scheduling", note, reporter))


def tell_node(context: EngineContext, before: Node | None, node: Node, commands: Commands) -> None:
    """Report a node that exceeds a limit, unless that is known."""
    if before is None or before.excess != node.excess:
        note, reporter = limits.describe(node.excess), next(iter(context.runners))
        ref = PodRef("", node.name, node.uid)
        commands.append(RecordEvent(ref, "Warning", limits.REASON, "Scheduling", note, reporter, kind="Node"))
