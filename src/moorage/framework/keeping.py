"""A `KeeperConfiguration` as a value: which signals say that a node is about to leave, and how many pods may be moved.

`KeeperConfiguration()` is used if there is no document: all built-in signals, AWS's two minutes of notice, budgets
never violated.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from moorage.core.values import dataclass
from moorage.framework.configuration import ComponentConfiguration, Configuration, LeaderElection

KEEPER_KIND = "KeeperConfiguration"


class SignalKind(StrEnum):
    """Where the signal is found; the values are the field names of the document."""

    TAINT = "taint"
    CONDITION = "condition"
    """A condition of the node's status that is true."""
    CORDON = "cordon"
    """The node is cordoned, and a label or annotation with this key says why."""


@dataclass(frozen=True, slots=True)
class NodeSignal:
    """A signal that a node is about to leave."""

    kind: SignalKind
    key: str
    """Key of the taint, type of the condition, or key of the label or annotation."""
    text: str = ""
    """Must occur in the taint's value, in the condition's reason or message, or in the label's value; empty: any."""
    notice_s: float | None = None
    """How long the node will still exist; None for the configuration's notice time."""
    ignored: bool = False
    """Disables the built-in signals of this kind and key instead of adding one."""
    soft: bool = False
    """The node leaves only once it has been drained, so pods may opt out of being moved."""


class AtDeadline(StrEnum):
    """What happens to pods that a budget still keeps on their node shortly before it leaves."""

    KEEP_BUDGETS = "KeepBudgets"
    """They stay until the budget allows their eviction, or end with their node."""
    DELETE = "Delete"
    """They are deleted regardless of the budget, so that they terminate gracefully."""


class RepackAim(StrEnum):
    """What pods are moved for."""

    ROOM = "Room"
    """So that a pod or gang that waits finds room."""
    EMPTY = "Empty"
    """So that nodes become empty."""


@dataclass(frozen=True, slots=True)
class Repacking:
    """How the keeper repacks a cluster."""

    aims: tuple[RepackAim, ...] = (RepackAim.ROOM, RepackAim.EMPTY)
    least_gain: float = 0.05
    """Share of the nodes in use that a plan has to empty."""
    nodes_at_once: int = 10
    """How many nodes a plan empties; they take no other pods meanwhile."""
    moves_at_once: int = 1
    moves_per_hour: int = 60
    most_moves: int = 50
    """How many pods may be moved to make room for one pod or gang."""
    settle_s: float = 60.0
    """How long a pod must have waited before others are moved for it, and no pod must have waited before nodes are
    emptied."""
    rest_s: float = 3600.0
    """How long nothing is planned after a plan did not bring what it promised."""


@dataclass(frozen=True, slots=True)
class KeeperConfiguration(ComponentConfiguration):
    """Settings of the keeper."""

    kind: str = KEEPER_KIND
    profile: str = ""
    """The profile used for pods of schedulers that are not among the profiles; empty: the first."""
    notice_s: float = 120.0
    """How long a node exists after its notice, unless the signal says otherwise."""
    margin_s: float = 10.0
    """How long before the end the remaining pods are dealt with as `at_deadline` says."""
    at_deadline: AtDeadline = AtDeadline.KEEP_BUDGETS
    moves_at_once: int = 50
    """How many pods of leaving nodes may be moved at the same time, of a namespace that is alone. Here and below,
    namespaces share twice as many fairly (see `core.shares`): pods of one that do not start hold up no other."""
    return_after_s: float = 600.0
    """How long spot capacity must be back before pods return to it."""
    returns_at_once: int = 2
    move_singles: bool = False
    """Whether the only replica of a workload may be moved because it stands on the wrong capacity."""
    repairs_at_once: int = 2
    """How many pods may be moved at the same time because their workload deviates from its rule."""
    fallback_s: float = 60.0
    """How long pods wait for a node that has the labels of their rule before they are replaced."""
    move_again_after_s: float = 600.0
    """The loop guard: a pod that was moved less than this ago is not moved again, unless its node leaves."""
    repack: Repacking | None = None
    """None: the cluster is not repacked."""
    signals: tuple[NodeSignal, ...] = ()
    """In addition to the built-in ones."""
    leader_election: LeaderElection | None = None
    """None: as the scheduler's, with a lease of its own."""


def keeper_configuration(configuration: Configuration) -> KeeperConfiguration:
    """The keeper's settings of a configuration file, with its leader election resolved."""
    keeper = configuration.component(KeeperConfiguration())
    election = keeper.leader_election or configuration.leader_election.on_lease_of("keeper")
    return replace(keeper, leader_election=election)
