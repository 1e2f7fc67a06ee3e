"""What queues have and may have over time: gauges for the largest queues of a few resources.

At most `MOST_RESOURCES` resources that queues name, and of each at most `MOST_QUEUES` queues: those that have gauges
already for as long as they hold or ask for anything, then those that ask for most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from moorage.core.quantity import fineness
from moorage.core.queuetree import QueueNode, QueueTree
from moorage.core.state import ClusterState
from moorage.views.rings import Rings

USED, SHARE = "used ", "share "
"""Prefixes of the gauges of a resource and a queue: what its pods have, and its fair share."""
MOST_RESOURCES = 4
MOST_QUEUES = 6

Key = tuple[str, str]
"""Resource and queue."""


def name_of(key: Key) -> str:
    """How a gauge is called behind its prefix; names of resources have no spaces."""
    return f"{key[0]} {key[1]}"


class QueueSeries:
    """The gauges of one world."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        names = (name.removeprefix(USED).partition(" ") for name in rings.gauges() if name.startswith(USED))
        self._known: dict[Key, None] = {(resource, queue): None for resource, _, queue in names}

    def gauges(self, state: ClusterState) -> Iterator[tuple[str, float]]:
        """The present values; queues that are not among the largest any more are forgotten."""
        tree = state.queues.settle(state) if state.queues.active else QueueTree()
        found = dict(self._largest(tree))
        for key in [key for key in self._known if key not in found]:
            if self._is_crowded(key, found):
                del self._known[key]
                for prefix in (USED, SHARE):
                    self._rings.forget(prefix + name_of(key))
        self._known |= dict.fromkeys(found)
        for key in self._known:
            node, index = found.get(key), tree.resources.index(key[0]) if key in found else 0
            parts = fineness(key[0])
            yield USED + name_of(key), 0 if node is None else node.allocated[index] / parts
            yield SHARE + name_of(key), 0 if node is None else node.share[index] / parts

    def _is_crowded(self, key: Key, found: dict[Key, QueueNode]) -> bool:
        """Whether there is no place for a queue that has nothing beside those that have."""
        beside = Counter(resource for resource, _ in {*found, *self._known})
        is_idle = all(resource != key[0] for resource, _ in found)
        return beside[key[0]] > MOST_QUEUES or (is_idle and len(beside) > MOST_RESOURCES)

    def _largest(self, tree: QueueTree) -> Iterator[tuple[Key, QueueNode]]:
        asked: Counter[str] = Counter()
        queues: dict[str, list[tuple[bool, int, str, QueueNode]]] = {}
        for node in tree.nodes.values():
            for index, amount in enumerate(node.requested):
                resource = tree.resources[index]
                if amount and resource in node.queue.resources:
                    asked[resource] += 1
                    fresh = (resource, node.name) not in self._known
                    queues.setdefault(resource, []).append((fresh, -amount, node.name, node))
        for resource in sorted(asked, key=lambda each: (-asked[each], each))[:MOST_RESOURCES]:
            for _, _, name, node in sorted(queues[resource], key=lambda each: each[:3])[:MOST_QUEUES]:
                yield (resource, name), node
