"""The page of spot capacity: nodes that are about to go away, pods that fell back from them, and the savings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.core.capacity import Capacity
from moorage.engine.keeping import marks
from moorage.views.costs import cost_document
from moorage.views.nodemap import zone_of
from moorage.views.world import World

_WORDS = {Capacity.UNKNOWN: "unknown", Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand"}
_MOST = 500


def spot_page(world: World) -> dict[str, Any]:
    """Notices, moves and savings."""
    return {
        "version": world.versions.spot,
        "capacity": _capacity(world),
        "notices": [*_notices(world)][:_MOST],
        "fallen": [*_fallen(world)][:_MOST],
        "cost": cost_document(world.costs.now()),
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
