"""What repacking would do, as values."""

from __future__ import annotations

from dataclasses import field

from moorage.core.pods import Pod
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A pod, its node, and the node that its profile chooses for its successor."""

    pod: Pod
    source: str
    target: str

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.pod.key} from {self.source} to {self.target}"

    def document(self) -> dict[str, str]:
        """As JSON has it."""
        return {"namespace": self.pod.namespace, "name": self.pod.name, "from": self.source, "to": self.target}


@dataclass(frozen=True, slots=True)
class EmptyingPlan:
    """Moves after which nodes are empty; proven one after the other, in this order."""

    moves: tuple[PlannedMove, ...] = ()
    nodes: tuple[str, ...] = ()
    """The nodes that are empty then, those with the fewest moves first."""
    filled: tuple[str, ...] = ()
    """Nodes that were empty and get pods, as others are worth more."""
    spared: tuple[str, ...] = ()
    """Nodes that were empty and stay so: in the proof they take no pods. A profile that prefers them would leave as
    many nodes in use as before."""
    in_use: int = 0
    """How many nodes are in use before."""
    bound: int = 0
    """No more nodes than these can be empty, whatever is moved; see `bound`."""
    steps: int = 0
    """How many placements were tried."""
    finished: bool = True
    """Whether the search ended by itself, and not at its limit."""

    @property
    def gained(self) -> int:
        """How many nodes fewer are in use then."""
        return len(self.nodes) - len(self.filled)

    @property
    def gain(self) -> float:
        """The same as a share of the nodes in use."""
        return self.gained / self.in_use if self.in_use else 0.0


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """Moves after which a pod or gang that waits finds room; proven one after the other, in this order."""

    unit: str
    """`namespace/name` of the pod or gang."""
    moves: tuple[PlannedMove, ...] = ()
    places: dict[str, str] = field(default_factory=dict)
    """`namespace/name` of each waiting pod -> its node then."""
    steps: int = 0
    nodes: tuple[str, ...] = ()
    """The nodes of the unit, which no other pod may take until the moves are done."""
