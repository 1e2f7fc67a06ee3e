"""What a simulation found out, as values: the stories of the pods and the load of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.core.membership import GangKey
from moorage.core.objects import object_key
from moorage.core.prices import PriceList
from moorage.core.queueaccounts import QueueAccount
from moorage.core.state import ClusterState
from moorage.core.trials import Side
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.framework.gangplans import GangPlan
from moorage.sim.costs import Cost
from moorage.sim.explanations import Explanations
from moorage.views.trials import TrialAccount


@dataclass(slots=True)
class PodStory:
    """What became of a pod that was pending at the start, or came up since."""

    uid: str
    namespace: str
    name: str
    scheduler_name: str
    place: tuple[int, int]
    owned: bool
    node: str | None = None
    nominated_node: str | None = None
    victims: list[str] = field(default_factory=list)
    message: str | None = None
    devices: tuple[int, ...] = ()
    """Indices of the shared devices that it got."""
    side: Side | None = None
    """Of a trial; None if there is none for such pods."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What stands on a node in the end."""

    pods: int
    requested: Mapping[str, str]
    """Resource -> canonical quantity; cpu and memory always, others where something is requested."""


@dataclass(frozen=True, slots=True)
class FinalCluster:
    """The cluster as the simulation left it, for further inspection; do not change it."""

    cluster: EmbeddedCluster
    engine: Engine
    """What decided, at rest."""
    prices: PriceList | None = None
    """What figures are computed with."""

    @property
    def state(self) -> ClusterState:
        """The engine's."""
        return self.engine.state


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The whole result of a simulation."""

    pods: Sequence[PodStory]
    """In the order of the input."""
    evictions: Sequence[str]
    nodes: Mapping[str, NodeLoad]
    ignored: Mapping[str, int]
    warnings: Sequence[str]
    explanations: Explanations | None = None
    cost: Cost | None = None
    """None without prices."""
    world: FinalCluster | None = None
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`namespace/name` of every ResourceClaim -> its status."""
    special_claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`namespace/name` of pods with a special claim for extended resources -> what their status says of it."""
    queues: Sequence[QueueAccount] = ()
    """What every queue has, may have and waits for in the end; each before the queues below it."""
    plans: Mapping[GangKey, GangPlan] = field(default_factory=dict)
    """Where the levels of a topology wanted gangs."""
    trial: TrialAccount | None = None
    """How a trial stands in the end; None without one."""

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return sum(1 for pod in self.pods if pod.node is None)
