"""How good a cluster's placements are, in figures that two clusters, or two days, can be compared by.

Cost counts nodes in use. Fragmentation is what typical pods cannot use of what is idle. Spread counts the constraints
that pods write themselves and that the pods as they stand break; strategies count workloads whose pods are not split as
their rules say. All of it follows from one state, whoever placed the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.bills import bill, nodes_in_use_now
from moorage.core.claimshares import begin_to_learn
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod
from moorage.core.prices import PriceList
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.keeping.splits import Splits
from moorage.framework.contract import TellsIdle, TellsSkew
from moorage.framework.idle import Idle
from moorage.framework.runner import Runner
from moorage.plugins.cost_aware import price_readers
from moorage.plugins.fragmentation import Fragmentation

if TYPE_CHECKING:
    from moorage.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Standing:
    """One cluster at one moment."""

    nodes: int
    nodes_in_use: int
    pods: int
    """Pods on nodes."""
    pending: int
    allocated: Mapping[str, float] = field(default_factory=dict)
    """Resource -> which part of what all nodes offer is requested."""
    allocated_in_use: Mapping[str, float] = field(default_factory=dict)
    """The same of the nodes in use."""
    currency: str | None = None
    """None without prices."""
    cost_micros: int = 0
    """Millionths of the currency that the nodes in use cost an hour, as far as they have a price."""
    without_price: int = 0
    """Nodes in use or idle that have no price."""
    idle: Mapping[str, Idle] = field(default_factory=dict)
    """What is idle, and what of it is of no use to typical pods: devices, cores (`cpu`), bytes (`memory`)."""
    spread_rules: int = 0
    """Spread constraints of pods on nodes, equal ones of a namespace counted once."""
    spread_broken: int = 0
    """Those that the pods as they stand break and that forbid it (DoNotSchedule)."""
    spread_uneven: int = 0
    """Those that are preferences (ScheduleAnyway), likewise."""
    strategies: int = 0
    """Owners of pods with a placement strategy."""
    strategies_off: int = 0
    """Those whose pods on nodes are not split as the strategy says."""


class StandingMeasure:
    """Measures one engine's state; it begins to learn what typical pods ask for at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle = Fragmentation()
        if not engine.state.workload.followed:
            begin_to_learn(engine.state, [entry.pod for entry in engine.queue.entries()])

    def take(self) -> Standing:
        """The figures as of now; takes time in proportion to the pods."""
        engine = self._engine
        state, waiting = engine.state, [entry.pod for entry in engine.queue.entries()]
        in_use = nodes_in_use_now(state)
        prices = _prices(engine)
        cost = None if prices is None else bill(state, prices, in_use)
        rules, broken, uneven = spread_counts(state, engine.runners.values())
        strategies, off = strategy_counts(state, waiting)
        rows = np.array([row for name in in_use if (row := state.row_of(name)) is not None], dtype=np.intp)
        return Standing(
            nodes=state.node_count,
            nodes_in_use=len(rows),
            pods=state.pod_count,
            pending=len(waiting),
            allocated=allocated_parts(state, state.rows()),
            allocated_in_use=allocated_parts(state, rows),
            currency=None if prices is None else prices.currency,
            cost_micros=0 if cost is None else cost.in_use_micros,
            without_price=0 if cost is None else len(cost.without_price),
            idle=self._idle_capacity(),
            spread_rules=rules,
            spread_broken=broken,
            spread_uneven=uneven,
            strategies=strategies,
            strategies_off=off,
        )

    def _idle_capacity(self) -> Mapping[str, Idle]:
        """By the profile's own plugin, which may know the workload, else by what was learned."""
        state = self._engine.state
        state.workload.settle()
        own = (runner.plugins.first(TellsIdle) for runner in self._engine.runners.values())
        telling = next((plugin for plugin in own if plugin is not None), self._idle)
        return dict(telling.idle(state)) if state.node_count else {}


def _prices(engine: Engine) -> PriceList | None:
    """What the first plugin that reads prices reads."""
    readers = price_readers(runner.profile for runner in engine.runners.values())
    return next((found for reader in readers if (found := reader.prices(engine.state)) is not None), None)


def allocated_parts(state: ClusterState, rows: Rows) -> dict[str, float]:
    """Of every resource that these nodes offer."""
    resources = state.resources
    found: dict[str, float] = {}
    for name in resources.names:
        column = resources.known(name)
        if column is None:
            continue
        offered = int(resources.allocatable[column].take(rows).sum())
        if offered:
            found[name] = int(resources.requested[column].take(rows).sum()) / offered
    return found


def spread_counts(state: ClusterState, runners: Iterable[Runner]) -> tuple[int, int, int]:
    """How many constraints there are, and how many of the hard and of the soft ones are broken."""
    own = (plugin for runner in runners for plugin in runner.plugins.having(TellsSkew))
    teller = next(own, None)
    if teller is None:
        return 0, 0, 0
    templates = {record.pod.template for record in state.records() if record.pod.template.spread}
    found = {}
    for template in templates:
        for skew in teller.skews(template, state):
            found[template.namespace, skew.constraint] = skew
    broken = [skew.constraint.hard for skew in found.values() if skew.violated]
    return len(found), broken.count(True), broken.count(False)


def strategy_counts(state: ClusterState, waiting: Iterable[Pod]) -> tuple[int, int]:
    """How many workloads have a strategy, and how many of these are not split as it says."""
    members: dict[str, list[Pod]] = {}
    for pod in (*(record.pod for record in state.records()), *waiting):
        if pod.deleted_s is None:
            members.setdefault(strategy_group(pod.template), []).append(pod)
    splits = Splits(state)
    for owner, pods in members.items():
        splits.review(owner, pods)
    return len(splits), sum(split.off for split in splits)
