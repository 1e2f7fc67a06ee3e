"""What the engine tells the outside to do. Adapters carry these out; results come back as events.

Commands of which a second one may be on its way before the first is answered have a `token`, which the answer repeats.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from moorage.core.assignments import Assignment
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.gangrecords import GangRecord
from moorage.core.membership import GangKey
from moorage.core.pods import Condition, Pod
from moorage.core.values import dataclass


class PodRef(NamedTuple):
    """Names one pod beyond doubt."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`, as messages and outputs name a pod."""
        return f"{self.namespace}/{self.name}"


def ref_of(pod: Pod) -> PodRef:
    """Reference to a pod by namespace, name and uid."""
    return PodRef(pod.template.namespace, pod.name, pod.uid)


class Bind(NamedTuple):
    """Bind the pod to the node, with the uid as precondition. Answered by `BindDone`."""

    pod: PodRef
    node: str
    evaluated: int = 0
    """Number of nodes that were looked at, for the log."""
    feasible: int = 0
    """Number of nodes that passed every filter, for the log."""
    extender: int | None = None
    """Place in the configuration of the extender that binds instead of us."""
    annotations: FrozenDict[str, str] = EMPTY
    """Written with the Binding; the API server copies them to the pod."""
    assigned: Assignment | None = None
    """Written to the pod's status before that: without it the pod is not bound."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Evict a pod for another one: condition DisruptionTarget first, then delete with the uid as precondition.

    Answered by `DeleteDone`.
    """

    pod: PodRef
    reason: str
    """Reason of the DisruptionTarget condition, e.g. PreemptionByScheduler."""
    message: str
    preemptor: PodRef | None = None
    """The pod that gets the room."""


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Write a condition, or a gang's record, and/or the nominated node; a token asks for `StatusDone` as the answer."""

    pod: PodRef
    condition: Condition | None = None
    nominated_node: str | None = None
    """A node name sets it, the empty string clears it, None leaves it alone."""
    observed_generation: int = 0
    token: int = 0
    """Identifies the answer to this command; 0 if nothing waits for it, as the watch shows the result."""
    gang_record: GangRecord | None = None
    """Written as the condition."""


class RecordEvent(NamedTuple):
    """Publish a Kubernetes event about a pod or, now and then, a node."""

    pod: PodRef
    type: str
    """Normal or Warning."""
    reason: str
    action: str
    note: str
    reporter: str
    """The profile's schedulerName."""
    related: PodRef | None = None
    kind: str = "Pod"
    """What `pod` names: a Node has no namespace."""


class JsonText(NamedTuple):
    """JSON that stands in a patch as it is; see `wire.patches`."""

    text: str


class Verb(StrEnum):
    """What is done to an object."""

    PATCH = "patch"
    CREATE = "create"
    """Make it, with the patch as its body; one of the name that is there already will do."""
    DELETE = "delete"
    """Delete it, protected or not; one that is gone already will do."""


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Change an object of another kind for a pod, or make or delete one. Answered by `PatchDone`."""

    pod: PodRef
    kind: str
    namespace: str
    """Empty for kinds without namespaces."""
    name: str
    patch: FrozenDict[str, Any]
    """A strategic merge patch; nested values are frozen too (`FrozenDict`, tuples, `JsonText`)."""
    uid: str = ""
    """Precondition: only the object with this uid is changed."""
    resource_version: str = ""
    """Precondition: the object has not changed since this version; empty for none."""
    subresource: str = ""
    """`status`, or empty for the object itself."""
    verb: Verb = Verb.PATCH


@dataclass(frozen=True, slots=True)
class AskExtenders:
    """Ask HTTP extenders which of these nodes will do, and how good they are. Answered by `ExtendersAnswered`."""

    pod: PodRef
    nodes: tuple[str, ...]
    """Nodes that passed every filter."""
    extenders: tuple[int, ...]
    """Places in the configuration, in the order of asking; each one sees the nodes that the one before kept."""
    resource_version: str = ""
    """The version of the pod that was decided on."""
    token: int = 0
    """What the answer to this very question is known by."""


class Victims(NamedTuple):
    """Pods that would have to leave a node for another one, most important first."""

    node: str
    pods: tuple[PodRef, ...]
    violations: int
    """How many of them break a disruption budget."""


@dataclass(frozen=True, slots=True)
class AskPreemption:
    """Ask HTTP extenders which of these evictions will do. Answered by `PreemptionAnswered`."""

    pod: PodRef
    candidates: tuple[Victims, ...]
    extenders: tuple[int, ...]
    """Places in the configuration, in the order of asking; each one sees the candidates that the one before left."""
    resource_version: str = ""
    token: int = 0


@dataclass(frozen=True, slots=True)
class CapacitySet:
    """Pods of a gang that are alike to an autoscaler."""

    pod: PodRef
    """One of them, which the others are like."""
    count: int
    node_labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What nodes must have beside what the pods say themselves: label keys, and the values that will do."""


@dataclass(frozen=True, slots=True)
class RequestCapacity:
    """Ask an autoscaler for nodes for a gang: write its ProvisioningRequest, and say so on its members.

    What is there already will do. Answered by `CapacityDone`.
    """

    pod: PodRef
    """The member that owns what is written."""
    gang: GangKey
    name: str
    """Of the request."""
    class_name: str
    sets: tuple[CapacitySet, ...]
    members: tuple[PodRef, ...]
    """Pods that do not say yet that they consume the request."""


@dataclass(frozen=True, slots=True)
class ReleaseCapacity:
    """Delete a gang's ProvisioningRequest and its PodTemplates. Answered by `CapacityDone`."""

    pod: PodRef
    """The member that owned the request; it may be gone, and its name is not known."""
    gang: GangKey
    name: str
    uid: str
    """Precondition: only the request with this uid is deleted. Empty: there is none, only members that name it."""
    sets: int
    """How many PodTemplates it has."""
    members: tuple[PodRef, ...] = ()
    """Pods that still wait, and say that they consume it: from now on autoscalers look at each of them again."""


Command: TypeAlias = (
    Bind
    | DeletePod
    | PatchPodStatus
    | RecordEvent
    | PatchObject
    | AskExtenders
    | AskPreemption
    | RequestCapacity
    | ReleaseCapacity
)


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Ask the eviction API to end a pod, with the uid as precondition; budgets may refuse. Answered by `EvictDone`."""

    pod: PodRef
    node: str
    """Where it stands; empty for a pod that has found no node."""
    cause: str
    """Why it has to move: `fallback`, `return`, `repair`, `unplaced`."""
    place: str | None = None
    """The node on which a place for its successor was proven, if there is one."""


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Cordon or uncordon a node and write annotations, with the uid as precondition. Answered by `NodePatched`."""

    node: str
    uid: str
    unschedulable: bool | None = None
    """True cordons, False uncordons, None leaves it as it is."""
    annotations: FrozenDict[str, str | None] = field(default_factory=FrozenDict)
    """None removes an annotation."""


@dataclass(frozen=True, slots=True)
class ClearNode:
    """Delete the pods of a node at once, with their uids as precondition, if a read says that the node is gone.

    Not answered: the watch shows what is left.
    """

    node: str
    pods: tuple[PodRef, ...]


KeeperCommand: TypeAlias = EvictPod | PatchNode | ClearNode | DeletePod | PatchPodStatus | PatchObject | RecordEvent
"""What the keeper tells the outside to do."""
