"""The page of spot capacity: nodes that are about to go away, pods that fell back from them, and the savings.

The savings are the difference between what the spot nodes in use cost and what the same nodes would cost on demand, as
far as the price list has both. A node is in use while it has a pod that would need another node if it were gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.core.capacity import CAPACITY_LABELS, Capacity
from moorage.core.nodes import Node
from moorage.core.objects import DAEMON_SET
from moorage.core.prices import PRICE_LIST, PriceList, PriceTable
from moorage.engine.keeping import marks
from moorage.views.nodemap import zone_of
from moorage.views.world import World

_OF_THEIR_NODE = (DAEMON_SET, "Node")
_WORDS = {Capacity.UNKNOWN: "unknown", Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand"}
_MOST = 500


def spot_page(world: World) -> dict[str, Any]:
    """Notices, moves and savings."""
    return {
        "version": world.versions.spot,
        "capacity": _capacity(world),
        "notices": [*_notices(world)][:_MOST],
        "fallen": [*_fallen(world)][:_MOST],
        "cost": _cost(world),
    }


def _capacity(world: World) -> list[dict[str, Any]]:
    state = world.state
    rows = {kind: {"kind": _WORDS[kind], "nodes": 0, "pods": 0} for kind in (Capacity.SPOT, Capacity.ON_DEMAND)}
    rows[Capacity.UNKNOWN] = {"kind": _WORDS[Capacity.UNKNOWN], "nodes": 0, "pods": 0}
    kinds = world.types.column(state)
    for row in state.rows().tolist():
        line: dict[str, Any] = rows[Capacity(int(kinds[row]))]
        line["nodes"] += 1
        line["pods"] += len(state.records_on(row))
    return [*rows.values()]


def _notices(world: World) -> Iterator[dict[str, Any]]:
    for name, notices in world.notices.items():
        node, row = world.node(name), world.state.row_of(name)
        if node is None or row is None:
            continue
        yield {
            "node": name,
            "zone": zone_of(node),
            "capacity": _WORDS[world.types.of(node.labels)],
            "words": [each.words for each in notices],
            "since": marks.time_s(node, marks.SINCE),
            "until": marks.time_s(node, marks.UNTIL),
            "pods": len(world.state.records_on(row)),
        }


def _fallen(world: World) -> Iterator[dict[str, Any]]:
    for uid in world.fallen:
        pod = world.pods.get(uid)
        if pod is not None:
            origin = pod.template.annotations.get(marks.FALLBACK, "")
            yield {"pod": pod.key, "from": origin, "node": pod.node or ""}


def _cost(world: World) -> dict[str, Any] | None:
    """Millionths of a currency per hour; None without prices."""
    lists: Mapping[str, PriceList] = world.state.objects.get(PRICE_LIST, {})
    found = next((each for each in lists.values() if each.rules), None)
    if found is None:
        return None
    table = PriceTable(found.rules)
    total = spot = on_demand = unknown = used = 0
    for node in _in_use(world):
        used += 1
        price = table.of(node.labels)
        if price is None:
            unknown += 1
            continue
        total += price
        instead = table.of(_on_demand(node)) if world.types.of(node.labels) is Capacity.SPOT else None
        if instead is not None:
            spot += price
            on_demand += instead
    return {
        "currency": found.currency,
        "total": total,
        "spot": spot,
        "spot_on_demand": on_demand,
        "saved": on_demand - spot,
        "nodes": used,
        "without_price": unknown,
        "stale": found.stale,
    }


def _in_use(world: World) -> Iterator[Node]:
    state = world.state
    for row in state.rows().tolist():
        owners = (record.pod.template.owner for record in state.records_on(row))
        if any(owner is None or owner.kind not in _OF_THEIR_NODE for owner in owners):
            yield state.node(row)


def _on_demand(node: Node) -> dict[str, str]:
    """The labels of the same node, bought on demand."""
    labels = dict(node.labels)
    for label in CAPACITY_LABELS:
        if label.key in labels:
            labels[label.key] = min(label.on_demand)
    return labels
