"""How much of a cluster's nodes is requested, by capacity type, and what the nodes cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from moorage.core.capacity import Capacity, CapacityTypes
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.prices import PriceList, PriceTable
from moorage.core.state import ClusterState
from moorage.core.values import dataclass

ALL = "all"
NAMES = {Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand", Capacity.UNKNOWN: "unknown"}
"""What outputs call the capacity types."""


@dataclass(slots=True)
class Usage:
    """Sums over some nodes."""

    nodes: int = 0
    pods: int = 0
    cpu_milli: int = 0
    """Requested."""
    allocatable_cpu_milli: int = 0
    memory_bytes: int = 0
    """Requested."""
    allocatable_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """What nodes cost an hour, in millionths; those without a price count nothing and are named."""

    in_use_micros: int
    all_micros: int
    nodes_in_use: int
    without_price: frozenset[str]


def utilisation(state: ClusterState, without: Collection[str] = ()) -> dict[str, Usage]:
    """Capacity type -> sums, and all of them together; nodes in `without` do not count."""
    types = CapacityTypes()
    resources = state.resources
    cpu, memory = CPU_COLUMN, MEMORY_COLUMN
    found = {ALL: Usage()}
    for row, labels in _rows(state, without):
        for name in (ALL, NAMES[types.of(labels)]):
            usage = found.setdefault(name, Usage())
            usage.nodes += 1
            usage.pods += len(state.records_on(row))
            usage.cpu_milli += int(resources.requested[cpu, row])
            usage.allocatable_cpu_milli += int(resources.allocatable[cpu, row])
            usage.memory_bytes += int(resources.requested[memory, row])
            usage.allocatable_memory_bytes += int(resources.allocatable[memory, row])
    return found


def bill(state: ClusterState, prices: PriceList, in_use: Collection[str], without: Collection[str] = ()) -> Bill:
    """What the nodes in use, and all nodes but those in `without`, cost."""
    table = PriceTable(prices.rules)
    unknown: set[str] = set()
    used_micros = all_micros = used = 0
    for row, labels in _rows(state, ()):
        name, micros = state.node(row).name, table.of(labels)
        counts, is_used = name not in without, name in in_use
        if micros is None and (counts or is_used):
            unknown.add(name)
        used += is_used
        used_micros += (micros or 0) if is_used else 0
        all_micros += (micros or 0) if counts or is_used else 0
    return Bill(used_micros, all_micros, used, frozenset(unknown))


def _rows(state: ClusterState, without: Collection[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The living rows and the labels of their nodes."""
    for row in state.rows().tolist():
        node = state.node(row)
        if node.name not in without:
            yield row, dict(node.labels)
