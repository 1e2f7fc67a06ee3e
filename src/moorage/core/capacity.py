"""What kind of capacity a node is: spot, which the cloud may take back at short notice, on-demand, or unknown.

Clouds and autoscalers each use their own labels. The first key in the order of `CAPACITY_LABELS` whose value says
something decides; keys that a configuration adds come before them. Values are compared without regard to case.

Invariant: `CapacityTypes.column` equals `of` on the labels of every living row; rows of dead nodes are UNKNOWN, or what
nodes without such a label count as.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from moorage.core.nodecolumn import NodeColumn
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

Capacities: TypeAlias = npt.NDArray[np.int8]
"""One `Capacity` per row, shape (capacity of the state,)."""


class Capacity(IntEnum):
    """Kinds of capacity, as `CapacityTypes.column` numbers them."""

    UNKNOWN = 0
    SPOT = 1
    ON_DEMAND = 2


@dataclass(frozen=True, slots=True)
class CapacityLabel:
    """A node label that tells the capacity, and what its values mean; the values are in lower case."""

    key: str
    spot: frozenset[str] = frozenset({"spot"})
    on_demand: frozenset[str] = frozenset({"on-demand"})

    def type_of(self, value: str) -> Capacity:
        """What a value says."""
        word = value.lower()
        if word in self.spot:
            return Capacity.SPOT
        return Capacity.ON_DEMAND if word in self.on_demand else Capacity.UNKNOWN


CAPACITY_LABELS: tuple[CapacityLabel, ...] = (
    CapacityLabel("node.kubernetes.io/capacity"),
    CapacityLabel("karpenter.sh/capacity-type", on_demand=frozenset({"on-demand", "reserved"})),
    CapacityLabel("eks.amazonaws.com/capacityType", on_demand=frozenset({"on_demand", "capacity_block"})),
    CapacityLabel("cloud.google.com/gke-spot", frozenset({"true"}), frozenset({"false"})),
    CapacityLabel("kubernetes.azure.com/scalesetpriority", on_demand=frozenset({"regular"})),
)
"""The labels that are always read."""


@dataclass(frozen=True, slots=True)
class CapacityAim:
    """On which capacity the pods of a workload should stand."""

    on_demand: int | None
    """How many on on-demand nodes; the others on spot nodes. None: all."""
    last_on_demand: bool = True
    """Whether the last pod should be on an on-demand node when the workload is scaled down to one."""

    @property
    def kept_on_demand(self) -> int | None:
        """How many should be there however far the workload is scaled down; None: all."""
        return None if self.on_demand is None else max(self.on_demand, int(self.last_on_demand))


class CapacityTypes:
    """Tells the capacity of nodes by these labels; `unlabelled` is what nodes count as that say nothing."""

    def __init__(self, more: Iterable[CapacityLabel] = (), unlabelled: Capacity = Capacity.UNKNOWN) -> None:
        """Read `more` labels before those that are always read."""
        self.labels: tuple[CapacityLabel, ...] = (*more, *CAPACITY_LABELS)
        self.unlabelled = unlabelled
        self._column: NodeColumn[np.int8] = NodeColumn()

    def of(self, labels: Mapping[str, str]) -> Capacity:
        """The capacity of a node with these labels."""
        for label in self.labels:
            value = labels.get(label.key)
            found = Capacity.UNKNOWN if value is None else label.type_of(value)
            if found is not Capacity.UNKNOWN:
                return found
        return self.unlabelled

    def column(self, state: ClusterState) -> Capacities:
        """The capacity of every row, int8[state.capacity], kept until a node changes. Do not change the array."""

        def one_row(row: int) -> Capacity:
            return self.of(state.node(row).labels) if state.alive[row] else self.unlabelled

        return self._column.of(state, one_row, lambda: self._all_rows(state))

    def _all_rows(self, state: ClusterState) -> Capacities:
        found: Capacities = np.full(state.capacity, Capacity.UNKNOWN, dtype=np.int8)
        for label in reversed(self.labels):
            column = state.labels.known(label.key)
            if column is not None:
                by_value = np.array([*map(label.type_of, column.values), Capacity.UNKNOWN], dtype=np.int8)
                said = by_value.take(column.ids)
                np.copyto(found, said, where=said != Capacity.UNKNOWN)
        found[found == Capacity.UNKNOWN] = self.unlabelled
        return found
