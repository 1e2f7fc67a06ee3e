"""Units that got room in one round exchange nodes, so that each is where its own victims leave.

A round places all of them as if every victim were gone. Without this, each would wait for the victims of many others;
with it, the first starts while those of the later ones are still leaving.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import islice

from moorage.engine.roomparts import Order


def exchange(
    orders: Iterable[Order], looks: Callable[[str], Hashable | None], home_of: Callable[[str], str | None]
) -> None:
    """Let units whose pods all look the same have each other's nodes.

    `looks` is equal for pods that fit on the same nodes, None for one that is like no other; `home_of` is the node that
    a victim leaves.
    """
    groups: dict[Hashable, list[Order]] = {}
    for order in orders:
        kinds = {looks(uid) for uid in order.nodes}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is not None:
            groups.setdefault(kind, []).append(order)
    for group in groups.values():
        if len(group) > 1:
            _share_out(group, home_of)


def _share_out(group: list[Order], home_of: Callable[[str], str | None]) -> None:
    pool = Counter(node for order in group for node in order.nodes.values())
    own: list[list[str]] = []
    for order in group:
        found: list[str] = []
        for uid in order.victims:
            node = home_of(uid)
            if node is not None and pool[node] > 0 and len(found) < len(order.nodes):
                pool[node] -= 1
                found.append(node)
        own.append(found)
    rest = pool.elements()
    for order, found in zip(group, own, strict=True):
        found.extend(islice(rest, len(order.nodes) - len(found)))
        order.nodes.update(zip(order.nodes, found, strict=True))
