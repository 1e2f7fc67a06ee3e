"""A `KeeperConfiguration` as a value: how nodes say that they are about to go, and how much may be moved when.

`KeeperConfiguration()` is what runs with no document: every built-in signal, AWS's two minutes, budgets never broken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from moorage.framework.configuration import Configuration, LeaderElection, WayIn

KEEPER_KIND = "KeeperConfiguration"


class SignalKind(StrEnum):
    """Where a node says it; the values are the field names of the document."""

    TAINT = "taint"
    CONDITION = "condition"
    """A condition of the node's status that is true."""
    CORDON = "cordon"
    """The node is cordoned, and a label or annotation with this key tells why."""


@dataclass(frozen=True, slots=True)
class NodeSignal:
    """One way for a node to say that it is about to go."""

    kind: SignalKind
    key: str
    """Key of the taint, type of the condition, or key of the label or annotation."""
    text: str = ""
    """Must occur in the taint's value, in the condition's reason or message, or in the label's value; empty: any."""
    notice_s: float | None = None
    """How long the node still lives; None for the configuration's notice time."""
    ignored: bool = False
    """Takes back every built-in signal of this kind and key instead of adding one."""
    soft: bool = False
    """The node goes once it has been drained, and not before: pods may ask to be left alone."""


class AtDeadline(StrEnum):
    """What becomes of pods that a budget still holds on their node shortly before it goes."""

    KEEP_BUDGETS = "KeepBudgets"
    """They stay until a budget lets them go, or end with their node."""
    DELETE = "Delete"
    """They are deleted, whatever the budget says, so that they end in an orderly way."""


@dataclass(frozen=True, slots=True)
class KeeperConfiguration(WayIn):
    """What only the keeper needs."""

    kind: str = KEEPER_KIND
    profile: str = ""
    """Judges pods whose scheduler is not one of the profiles; empty: the first."""
    notice_s: float = 120.0
    """How long a node lives after its notice, where the signal does not say otherwise."""
    margin_s: float = 10.0
    """So long before the end it is decided what to do with pods that could not be moved."""
    at_deadline: AtDeadline = AtDeadline.KEEP_BUDGETS
    moves_at_once: int = 50
    """How many pods of nodes that go may be on their way at the same time."""
    return_after_s: float = 600.0
    """How long spot capacity must be back before pods return to it."""
    returns_at_once: int = 2
    repairs_at_once: int = 2
    """How many pods may be on their way at the same time because their workload does not stand as its rule says."""
    move_again_after_s: float = 600.0
    """The loop guard: a pod that came by a move less than this ago is never moved, unless its node goes."""
    signals: tuple[NodeSignal, ...] = ()
    """Beside the built-in ones."""
    leader_election: LeaderElection | None = None
    """None: as the scheduler's, on a lease of the keeper's own."""


def keeper_configuration(configuration: Configuration) -> KeeperConfiguration:
    """What a configuration file says about the keeper, with its leader election worked out."""
    found = configuration.ways_in.get(KEEPER_KIND)
    keeper = found if isinstance(found, KeeperConfiguration) else KeeperConfiguration()
    if keeper.leader_election is not None:
        return keeper
    return replace(keeper, leader_election=configuration.leader_election.on_lease_of("keeper"))
