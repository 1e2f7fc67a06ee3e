"""What the nodes in use cost, and what spot capacity saves; kept, so that each question costs what has changed.

Which nodes are in use is said by `core.bills`. The savings are the difference between
what the spot nodes in use cost and what the same nodes would cost on demand, as far as the price list has both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Mask
from moorage.core.bills import keeps_in_use
from moorage.core.capacity import CAPACITY_LABELS, Capacity, CapacityTypes
from moorage.core.nodecolumn import NodeColumn
from moorage.core.nodes import Node
from moorage.core.prices import NO_PRICE, PRICE_LIST, PriceList, PriceTable
from moorage.core.state import ClusterState
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """Millionths of a currency per hour, of the nodes in use."""

    currency: str
    total: int
    spot: int
    """Of spot nodes for which the price on demand is known."""
    spot_on_demand: int
    """What these would cost on demand."""
    nodes: int
    without_price: int
    stale: bool

    @property
    def saved(self) -> int:
        """What spot capacity saves."""
        return self.spot_on_demand - self.spot


class CostMeter:
    """Answers for one state."""

    def __init__(self, state: ClusterState, types: CapacityTypes) -> None:
        self._state = state
        self._types = types
        self._prices: PriceList | None = None
        self._table = PriceTable(())
        self._instead: NodeColumn[np.int64] = NodeColumn()
        self._used: Mask = np.zeros(0, dtype=np.bool_)
        self._positions = (-1, -1)

    def now(self) -> HourlyCost | None:
        """The cost of the nodes in use; None without prices."""
        lists: Mapping[str, PriceList] = self._state.objects.get(PRICE_LIST, {})
        found = next((each for each in lists.values() if each.rules), None)
        if found is None:
            return None
        if found is not self._prices:
            self._prices, self._table, self._instead = found, PriceTable(found.rules), NodeColumn()
        used = self._in_use()
        prices, instead = self._table.column(self._state)[used], self._on_demand()[used]
        priced, both = prices != NO_PRICE, (prices != NO_PRICE) & (instead != NO_PRICE)
        return HourlyCost(
            currency=found.currency,
            total=int(prices[priced].sum()),
            spot=int(prices[both].sum()),
            spot_on_demand=int(instead[both].sum()),
            nodes=len(prices),
            without_price=int((~priced).sum()),
            stale=found.stale,
        )

    def _in_use(self) -> Mask:
        """Which rows are in use, bool[state.capacity]; rows are looked at again when their node or a pod changes."""
        state = self._state
        logs = (state.node_log, state.pod_log)
        changes = [log.since(position) for log, position in zip(logs, self._positions, strict=True)]
        self._positions = (state.node_log.position, state.pod_log.position)
        if len(self._used) != state.capacity or any(rows is None for rows in changes):
            self._used = np.zeros(state.capacity, dtype=np.bool_)
            changes = [state.rows().tolist()]
        for row in {row for rows in changes for row in rows or ()}:
            alive = bool(state.alive[row])
            self._used[row] = alive and any(keeps_in_use(record.pod) for record in state.records_on(row))
        return self._used

    def _on_demand(self) -> Ints:
        """What spot nodes would cost on demand, int64[state.capacity]."""
        state = self._state

        def one_row(row: int) -> int:
            node = state.node(row) if state.alive[row] else None
            if node is None or self._types.of(node.labels) is not Capacity.SPOT:
                return NO_PRICE
            found = self._table.of(_labels_on_demand(node))
            return NO_PRICE if found is None else found

        def all_rows() -> Ints:
            return np.array([one_row(row) for row in range(state.capacity)], dtype=np.int64)

        return self._instead.of(state, one_row, all_rows)


def cost_document(cost: HourlyCost | None) -> dict[str, Any] | None:
    """A cost as a plain value."""
    if cost is None:
        return None
    return {
        "currency": cost.currency,
        "total": cost.total,
        "spot": cost.spot,
        "spot_on_demand": cost.spot_on_demand,
        "saved": cost.saved,
        "nodes": cost.nodes,
        "without_price": cost.without_price,
        "stale": cost.stale,
    }


def _labels_on_demand(node: Node) -> dict[str, str]:
    """The labels of the same node, bought on demand."""
    labels = dict(node.labels)
    for label in CAPACITY_LABELS:
        if label.key in labels:
            labels[label.key] = min(label.on_demand)
    return labels
