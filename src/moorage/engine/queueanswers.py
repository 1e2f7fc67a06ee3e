"""Who comes before a waiting pod in the order of queues, and by which rule; in words."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.core.phrases import counted
from moorage.core.pods import Pod
from moorage.core.queueorder import deciding_rule, precedence
from moorage.engine.engine import Engine
from moorage.engine.sharing import Sharing


def order_lines(engine: Engine, pod: Pod) -> Iterator[str]:
    """A line for each level at which another queue comes first, and how many of the same queue do."""
    sharing = engine.queue.shared
    if not isinstance(sharing, Sharing):
        return
    leaf = sharing.member(pod).leaf
    if leaf is None:
        return
    units = {entry.unit.uid: entry.unit for entry in engine.queue.entries() if entry.pod.uid != pod.uid}
    order = sharing.order(units.values())
    need = sharing.need([pod])
    for node in reversed(leaf.path):
        first = order.leader(node.parent)
        mine = precedence(node, need, order.tree.total)
        if first is not None and first[0] is not node and first[1] < mine:
            yield f"queue {first[0].name} comes before queue {node.name}: {deciding_rule(first[1], mine)}"
    mine_key = sharing.pod_key(pod, 0)
    ahead = sum(sharing.member(unit.pod).leaf is leaf and sharing.unit_key(unit) < mine_key for unit in units.values())
    if ahead:
        come = "comes" if ahead == 1 else "come"
        yield f"of queue {leaf.name}, {counted(ahead, 'job')} {come} before it, by priority and age"
