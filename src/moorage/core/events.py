"""The events that the engine receives. Adapters create them; `engine.handle` is the only consumer.

Answers say what they answer, so that a late one is not taken for the answer to a newer command: by the command itself,
by its token, by the node of a bind. Where only the pod is named, the answer is true of the pod whichever command it
answers, or the sender waits for the answer before it sends the command again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from moorage.core.commands import PatchNode, PatchObject, Victims
from moorage.core.membership import GangKey
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.trials import TrialRecord
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed; this is also how a bind is confirmed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object of any other kind was added or changed; `value` is the core value of that kind."""

    kind: str
    key: str
    """`namespace/name`, or `name` for kinds without namespaces."""
    value: Any


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object of any other kind was deleted."""

    kind: str
    key: str


class BindOutcome(StrEnum):
    """How a Bind command ended."""

    BOUND = "bound"
    """The pod is bound to the node of the command (by this bind or by another one)."""
    GONE = "gone"
    """The pod does not exist any more, or is another one of the same name."""
    ELSEWHERE = "elsewhere"
    """The pod is bound to another node, `BindDone.node`."""
    FAILED = "failed"
    """The pod is known to be unbound, and the bind may be tried again later."""


@dataclass(frozen=True, slots=True)
class BindDone:
    """The answer to a Bind command."""

    uid: str
    outcome: BindOutcome
    node: str | None = None
    """Where the pod is bound; of a bind that failed, where it was to be bound."""
    message: str = ""

    def outcome_for(self, node: str) -> BindOutcome | None:
        """What this means for a bind to a node: it may be the late answer to an older bind elsewhere, and yet be true.

        None if it says nothing: that the older one failed.
        """
        if self.node is None or self.outcome is BindOutcome.GONE:
            return self.outcome
        if self.outcome is BindOutcome.FAILED:
            return self.outcome if self.node == node else None
        return BindOutcome.BOUND if self.node == node else BindOutcome.ELSEWHERE


@dataclass(frozen=True, slots=True)
class DeleteDone:
    """The answer to a DeletePod command; `ok` is also true when the pod was gone already."""

    uid: str
    ok: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class PatchDone:
    """The answer to a PatchObject command. What the object looks like now comes as ObjectSeen."""

    command: PatchObject
    ok: bool
    message: str = ""
    version: str = ""
    """The version of the object that the write made; empty where that is not known. Of a write that failed: empty if
    it changed nothing, else the version that shows whether it did."""


@dataclass(frozen=True, slots=True)
class StatusDone:
    """The answer to a PatchPodStatus command that asks for one."""

    uid: str
    ok: bool
    message: str = ""
    token: int = 0
    """The command's."""


@dataclass(frozen=True, slots=True)
class CapacityDone:
    """The answer to a RequestCapacity or a ReleaseCapacity command."""

    gang: GangKey
    ok: bool
    message: str = ""
    served: bool = True
    """Whether the server has ProvisioningRequests at all, and lets us write them."""


@dataclass(frozen=True, slots=True)
class ExtendersAnswered:
    """The answer to an AskExtenders command. A node that is neither kept nor named as failed was dropped silently."""

    uid: str
    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Rejected node -> reason that removing pods might change."""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Rejected node -> reason that removing pods cannot change."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """Kept node -> what is added to its total."""
    error: str = ""
    """Set if a required extender failed; nothing else counts then."""
    token: int = 0
    """The question's."""
    heard: tuple[int, ...] = ()
    """The extenders that answered; positions in the configuration."""
    faults: tuple[tuple[int, str], ...] = ()
    """Those without a readable answer, and how they failed, also where that is ignored."""


@dataclass(frozen=True, slots=True)
class PreemptionAnswered:
    """The answer to an AskPreemption command: the candidates that are left, perhaps with other victims."""

    uid: str
    candidates: tuple[Victims, ...] = ()
    error: str = ""
    token: int = 0
    heard: tuple[int, ...] = ()
    faults: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionSlow:
    """A plugin was slow for a pod of a namespace. The engine has no clock, so the loop that runs it sends this
    event.
    """

    namespace: str
    plugin: str
    """Empty where it is not known which one it was."""
    took_s: float


@dataclass(frozen=True, slots=True)
class TermBegan:
    """This process leads from now on; the start of a gang is recorded under this term."""

    term: str


@dataclass(frozen=True, slots=True)
class ConfigurationChanged:
    """Other profiles and settings hold from now on.

    Pods of scheduler names that are new were never taken over, and priorities were read with the old plugins: all pods
    are to be shown again afterwards (PodSeen).
    """

    document: str
    """How the configuration is written down, without secrets. A journal has nothing else of it."""
    profiles: Sequence[Any] = field(default=(), compare=False, repr=False)
    """What the document means: the profiles (`framework.profiles`)."""
    settings: Any = field(default=None, compare=False, repr=False)
    """And the engine's settings."""


@dataclass(frozen=True, slots=True)
class TrialRecalled:
    """What the cluster keeps of the latest trial. A trial of the configuration begins, or goes on, with this event."""

    record: TrialRecord | None = None
    """None: nothing."""


@dataclass(frozen=True, slots=True)
class TrialRefused:
    """The configuration, or the trial in it, was changed to something that cannot be read: a trial ends."""

    message: str


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | ObjectSeen
    | ObjectGone
    | BindDone
    | DeleteDone
    | PatchDone
    | StatusDone
    | CapacityDone
    | ExtendersAnswered
    | PreemptionAnswered
    | DecisionSlow
    | TermBegan
    | ConfigurationChanged
    | TrialRecalled
    | TrialRefused
)


class EvictOutcome(StrEnum):
    """How an EvictPod command ended."""

    EVICTED = "evicted"
    """The pod is being deleted."""
    GONE = "gone"
    """The pod does not exist any more, or is another one of the same name."""
    REFUSED = "refused"
    """A disruption budget does not allow it now; it may later."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EvictDone:
    """The answer to an EvictPod command."""

    uid: str
    outcome: EvictOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodePatched:
    """The answer to a PatchNode command; `ok` is also true when the node is gone."""

    command: PatchNode
    ok: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class WebhookAsked:
    """The webhook that gives new pods their rules was asked whether it answers, as the API server would ask it."""

    problem: str = ""
    """Why it did not; empty if it did."""
    excluded: frozenset[str] | None = None
    """Namespaces whose pods it is not asked about; None where other conditions decide about that."""


KeeperEvent: TypeAlias = Event | EvictDone | NodePatched | WebhookAsked
"""The events that the keeper receives."""
