"""Figures of a cluster at one moment: what is allocated, what of the rest is of no use, cost, and shares of queues.

Each gauge gives rows of a measure, what it is of, the value and its unit. Shares are parts of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from moorage.core.bills import bill, nodes_in_use_now
from moorage.core.prices import PriceList
from moorage.core.queueaccounts import QueueAccount
from moorage.core.resources import PODS
from moorage.core.shareasks import WHOLE
from moorage.core.state import ClusterState
from moorage.core.workload import LearnedWorkload
from moorage.engine.engine import Engine
from moorage.plugins.fragmentation import Fragmentation
from moorage.views.queuetree import accounts_of, governed
from moorage.views.standing import allocated_parts, spread_counts, strategy_counts

DEVICES = "devices"
SHARE, PER_HOUR = "share", "{currency}/h"
_MICROS = 1_000_000


class GaugeRow(NamedTuple):
    """One figure."""

    measure: str
    of: str
    """A resource, `queue=NAME`, `priority=NUMBER`; empty for all."""
    value: float
    unit: str


class GaugeContext(NamedTuple):
    """What gauges know besides the state."""

    workload: LearnedWorkload
    """What is typical of the pods of the input, whatever the configuration makes of it."""
    fragments: Fragmentation
    prices: PriceList | None


def allocated(engine: Engine, _: GaugeContext) -> Iterator[GaugeRow]:
    """The part of each resource that pods on nodes request, and of GPUs that they share."""
    state = engine.state
    rows = state.rows()
    for name, part in allocated_parts(state, rows).items():
        if name != PODS:
            yield GaugeRow("allocated", name, part, SHARE)
    offered = _device_milli(state)
    if offered:
        left = int(state.shares().room.take(rows, axis=1).sum())
        yield GaugeRow("allocated", DEVICES, (offered - left) / offered, SHARE)


def fragmented(engine: Engine, context: GaugeContext) -> Iterator[GaugeRow]:
    """The part of each resource that is idle and of no use to pods like those of the input."""
    state = engine.state
    if context.workload.settle() and not len(state.rows()):
        return
    columns = state.resources
    for name, idle in context.fragments.idle(state).items():
        offered = _device_milli(state) / WHOLE
        column = columns.known(name)
        if column is not None:
            offered = int(columns.allocatable[column].take(state.rows()).sum())
            offered /= WHOLE if name == "cpu" else 1
        if offered:
            yield GaugeRow("fragmented", name, idle.unusable / offered, SHARE)


def _device_milli(state: ClusterState) -> int:
    return int(state.shares().offers.take(state.rows()).sum()) * WHOLE


def cost(engine: Engine, context: GaugeContext) -> Iterator[GaugeRow]:
    """What nodes in use cost an hour, where there are prices."""
    prices = context.prices
    if prices is not None:
        found = bill(engine.state, prices, nodes_in_use_now(engine.state))
        unit = PER_HOUR.format(currency=prices.currency)
        yield GaugeRow("cost", "", found.in_use_micros / _MICROS, unit)
        yield GaugeRow("nodes-in-use", "", found.nodes_in_use, "nodes")


def violations(engine: Engine, _: GaugeContext) -> Iterator[GaugeRow]:
    """Spread constraints that pods break as they stand, and workloads that are not split as their strategies say."""
    spread = spread_counts(engine.state, engine.runners.values())
    strategies = strategy_counts(engine.state, [entry.pod for entry in engine.queue.entries()])
    yield GaugeRow("spread-violations", "", float(spread[1]), "constraints")
    yield GaugeRow("spread-uneven", "", float(spread[2]), "constraints")
    yield GaugeRow("strategy-violations", "", float(strategies[1]), "workloads")


def fairness(engine: Engine, _: GaugeContext) -> Iterator[GaugeRow]:
    """Of each queue that wants something, what it has of its fair share; and how equal these are (Jain's index)."""
    accounts = governed(accounts_of(engine))
    parents = {account.queue.parent for account in accounts}
    found: dict[str, float] = {}
    for account in accounts:
        if account.queue.name not in parents and not account.problem:
            part = _of_share(account)
            if part is not None:
                found[account.queue.name] = part
    for name, part in found.items():
        yield GaugeRow("of-fair-share", f"queue={name}", part, SHARE)
    squares = sum(part * part for part in found.values())
    if found:
        index = sum(found.values()) ** 2 / (len(found) * squares) if squares else 1.0
        yield GaugeRow("fairness", "", index, SHARE)


def _of_share(account: QueueAccount) -> float | None:
    """The largest part of a fair share that the queue has; None if it wants nothing."""
    parts = [each.allocated / each.share for each in account.holdings.values() if each.requested and each.share]
    return max(parts, default=None)


GAUGES: Mapping[str, Callable[[Engine, GaugeContext], Iterator[GaugeRow]]] = {
    "allocated": allocated,
    "fragmented": fragmented,
    "cost": cost,
    "fairness": fairness,
}
"""Name of the measure in an experiment -> its gauge; each also has the mean over the time of the run."""
LAST_GAUGES: Mapping[str, Callable[[Engine, GaugeContext], Iterator[GaugeRow]]] = {"violations": violations}
"""Those that are read at the end only, as they look at every pod."""
