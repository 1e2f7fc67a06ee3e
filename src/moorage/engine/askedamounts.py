"""What filters compare of the requests of waiting pods, as columns and amounts; kept by template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.pods import Pod
from moorage.core.templatecache import TemplateCache
from moorage.engine.context import EngineContext
from moorage.framework.contract import SlackFilter
from moorage.framework.cycle import Cycle

_KEPT = 65_536
_MANY = 1 << 32
_NO_ROWS = np.empty(0, dtype=np.intp)

Asked = tuple[tuple[int, int], ...]
"""Columns and amounts, each of which a node must have left."""


class AskedAmounts:
    """What pods ask of nodes by the profiles in force."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._state = context.state
        self._known: TemplateCache[Asked] = TemplateCache(_KEPT)
        self._layout = -1
        self._counts: dict[Asked, int] = {}
        """What `_held` has counted as the nodes are."""
        self._moment: tuple[int, ...] = ()

    def of(self, pod: Pod) -> Asked | None:
        """What a node must have left for a pod, whatever else it must have; None if amounts say nothing."""
        state = self._state
        if state.devices.backing or self._context.sides.on or pod.requests is not pod.template.requests:
            return None  # claims may stand in for what a node does not offer
        if self._layout != state.resources.layout:
            self._layout = state.resources.layout
            self._known.clear()
        found = self._known.get(pod.template)
        return self._known.keep(pod.template, self._find(pod)) if found is None else found

    def suffices(self, pods: Iterable[Pod], least: int) -> bool:
        """Whether nodes may have enough left for so many of these pods, where those that ask for the same are
        considered alone; True if amounts say nothing.
        """
        found = 0
        for asked, count in Counter(map(self.of, pods)).items():
            if asked is None:
                return True
            found += min(count, self._held(asked))
        return found >= least

    def _held(self, asked: Asked) -> int:
        """How many pods that ask for this fit into what all nodes have left."""
        moment = self._state.node_log.position, self._state.pod_log.position, self._layout
        if moment != self._moment:
            self._moment = moment
            self._counts.clear()
        held = self._counts.get(asked)
        if held is None:
            held = self._counts[asked] = self._count(asked)
        return held

    def _count(self, asked: Asked) -> int:
        resources, rows = self._state.resources, self._state.rows()
        held: Ints = np.full(len(rows), _MANY)
        for column, amount in asked:
            if amount:
                left = resources.allocatable[column, rows] - resources.requested[column, rows]
                held = np.minimum(held, left // amount)
        return int(np.maximum(held, 0).sum())

    def _find(self, pod: Pod) -> Asked:
        runner = self._context.responsible(pod)
        cycle = Cycle(pod, self._state, 0.0)
        counting = (plugin for plugin in runner.plugins.filter if isinstance(plugin, SlackFilter))
        columns = {column for plugin in counting for column, _ in plugin.slack(cycle, _NO_ROWS)}
        pairs = self._state.resources.vector(pod.requests).pairs
        return tuple((column, amount) for column, amount in pairs if column in columns)
