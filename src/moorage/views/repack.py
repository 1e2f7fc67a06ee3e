"""What repacking would do with a cluster, and what that saves: plain values for `simulate --repack` and the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moorage.core.budgets import Budgets
from moorage.core.disruption.ledger import BUDGET
from moorage.core.objects import PodDisruptionBudget
from moorage.core.phrases import counted
from moorage.core.prices import PRICE_LIST, PriceList, PriceTable, format_price
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.census import Census, take_census
from moorage.engine.repacking.emptying import Emptying, EmptyingAims
from moorage.engine.repacking.plans import EmptyingPlan, RoomPlan
from moorage.engine.repacking.room import RoomMaking, waiting_units
from moorage.views.world import World

MOST_UNITS = 16
"""So many pods and gangs that wait are looked at."""
_PAGE_STEPS = 4_000
"""Placements for a page: a second or two."""
MOST_MOVES = 200
"""For one of them."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What fewer nodes in use save an hour, as far as they have a price."""

    currency: str
    micros: int
    without_price: int
    """How many of the nodes have none."""


@dataclass(frozen=True, slots=True)
class RepackView:
    """Both aims, each on the cluster as it is."""

    emptying: EmptyingPlan
    rooms: Sequence[RoomPlan] = ()
    """For units that wait and would find room after moves."""
    helpless: Sequence[str] = ()
    """Units that wait and that moves do not help, as `namespace/name`."""
    saving: Saving | None = None


def repack_view(
    world: Engine,
    budgets: Iterable[PodDisruptionBudget],
    now: float,
    prices: PriceList | None = None,
    aims: EmptyingAims | None = None,
) -> RepackView:
    """Plan on the world's state, which is as before afterwards. Call it between two calls of `handle`."""
    proofs = Proofs(world)
    census = take_census(world.state, Budgets(budgets))
    rooms, helpless = _rooms(world, proofs, census, now)
    plan = Emptying(proofs, census, now, aims).plan()
    saving = None if prices is None else _saving(world.state, prices, plan)
    return RepackView(plan, rooms, helpless, saving)


def _rooms(world: Engine, proofs: Proofs, census: Census, now: float) -> tuple[list[RoomPlan], list[str]]:
    making = RoomMaking(world, proofs, census, now, most_moves=MOST_MOVES)
    found: list[RoomPlan] = []
    helpless: list[str] = []
    for unit, _ in zip(waiting_units(world), range(MOST_UNITS), strict=False):
        plan = making.plan(unit)
        if plan is None:
            helpless.append(unit.key)
        elif plan.moves:
            found.append(plan)
    return found, helpless


def _saving(state: ClusterState, prices: PriceList, plan: EmptyingPlan) -> Saving:
    table = PriceTable(prices.rules)
    micros, without = 0, 0
    for sign, names in ((1, plan.nodes), (-1, plan.filled)):
        for name in names:
            row = state.row_of(name)
            price = None if row is None else table.of(state.node(row).labels)
            without += price is None
            micros += sign * (price or 0)
    return Saving(prices.currency, micros, without)


def repack_page(world: World, now: float) -> dict[str, Any]:
    """The plans for the world of the dashboard, in words and as values; the search is cut short, as others wait."""
    state = world.state
    lists: Mapping[str, PriceList] = state.objects.get(PRICE_LIST, {})
    prices = next((each for each in lists.values() if each.rules), None)
    budgets: Mapping[str, PodDisruptionBudget] = state.objects.get(BUDGET, {})
    view = repack_view(world.engine, budgets.values(), now, prices, EmptyingAims(most_steps=_PAGE_STEPS))
    return {**repack_document(view), "lines": repack_lines(view)}


def repack_document(view: RepackView) -> dict[str, Any]:
    """`repack` of the document of `simulate -o json`."""
    plan, saving = view.emptying, view.saving
    return {
        "moves": [move.document() for move in plan.moves],
        "nodes": list(plan.nodes),
        "filled": list(plan.filled),
        "inUse": plan.in_use,
        "gained": plan.gained,
        "bound": plan.bound,
        "finished": plan.finished,
        "saves": None
        if saving is None
        else {
            "currency": saving.currency,
            "perHour": format_price(saving.micros),
            "withoutPrice": saving.without_price,
        },
        "rooms": [
            {"unit": room.unit, "moves": [move.document() for move in room.moves], "places": dict(room.places)}
            for room in view.rooms
        ],
        "helpless": list(view.helpless),
    }


def repack_lines(view: RepackView) -> list[str]:
    """What it comes to, in words."""
    plan = view.emptying
    done = f"{counted(len(plan.moves), 'move')} would empty {counted(len(plan.nodes), 'node')} of {plan.in_use} in use"
    lines = [f"{done}; no plan can leave more than {plan.bound} fewer in use"]
    if plan.filled:
        lines.append(f"{counted(len(plan.filled), 'node')} that is empty now would get pods: {', '.join(plan.filled)}")
    if not plan.finished:
        lines.append("the search ended at its limit, and there may be a better plan")
    if view.saving is not None:
        money = f"{format_price(view.saving.micros)} {view.saving.currency}".rstrip()
        note = f" ({view.saving.without_price} without a price)" if view.saving.without_price else ""
        lines.append(f"that saves {money} per hour{note}")
    lines += [
        f"{counted(len(room.moves), 'move')} would make room for {room.unit}, which waits: on {_nodes(room)}"
        for room in view.rooms
    ]
    return lines + [f"no moves would make room for {unit}, which waits" for unit in view.helpless]


def _nodes(room: RoomPlan) -> str:
    return ", ".join(dict.fromkeys(room.places.values()))
