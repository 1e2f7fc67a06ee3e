"""Levels of the network: Topology, Moorage's own and Kueue's and KAI's as the same value; Volcano's HyperNodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

TOPOLOGY = "Topology"
KUEUE_TOPOLOGY = "Topology.kueue.x-k8s.io"
KAI_TOPOLOGY = "Topology.kai.scheduler"
HYPER_NODE = "HyperNode"
TOPOLOGY_KINDS = (TOPOLOGY, KUEUE_TOPOLOGY, KAI_TOPOLOGY)
LEVEL_KINDS = frozenset({*TOPOLOGY_KINDS, HYPER_NODE})
"""Everything that defines levels."""

HOSTNAME = "kubernetes.io/hostname"
TIER = "volcano.sh/tier-"
"""Begins the name of a level that HyperNodes of one tier make up."""


@dataclass(frozen=True, slots=True)
class Topology(ClusterWide):
    """Levels of the network as keys of node labels."""

    name: str
    levels: tuple[str, ...] = ()
    """The widest first."""


class NodeMatch(NamedTuple):
    """Which nodes, or HyperNodes, are members of a HyperNode."""

    nodes: bool
    """Nodes; otherwise HyperNodes."""
    name: str = ""
    pattern: str = ""
    labels: FrozenDict[str, str] = EMPTY

    def matches(self, name: str, labels: FrozenDict[str, str]) -> bool:
        """Whether one with this name and these labels is a member."""
        if self.name:
            return name == self.name
        if self.pattern:
            return re.search(self.pattern, name) is not None
        return bool(self.labels) and all(labels.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class HyperNode(ClusterWide):
    """A domain of Volcano: nodes, or HyperNodes of a lower tier."""

    name: str
    tier: int = 1
    """1 is closest."""
    tier_name: str = ""
    members: tuple[NodeMatch, ...] = ()
    labels: FrozenDict[str, str] = EMPTY


class Levels(NamedTuple):
    """The levels that a gang is placed by."""

    keys: tuple[str, ...]
    """The widest first."""
    hyper: bool = False
    """Whether HyperNodes make them up, and not labels."""


def tier_level(tier: int) -> str:
    """The name of the level that HyperNodes of a tier make up."""
    return f"{TIER}{tier}"


def known_levels(state: ClusterState) -> dict[str, Levels]:
    """The levels of every Topology by name; HyperNodes together are one without a name."""
    found: dict[str, Levels] = {}
    for kind in TOPOLOGY_KINDS:
        for topology in state.objects.get(kind, {}).values():
            if topology.levels:
                found.setdefault(topology.name, Levels(topology.levels))
    hyper_nodes = state.objects.get(HYPER_NODE)
    if hyper_nodes:
        tiers = sorted({each.tier for each in hyper_nodes.values()}, reverse=True)
        found.setdefault("", Levels(tuple(map(tier_level, tiers)), hyper=True))
    return found


def has_levels(state: ClusterState) -> bool:
    """Whether any Topology or HyperNode is known."""
    return any(map(state.objects.get, LEVEL_KINDS))
