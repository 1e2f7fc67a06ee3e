"""Which node a moved pod's successor gets: the one that its profile chooses, if the workload's rules hold there too.

Filters are asked as for every pod. Three rules may be less than filters, and still must not suffer from a move: of a
workload with a placement strategy, the successor gets a node of the same rule; where ControllerSpread wants several
hosts and there are too few, it gets a host of its own; where SpotPlacement has a say, it stays on the same kind of
capacity, or goes to the kind where all of its workload belong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.capacity import Capacity
from moorage.core.pods import PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.strategies import rules_at, strategy_of
from moorage.framework.contract import PlacesByCapacity, SpreadsHosts, TellsCapacity
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner


def choice(state: ClusterState, template: PodTemplate, home: int) -> Callable[[Runner, Cycle], int]:
    """Choose a row for the successor of a pod on row `home`; `template` is the pod's."""

    def choose(runner: Runner, cycle: Cycle) -> int:
        row = runner.decide(cycle)
        wanted = _of_same_rule(state, template, home)
        hosts = _of_their_own(state, template, runner)
        masks = [mask for mask in (wanted, hosts, _of_same_capacity(state, template, home, runner)) if mask is not None]
        if row == NOWHERE or not masks:
            return row
        good: Mask = np.logical_and.reduce(masks)
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


def _of_same_capacity(state: ClusterState, template: PodTemplate, home: int, runner: Runner) -> Mask | None:
    """Rows on whose capacity a pod of row `home` may be as well, bool[capacity]; None if it does not matter."""
    placing, telling = runner.plugins.first(PlacesByCapacity), runner.plugins.first(TellsCapacity)
    aim = None if placing is None else placing.capacity_aim(template, state)
    if aim is None or telling is None:
        return None
    column = telling.capacity_types.column(state)
    found: Mask = column == column[home]
    if not aim.on_demand:  # all pods of the workload belong on one kind
        found |= column == (Capacity.ON_DEMAND if aim.on_demand is None else Capacity.SPOT)
    return found
