"""What the engine tells the outside to do. Adapters carry these out; results come back as events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from moorage.core.pods import Condition


class PodRef(NamedTuple):
    """Names one pod beyond doubt."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod to the node, with the uid as precondition. Answered by `BindDone`."""

    pod: PodRef
    node: str
    evaluated: int = 0
    """Number of nodes that were looked at, for the log."""
    feasible: int = 0
    """Number of nodes that passed every filter, for the log."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Evict a pod for another one: condition DisruptionTarget first, then delete with the uid as precondition.

    Answered by `DeleteDone`.
    """

    pod: PodRef
    reason: str
    """Reason of the DisruptionTarget condition, e.g. PreemptionByScheduler."""
    message: str


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Write a condition and/or the nominated node. Not answered: the watch shows the result."""

    pod: PodRef
    condition: Condition | None = None
    nominated_node: str | None = None
    """A node name sets it, the empty string clears it, None leaves it alone."""
    observed_generation: int = 0


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Publish a Kubernetes event about a pod."""

    pod: PodRef
    type: str
    """Normal or Warning."""
    reason: str
    action: str
    note: str
    reporter: str
    """The profile's schedulerName."""
    related: PodRef | None = None


Command: TypeAlias = Bind | DeletePod | PatchPodStatus | RecordEvent
