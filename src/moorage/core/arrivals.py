"""Nodes that are on their way: Karpenter's NodeClaims without a node, and nodes that are not ready for pods yet.

A node comes up with taints that go when it is ready: of Kubernetes, of Cluster Autoscaler, of Karpenter, and those that
a NodeClaim names as its startup taints. Without them it is the node that it will be. What has been on its way for too
long is not expected any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace

import numpy as np

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.labelnames import HOSTNAME
from moorage.core.nodes import Node
from moorage.core.objects import ClusterWide
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.core.values import dataclass

NODE_CLAIM = "NodeClaim"
PATIENCE_S = 900.0
"""How long a node may take: Karpenter gives a machine up that has not registered after 15 minutes."""
MOST_ARRIVALS = 1000
"""How many are looked at; far more than come at a time."""
_STARTUP = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/unregistered",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cilium.io/agent-not-ready",
)
"""How the keys of taints begin that a node has only while it comes up; not ready is one that is old, too."""
_LEAVING = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")


@dataclass(frozen=True, slots=True)
class NodeClaim(ClusterWide):
    """A node that Karpenter has ordered."""

    name: str
    labels: FrozenDict[str, str] = EMPTY
    """Those that the node will have, as far as they are known."""
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    allocatable: FrozenDict[str, int] = field(default_factory=FrozenDict)
    """Empty until the kind of machine is known."""
    node: str = ""
    """The name of the node, once there is one."""
    deleting: bool = False
    created_s: float = 0.0


def arrivals(state: ClusterState, now: float, patience_s: float = PATIENCE_S) -> list[Node]:
    """The nodes that have been on their way for less than this, as they will be, in the order of their names."""
    claims: Mapping[str, NodeClaim] = state.objects.get(NODE_CLAIM) or {}
    rows = {state.node(row).name: row for row in _tainted(state)}
    found: list[Node] = []
    startup: dict[str, tuple[Taint, ...]] = {}
    for claim in claims.values():
        row = state.row_of(_name(claim))
        if row is None and claim.allocatable and not claim.deleting:
            found.append(_expected(claim))
        elif row is not None and claim.startup_taints:
            startup[_name(claim)] = claim.startup_taints
            rows[_name(claim)] = row
    for name, row in rows.items():
        node = state.node(row)
        comes = ready(node, startup.get(name, ()))
        if comes.taints != node.taints and not node.deleting and not _leaves(node.taints):
            found.append(comes)
    found = [node for node in found if now - node.created_s < patience_s]
    found.sort(key=lambda node: node.name)
    return found[:MOST_ARRIVALS]


def _tainted(state: ClusterState) -> list[int]:
    """Rows of nodes with a taint that nodes have while they come up."""
    sets = state.taints.sets
    ids = [number for number, taints in enumerate(sets) if any(taint.key.startswith(_STARTUP) for taint in taints)]
    rows: list[int] = np.flatnonzero(np.isin(state.taints.ids, ids)).tolist() if ids else []
    return rows


def ready(node: Node, startup: Collection[Taint] = ()) -> Node:
    """A node as it will be when it has come up."""
    own = {taint.key for taint in startup}
    kept = tuple(taint for taint in node.taints if taint.key not in own and not taint.key.startswith(_STARTUP))
    return replace(node, taints=kept, ready=True)


def _expected(claim: NodeClaim) -> Node:
    name = _name(claim)
    labels = claim.labels if HOSTNAME in claim.labels else FrozenDict({**claim.labels, HOSTNAME: name})
    return Node(name, labels=labels, taints=claim.taints, allocatable=claim.allocatable, created_s=claim.created_s)


def _name(claim: NodeClaim) -> str:
    return claim.node or claim.name


def _leaves(taints: Collection[Taint]) -> bool:
    return any(taint.key in _LEAVING for taint in taints)
