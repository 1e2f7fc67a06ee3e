"""Which waiting pods of queues a pod that leaves could help: those that fit where it was, or into a limit now.

Every pod that waits for room would be tried whenever any pod leaves, and most in vain. What no attempt can find, a
round of making room may; it looks at all of them anyway.

Queues are compared by the first unit that waits in each, even if that does not fit. So if one unit below a queue at the
top is helped, all below it are tried; queues at the top do not depend on each other in that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moorage.core.queueorder import shortage
from moorage.core.queuetree import QueueNode
from moorage.engine.askedamounts import AskedAmounts
from moorage.engine.context import EngineContext
from moorage.engine.lifecycle import UNSCHEDULABLE
from moorage.engine.units import Unit
from moorage.framework.changes import Change, What
from moorage.framework.plugin import Reads
from moorage.framework.runner import Runner

_ANYWHERE: Final = 0
_THERE: Final = 1
_LIMIT: Final = 2
"""Where room can help a unit: on any node, on that which a pod left, or in the limits of its queues."""


class Waking:
    """Looks at changes for units of queues; `name` is the plugin that keeps queues within their limits."""

    def __init__(self, context: EngineContext, asked: AskedAmounts) -> None:
        self._context, self._state = context, context.state
        self._asked = asked
        self._where: dict[tuple[frozenset[str], str], int] = {}
        self._change: Change | None = None
        self._left: list[int] | None = None
        """What the node has left that the pod of this change was on; None if it is not known."""
        self._tops: set[QueueNode] = set()
        """The queues at the top that it helps."""

    def worth_trying(self, unit: Unit, change: Change, waiting: Iterable[Unit], name: str) -> bool:
        """Whether a unit should be tried after this change; `waiting` are all that found no node."""
        if change.what != What.POD_REMOVED or unit.state is not UNSCHEDULABLE:
            return True
        if change is not self._change:
            self._change, self._left = change, self._find_left(change)
            self._tops = self._helped(waiting, name)
        leaf = self._state.queues.member(unit.pod.template).leaf
        return leaf is None or leaf.path[-1] in self._tops

    def _helped(self, waiting: Iterable[Unit], name: str) -> set[QueueNode]:
        """Queues at the top with units that may find a node now."""
        found, member = set[QueueNode](), self._state.queues.member
        known = set[int]()  # by line: what is alike is helped alike
        for unit in waiting:
            if unit.line in known:
                continue
            if unit.line:
                known.add(unit.line)
            leaf = member(unit.pod.template).leaf
            if leaf is not None and leaf.path[-1] not in found and self._is_helped(unit, name):
                found.add(leaf.path[-1])
        return found

    def _is_helped(self, unit: Unit, name: str) -> bool:
        pod = unit.pod
        key = unit.rejected_by, pod.template.scheduler_name
        where = self._where.get(key)
        if where is None:
            where = self._where[key] = self._find_where(unit, name)
        if unit.gang is not None or where == _ANYWHERE or self._state.queues.counts(pod.uid):
            return True  # a promise counts already, and whoever has one is tried for it
        if where == _LIMIT:
            queues = self._state.queues
            entry = queues.about(pod)
            leaf, need = entry.demand.leaf, queues.needed(entry)
            return leaf is None or shortage(leaf, need, preemptible=entry.demand.preemptible) is None
        left, asked = self._left, self._asked.of(pod)
        return left is None or asked is None or all(left[column] >= amount for column, amount in asked)

    def _find_where(self, unit: Unit, name: str) -> int:
        if len(unit.rejected_by) == 1 and name in unit.rejected_by:
            return _LIMIT
        runner = self._context.runner_of(unit.pod)
        if runner is None or name not in unit.rejected_by:
            return _ANYWHERE
        return _THERE if all(_is_local(runner, each) for each in unit.rejected_by - {name}) else _ANYWHERE

    def _find_left(self, change: Change) -> list[int] | None:
        node = None if change.pod is None else change.pod.node
        row = None if node is None else self._state.row_of(node)
        if row is None:
            return None
        resources = self._state.resources
        left: list[int] = (resources.allocatable[:, row] - resources.requested[:, row]).tolist()
        return left


def _is_local(runner: Runner, name: str) -> bool:
    """Whether a filter looks at nothing but a node and what is on it."""
    plugin = runner.plugins.get(name)
    return plugin is not None and plugin in runner.plugins.filter and plugin.reads is not Reads.CLUSTER
