"""One more node: which kinds of nodes there are, and how many of one would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from moorage.core.capacity import CAPACITY_LABELS
from moorage.core.edits import AddNode, Edits
from moorage.core.labelnames import HOSTNAME, REGION, ZONE
from moorage.core.nodes import Node
from moorage.core.pods import PodTemplate
from moorage.core.prices import INSTANCE_TYPE
from moorage.core.state import ClusterState

_MOST_KINDS = 24
_FEW_NODES = 200
"""Up to so many nodes any label may tell kinds apart."""
MOST_NODES = 64
_BASE_COST = 5.0
_USUAL = (
    ZONE,
    REGION,
    INSTANCE_TYPE,
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/role",
)
Found = TypeVar("Found")


def kinds_of_nodes(state: ClusterState, template: PodTemplate) -> list[Node]:
    """One node of each kind, the smallest first; nodes differ in kind where a rule could see it."""
    keys = _label_keys(template)
    if state.node_count <= _FEW_NODES:
        keys = sorted({key for row in state.rows() for key in state.node(int(row)).labels} - {HOSTNAME})
    kinds: dict[tuple[object, ...], tuple[int, Node]] = {}
    for row in map(int, state.rows()):
        node = state.node(row)
        kind = (
            node.allocatable,
            tuple(taint for taint in node.taints if not taint.key.startswith("node.kubernetes.io/")),
            tuple(node.labels.get(key) for key in keys),
            node.features if template.features else (),
            _devices_of(state, node) if template.claims or template.asks else (),
        )
        count, first = kinds.get(kind, (0, node))
        kinds[kind] = (count + 1, min(first, node, key=lambda each: each.name))
    common = sorted(kinds.values(), key=lambda item: (-item[0], item[1].name))[:_MOST_KINDS]
    return sorted((node for _, node in common), key=lambda node: (node.allocatable.get("cpu", 0), node.name))


def _devices_of(state: ClusterState, node: Node) -> tuple[object, ...]:
    """What devices a node has of its own."""
    devices = (device for part in state.devices.views.slices_at(node.name) for device in part.devices)
    return tuple(sorted((device.name, hash((device.attributes, device.capacity))) for device in devices))


def _label_keys(template: PodTemplate) -> list[str]:
    keys = {*_USUAL, *(label.key for label in CAPACITY_LABELS), *template.node_selector}
    affinity = template.node_affinity
    for term in () if affinity is None else affinity.required or ():
        keys |= {each.key for each in term.expressions}
    keys |= {constraint.topology_key for constraint in template.spread}
    for pods in (template.pod_affinity, template.pod_anti_affinity):
        keys |= {term.topology_key for term in (() if pods is None else pods.required)}
    return sorted(keys - {HOSTNAME})


def more_nodes(state: ClusterState, like: str, count: int) -> Edits:
    """So many nodes like one, under names that are not in use."""
    names = _free_names(state, like)
    slices = tuple(sorted(part.name for part in state.devices.views.slices_at(like)))
    return tuple(AddNode(like, next(names), slices) for _ in range(count))


def _free_names(state: ClusterState, like: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        name = f"{like}-more-{number}"
        if state.row_of(name) is None:
            yield name


def fewest(enough: Callable[[int], Found | None], most: int = MOST_NODES, above: int = 0) -> Found | None:
    """The answer for the smallest number that is enough: doubled until one is, then narrowed down.

    `above` is a number that is known not to be.
    """
    low, count = above, above + 1
    found = enough(count) if count <= most else None
    while found is None and count < most:
        low, count = count, min(count * 2, most)
        found = enough(count)
    high = count
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        better = enough(middle)
        if better is None:
            low = middle
        else:
            high, found = middle, better
    return found


def growth_cost(count: int, rank: int) -> float:
    """What more nodes cost beside other changes; `rank` is the place of the kind among those from small to large."""
    return _BASE_COST + 0.01 * rank + 0.5 * (count - 1)
