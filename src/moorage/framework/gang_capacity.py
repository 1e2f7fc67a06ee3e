"""Which members of a gang would fit on empty nodes. The others never fit, whatever is evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.framework.contract import SlackFilter
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner

_MANY = 1 << 40


def holdable(cycles: Iterable[Cycle], runner_of: Callable[[Cycle], Runner]) -> list[Cycle]:
    """These members, in their order, without those that exceed what the nodes can hold of their kind.

    Only nodes and amounts count, as constraints that depend on other pods may change. Each kind is considered alone,
    so even the returned members may not all fit together.
    """
    left: dict[object, int] = {}
    kept = []
    for cycle in cycles:
        kind = kind_of(cycle.pod)
        if kind not in left:
            left[kind] = _capacity(runner_of(cycle), cycle)
        if left[kind] > 0:
            left[kind] -= 1
            kept.append(cycle)
    return kept


def kind_of(pod: Pod) -> object:
    """Equal for members that are alike."""
    return id(pod.template), pod.requests


def _capacity(runner: Runner, cycle: Cycle) -> int:
    """How many pods like this all nodes, or those of the domain that is tried, could hold if they were empty."""
    state = cycle.state
    rows = rows_of(state, cycle.domain)
    if not len(rows):
        return 0
    fits: Ints = np.where(runner.node_mask(cycle, rows), _MANY, 0)
    amounts = dict(state.resources.vector(cycle.template.requests).pairs)
    taken = {column: requested[rows] for column, requested in enumerate(state.resources.requested)}
    with state.statement():
        state.shift_amounts(rows, taken, -1)
        for plugin in _counting(runner):
            for column, left in plugin.slack(cycle, rows):
                fits = np.minimum(fits, np.where(left < 0, 0, left // max(amounts.get(column, 1), 1) + 1))
    return sum(fits.tolist())


def _counting(runner: Runner) -> list[SlackFilter]:
    return [plugin for plugin in runner.plugins.filter if isinstance(plugin, SlackFilter)]


def rows_of(state: ClusterState, domain: frozenset[str] | None) -> Rows:
    """The rows of a domain, by the names of its nodes; None stands for all."""
    if domain is None:
        return state.rows()
    return np.array(sorted(row for name in domain if (row := state.row_of(name)) is not None), dtype=np.intp)
