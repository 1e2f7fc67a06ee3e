"""How much of a cluster's nodes is requested, by capacity type."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from moorage.core.capacity import Capacity, CapacityTypes
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
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


def _rows(state: ClusterState, without: Collection[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The living rows and the labels of their nodes."""
    for row in state.rows().tolist():
        node = state.node(row)
        if node.name not in without:
            yield row, dict(node.labels)
