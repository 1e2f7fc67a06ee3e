"""What the pods of a rule cost per hour, as far as their nodes have a price.

If several PriceLists are up to date, the one with the first key counts. Without one there are no figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.core.prices import NO_PRICE, PRICE_LIST, PriceList, PriceRule, PriceTable, format_price, pod_micros
from moorage.core.state import ClusterState
from moorage.engine.keeping.splits import Split


class RuleCosts:
    """Looks up the prices of the state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rules: tuple[PriceRule, ...] = ()
        self._table = PriceTable(())

    def of(self, splits: Iterable[Split], rule: int) -> dict[str, Any]:
        """The cost fields of a rule's status; none while prices are unknown."""
        found = self._current()
        if found is None:
            return {}
        micros, without = 0, 0
        prices = self._table.column(self._state)
        for pod, place in (pair for split in splits for pair in split.pods):
            row = None if place != rule or pod.node is None else self._state.row_of(pod.node)
            if row is None:
                continue
            price = int(prices[row])
            if price == NO_PRICE:
                without += 1
            else:
                micros += pod_micros(price, pod.requests, self._state.node(row).allocatable)
        fields: dict[str, Any] = {"costPerHour": f"{format_price(micros)} {found.currency}".rstrip()}
        return {**fields, "withoutPrice": without} if without else fields

    def _current(self) -> PriceList | None:
        lists: dict[str, PriceList] = self._state.objects.get(PRICE_LIST, {})
        found = next((each for _, each in sorted(lists.items()) if not each.stale), None)
        if found is not None and found.rules is not self._rules:
            self._rules, self._table = found.rules, PriceTable(found.rules)
        return found
