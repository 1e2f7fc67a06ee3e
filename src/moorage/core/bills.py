"""Which nodes are in use, and what nodes cost an hour.

A node is in use while a pod stands on it that would go elsewhere if the node were gone: pods of a DaemonSet and static
pods belong to their node and do not count, and neither do finished pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moorage.core.disruption.ledger import belongs_to_node
from moorage.core.pods import Pod
from moorage.core.prices import PriceList, PriceTable
from moorage.core.state import ClusterState
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Bill:
    """What nodes cost an hour, in millionths; those without a price count nothing and are named."""

    in_use_micros: int
    all_micros: int
    nodes_in_use: int
    without_price: frozenset[str]


def bill(state: ClusterState, prices: PriceList, in_use: Collection[str], without: Collection[str] = ()) -> Bill:
    """What the nodes in use, and all nodes but those in `without`, cost."""
    table = PriceTable(prices.rules)
    unknown: set[str] = set()
    used_micros = all_micros = used = 0
    for row in state.rows().tolist():
        node = state.node(row)
        micros = table.of(node.labels)
        counts, is_used = node.name not in without, node.name in in_use
        if micros is None and (counts or is_used):
            unknown.add(node.name)
        used += is_used
        used_micros += (micros or 0) if is_used else 0
        all_micros += (micros or 0) if counts or is_used else 0
    return Bill(used_micros, all_micros, used, frozenset(unknown))


def keeps_in_use(pod: Pod) -> bool:
    """Whether a pod on a node keeps that node in use."""
    return not pod.finished and not belongs_to_node(pod.template)


def nodes_in_use(pods: Iterable[Pod]) -> set[str]:
    """The nodes that these pods keep in use."""
    return {pod.node for pod in pods if pod.node is not None and keeps_in_use(pod)}


def nodes_in_use_now(state: ClusterState) -> set[str]:
    """The nodes in use in a state."""
    return nodes_in_use(record.pod for row in state.rows().tolist() for record in state.records_on(row))
