"""Which node a moved pod's successor gets: the one that its profile chooses, if the workload's rules hold there too.

Filters are asked as for every pod. Two rules may be less than filters, and still must not suffer from a move: of a
workload with a placement strategy, the successor gets a node of the same rule; where ControllerSpread wants several
hosts and there are too few, it gets a host of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.pods import PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.strategies import rules_at, strategy_of
from moorage.framework.contract import SpreadsHosts
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner


def choice(state: ClusterState, template: PodTemplate, home: int) -> Callable[[Runner, Cycle], int]:
    """Choose a row for the successor of a pod on row `home`; `template` is the pod's."""

    def choose(runner: Runner, cycle: Cycle) -> int:
        row = runner.decide(cycle)
        wanted = _of_same_rule(state, template, home)
        hosts = _of_their_own(state, template, runner)
        if row == NOWHERE or (wanted is None and hosts is None):
            return row
        good = np.ones(state.capacity, dtype=np.bool_)
        for mask in (wanted, hosts):
            good &= True if mask is None else mask
        if good[row]:
            return row
        passed = runner.judge(cycle, state.rows()).passed
        passed = passed[good[passed]]
        return runner.best_of(cycle, passed) if len(passed) else NOWHERE

    return choose


def _of_same_rule(state: ClusterState, template: PodTemplate, home: int) -> Mask | None:
    """Rows of the rule that the pod stands under, bool[capacity]; None if it has no strategy."""
    holding = strategy_of(state, template)
    if holding is None:
        return None
    found = np.zeros(state.capacity, dtype=np.bool_)
    if holding.strategy is not None:
        rows = state.rows()
        own = rules_at(state, holding.strategy, np.array([home], dtype=np.intp))[0]
        found[rows] = rules_at(state, holding.strategy, rows) == own
    return found


def _of_their_own(state: ClusterState, template: PodTemplate, runner: Runner) -> Mask | None:
    """Rows without a pod of the same owner, while these are on too few of them, bool[capacity]; else None."""
    plugin = runner.plugins.first(SpreadsHosts)
    if plugin is None:
        return None
    standing = state.owner_rows(template)
    if standing.places >= plugin.hosts(template, state):
        return None
    free: Mask = standing.dense(state.capacity) == 0
    return free
