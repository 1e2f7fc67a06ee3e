"""CostAware: pods go where their requests cost least.

The cost of a pod on a node is the node's price times the share of the node that it requests: the largest of its shares
of cpu, memory and other resources. So a large node may be cheaper although its price per hour is higher. The raw score
is that cost in billionths of the currency; among the feasible nodes the cheapest gets 100, one that costs twice as much
gets 50.

Prices are in the arguments, or come as a PriceList from a source that the process follows: a plugin does no I/O. A node
without a price is neither cheap nor expensive: it gets 50 (`unknown: Neutral`) or 0 (`Worst`). Stale prices are not
used; all nodes are then without a price.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import PodTemplate
from moorage.core.prices import NO_PRICE, PRICE_LIST, PriceList, PriceRule, PriceTable
from moorage.core.resources import CPU, MEMORY, PODS
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.pricing import (
    LONGEST_S,
    PriceArgs,
    PriceSource,
    SourceArgs,
    currency_code,
    distinct,
    price_source,
)
from moorage.framework.profiles import Profile

_BEST, _NEUTRAL = 100, 50
_NANOS_PER_MICRO = 1_000
_ARGUMENTS = "arguments"


class Unknown(StrEnum):
    """What nodes without a price score."""

    NEUTRAL = "Neutral"
    WORST = "Worst"


class CostAwareArgs(PluginArgs):
    """The prices, or where they come from, and how nodes without one are scored."""

    prices: Annotated[tuple[PriceArgs, ...], Field(strict=False)] = ()
    currency: str | None = None
    source: SourceArgs | None = None
    unknown: Annotated[Unknown, Field(strict=False)] = Unknown.NEUTRAL
    stale_after_seconds: Annotated[int, Field(ge=1, le=LONGEST_S)] = 3600

    _distinct = field_validator("prices")(distinct)

    @field_validator("currency")
    @classmethod
    def _is_currency(cls, text: str | None) -> str | None:
        return text if text is None else currency_code(text)

    @model_validator(mode="after")
    def _is_one(self) -> CostAwareArgs:
        if self.source is not None and (self.prices or self.currency):
            raise ValueError("prices and currency are those of the source's PriceList; remove them here, or the source")
        return self


class CostAware(Plugin):
    """Scores nodes by what the pod would cost there."""

    name: ClassVar[str] = "CostAware"
    Args: ClassVar[type[PluginArgs]] = CostAwareArgs
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)
    kinds: ClassVar[frozenset[str]] = frozenset({PRICE_LIST})

    def __init__(self, args: CostAwareArgs | None = None) -> None:
        self.args: CostAwareArgs = args or CostAwareArgs()
        self.source: PriceSource | None = None
        """Where its prices come from; None: from its arguments."""
        if self.args.source is not None:
            self.source = price_source(self.args.source, float(self.args.stale_after_seconds))
        self.own: PriceList | None = None
        """The prices of the arguments."""
        if self.args.prices:
            rules = tuple(price.rule() for price in self.args.prices)
            self.own = PriceList(_ARGUMENTS, self.args.currency or "", rules)
        self._rules: tuple[PriceRule, ...] = ()
        self._table = PriceTable(())

    @property
    def list_key(self) -> str:
        """The key of the PriceList in the state that it reads, unless it has prices of its own."""
        return "" if self.source is None else self.source.key

    def sign(self, template: PodTemplate) -> tuple[tuple[str, int], ...]:
        """What the pod requests; containers that request nothing count as in other scores."""
        requests = template.requests
        others = (pair for pair in requests.amounts if pair[0] not in (CPU, MEMORY, PODS))
        return (CPU, requests.score_cpu_milli), (MEMORY, requests.score_memory_bytes), *others

    def epoch(self, state: ClusterState) -> Hashable:
        """Other prices make every answer wrong."""
        return 0 if self.own is not None else state.object_versions.get(PRICE_LIST, 0)

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The cost of the pod per hour in billionths of the currency, int64[len(rows)]; -1 without a price."""
        state, table = cycle.state, self._current(cycle.state)
        if table is None:
            return np.full(len(rows), NO_PRICE, dtype=np.int64)
        micros = state.pick(table.column(state), rows)
        # A share has no unit and may be a float; what is kept and compared are integers.
        shares = np.zeros(len(rows), dtype=np.float64)
        for name, amount in self.sign(cycle.template):
            column = state.resources.known(name)
            if column is None:
                shares[:] = 1.0
                continue
            offered = state.pick(state.resources.allocatable[column], rows)
            np.maximum(shares, amount / np.maximum(offered, max(amount, 1)), out=shares)
        costs: Ints = (micros * _NANOS_PER_MICRO * shares).astype(np.int64)
        return np.where(micros == NO_PRICE, NO_PRICE, costs)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """100 * lowest cost / cost, int64[len(scores)]; an argument says what nodes without a price get."""
        known = scores != NO_PRICE
        without = _NEUTRAL if self.args.unknown is Unknown.NEUTRAL else 0
        found: Ints = np.full(len(scores), without, dtype=np.int64)
        if known.any():
            costs = scores[known]
            found[known] = np.where(costs == 0, _BEST, int(costs.min()) * _BEST // np.maximum(costs, 1))
        return found

    def prices(self, state: ClusterState) -> PriceList | None:
        """The prices as they are now, stale ones included; None while there are none."""
        if self.own is not None:
            return self.own
        found: PriceList | None = state.objects.get(PRICE_LIST, {}).get(self.list_key)
        return found

    def _current(self, state: ClusterState) -> PriceTable | None:
        found = self.prices(state)
        if found is None or found.stale:
            return None
        if found.rules is not self._rules:
            self._rules, self._table = found.rules, PriceTable(found.rules)
        return self._table


def price_readers(profiles: Iterable[Profile]) -> Iterator[CostAware]:
    """One instance for each CostAware of these profiles; they know where their prices come from."""
    arguments = (plugin.args for profile in profiles for plugin in profile.plugins)
    return (CostAware(args) for args in arguments if isinstance(args, CostAwareArgs))
