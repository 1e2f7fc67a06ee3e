"""What the nodes in use cost, before and after a simulation, and the prices that its plugins read.

PriceLists among the input take the place of every source of prices; all of them together are one list. Without them, a
source that is a file is read. ConfigMaps and URLs are not: a simulation needs no cluster and no network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace

from moorage.core.bills import nodes_in_use
from moorage.core.events import Event, ObjectSeen, PodSeen
from moorage.core.prices import PRICE_LIST, PriceList, PriceTable
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.framework.pricing import PriceSource, SourceKind
from moorage.framework.profiles import Profile
from moorage.plugins.cost_aware import CostAware, price_readers
from moorage.sim.inputs import ClusterInput
from moorage.wire.prices import load_price_list, price_list_from_builtin
from moorage.wire.problems import Problem

_ADD_ONE = f"add a {PRICE_LIST} to the input"


@dataclass(frozen=True, slots=True)
class Cost:
    """Millionths of the currency that an hour of the nodes in use costs, as far as they have a price."""

    currency: str
    before_micros: int
    after_micros: int
    nodes_before: int
    nodes_after: int
    """How many nodes were and are in use."""
    without_price: Sequence[str] = ()
    """Nodes that were or are in use and count nothing, sorted."""
    stale: bool = False


@dataclass(slots=True)
class InputPrices:
    """The prices of one simulation."""

    events: list[Event] = field(default_factory=list)
    """What the engine has to know."""
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    figures_from: PriceList | None = None
    """What the figures are computed with."""

    def cost(self, state: ClusterState, before: Collection[str], after: Collection[str]) -> Cost | None:
        """The figures, None without prices; `before` and `after` are the nodes in use."""
        found = self.figures_from
        if found is None:
            return None
        table = PriceTable(found.rules)
        rows = {name: row for name in {*before, *after} if (row := state.row_of(name)) is not None}
        micros = {name: table.of(state.node(row).labels) for name, row in rows.items()}
        without = sorted(name for name, price in micros.items() if price is None)

        def total(names: Collection[str]) -> int:
            return sum(micros.get(name) or 0 for name in names)

        def number(names: Collection[str]) -> int:
            return sum(name in rows for name in names)

        return Cost(
            found.currency, total(before), total(after), number(before), number(after), without, stale=found.stale
        )


def input_prices(given: ClusterInput, profiles: Iterable[Profile], now_s: float) -> InputPrices:
    """Find the prices for every plugin that reads some; `now_s` is the time at which the simulation starts."""
    result = InputPrices()
    plugins = [*price_readers(profiles)]
    written = _written(given, result)
    seen: dict[str, PriceList | None] = {}
    for plugin in plugins:
        if plugin.own is None and plugin.list_key not in seen:
            found = _checked(_for(plugin.source, written, result), plugin, now_s, result)
            seen[plugin.list_key] = found
            if found is not None:
                result.events.append(ObjectSeen(PRICE_LIST, plugin.list_key, found))
    read = [found for found in seen.values() if found is not None]
    own = [plugin.own for plugin in plugins if plugin.own is not None]
    result.figures_from = next(iter((*read, *own) if written is None else (*read, written)), None)
    return result


def _written(given: ClusterInput, result: InputPrices) -> PriceList | None:
    """The PriceLists of the input as one; of prices in two currencies nothing can be computed."""
    bodies = [body for body in given.objects if body["kind"] == PRICE_LIST]
    if not bodies or given.problems:
        return None
    lists = [price_list_from_builtin(body) for body in bodies]
    for other in lists[1:]:
        if other.currency != lists[0].currency:
            message = f"{PRICE_LIST} {lists[0].name} is in {lists[0].currency}; write all prices in one currency"
            place = given.places[PRICE_LIST, "", other.name]
            result.problems.append(place.problem("currency", other.currency, message))
    times = [each.as_of_s for each in lists if each.as_of_s is not None]
    rules = tuple(rule for each in lists for rule in each.rules)
    return PriceList(", ".join(each.name for each in lists), lists[0].currency, rules, min(times, default=None))


def _for(source: PriceSource | None, written: PriceList | None, result: InputPrices) -> PriceList | None:
    if written is not None:
        return written
    if source is None:
        result.warnings.append(f"CostAware has neither prices nor a source, so that no node has a price; {_ADD_ONE}")
        return None
    if source.kind is not SourceKind.FILE:
        words = "is not read by a simulation, so that no node has a price"
        result.warnings.append(f"CostAware: {source.key} {words}; {_ADD_ONE}")
        return None
    found = load_price_list(source.where)
    if isinstance(found, PriceList):
        return replace(found, name=source.key)
    result.warnings += [f"CostAware: no node has a price, as its source is of no use: {problem}" for problem in found]
    return None


def _checked(found: PriceList | None, plugin: CostAware, now_s: float, result: InputPrices) -> PriceList | None:
    """Mark prices as stale that are older than the simulated cluster by too much."""
    longest_s = plugin.args.stale_after_seconds
    if found is None or found.as_of_s is None or now_s - found.as_of_s <= longest_s:
        return found
    age_s = int(now_s - found.as_of_s)
    result.warnings.append(
        f"prices of {found.name} are stale: their asOf is {age_s} s before the time of the simulated cluster, and "
        f"staleAfterSeconds is {longest_s}; CostAware does not use them"
    )
    return replace(found, stale=True)


def nodes_in_use_at_first(events: Iterable[Event]) -> set[str]:
    """The nodes in use in a cluster of which these events tell for the first time."""
    return nodes_in_use(event.pod for event in events if isinstance(event, PodSeen))
