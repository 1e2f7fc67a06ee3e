"""How much room a cell has: nodes with room for so many pods of one CPU each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moorage.bench.virtualnodes import VirtualNode

SPARE, ONE_OVER, FULL, SHORT = CAPACITIES = ("spare", "one-over", "full", "short")
"""Room for all pods twice, for one more than there are, for exactly as many, for one fewer."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with the same labels, and for how many pods each has room."""

    name: str
    rooms: Sequence[int]
    labels: Mapping[str, str] = field(default_factory=dict)

    def nodes(self, suffix: str) -> list[VirtualNode]:
        """As the virtual kubelet makes them."""
        return [
            VirtualNode(
                name=f"{self.name}{number}-{suffix}",
                capacity={"cpu": str(room), "memory": f"{room}Gi", "pods": "110"},
                labels=self.labels,
            )
            for number, room in enumerate(self.rooms, start=1)
        ]


def pool(name: str, labels: Mapping[str, str] | None = None, **rooms: Sequence[int]) -> dict[str, Pool]:
    """The same pool with each capacity."""
    return {key.replace("_", "-"): Pool(name, sizes, labels or {}) for key, sizes in rooms.items()}
