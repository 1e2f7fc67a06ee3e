"""Single changes of Kubernetes objects that a what-if may try, as values: what to change, never how it is written.

`moorage.engine.counterfactual` looks for them, `moorage.wire.rewriting` makes changed objects of them. Those about the
pod in question name no object; all others do. Positions are those of the lists in the pod's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias, get_args

from moorage.core.nodes import Node
from moorage.core.pods import HostPort, Pod, PodVolume
from moorage.core.queues import QUEUE
from moorage.core.taints import Taint
from moorage.core.values import dataclass

# --- the pod in question ---


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """The pod takes no more than this of a resource; cpu in milli, the rest in whole units, overhead included."""

    resource: str
    amount: int


@dataclass(frozen=True, slots=True)
class Tolerate:
    """The pod tolerates a taint."""

    taint: Taint


@dataclass(frozen=True, slots=True)
class DropSelector:
    """The pod's nodeSelector loses a key."""

    key: str


@dataclass(frozen=True, slots=True)
class DropNodeRules:
    """A required term of the node affinity loses the requirements on these keys; None: all terms go."""

    term: int | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropPodRule:
    """The pod loses a required term of its pod affinity, or of its anti-affinity."""

    index: int
    anti: bool


@dataclass(frozen=True, slots=True)
class RelaxSpread:
    """A topology spread constraint gets another maxSkew or minDomains; neither: it becomes a preference."""

    index: int
    max_skew: int | None = None
    min_domains: int | None = None


@dataclass(frozen=True, slots=True)
class DropHostPort:
    """The pod does not occupy a port of its node any more."""

    port: HostPort


@dataclass(frozen=True, slots=True)
class DropLabel:
    """The pod loses a label, and with it the rules of other pods that select it."""

    key: str


@dataclass(frozen=True, slots=True)
class DropVolume:
    """The pod loses a volume that placement depends on, and the mounts of it."""

    volume: PodVolume


@dataclass(frozen=True, slots=True)
class DropDevices:
    """The pod loses its claims of devices."""


@dataclass(frozen=True, slots=True)
class OpenGates:
    """The pod loses its scheduling gates."""


@dataclass(frozen=True, slots=True)
class UseScheduler:
    """Another scheduler is responsible for the pod."""

    name: str


@dataclass(frozen=True, slots=True)
class DropAnnotations:
    """The pod loses annotations."""

    keys: tuple[str, ...]


# --- nodes ---


@dataclass(frozen=True, slots=True)
class Uncordon:
    """A node takes pods again."""

    node: str


@dataclass(frozen=True, slots=True)
class DropTaint:
    """A node loses a taint."""

    node: str
    taint: Taint


@dataclass(frozen=True, slots=True)
class SetNodeLabel:
    """A node gets a label, or loses it if the value is None."""

    node: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AddNode:
    """One more node, as this one is while it is empty."""

    like: str
    name: str
    slices: tuple[str, ...] = ()
    """ResourceSlices with devices of the node that it is like, which it has of its own."""


# --- others ---


@dataclass(frozen=True, slots=True)
class MovePod:
    """A pod stands on another node."""

    namespace: str
    name: str
    uid: str
    node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """An object gets an annotation, or loses it if the value is None."""

    kind: str
    namespace: str
    name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AddClaim:
    """A PersistentVolumeClaim that does not exist is made, in a storage class."""

    namespace: str
    name: str
    storage_class: str


@dataclass(frozen=True, slots=True)
class ShrinkGang:
    """Fewer members of a gang must stand together."""

    kind: str
    namespace: str
    name: str
    min_count: int


# --- claims for devices: the request is `request`, or `request/alternative` ---


@dataclass(frozen=True, slots=True)
class SetSelector:
    """A selector of a request becomes another expression, or goes if that is empty."""

    namespace: str
    claim: str
    request: str
    index: int
    expression: str
    gist: str
    """What that comes to, in words."""


@dataclass(frozen=True, slots=True)
class TolerateDevice:
    """A request tolerates a taint of devices."""

    namespace: str
    claim: str
    request: str
    taint: Taint


@dataclass(frozen=True, slots=True)
class LowerCount:
    """A request asks for fewer devices."""

    namespace: str
    claim: str
    request: str
    count: int


@dataclass(frozen=True, slots=True)
class LowerCapacity:
    """A request asks for less of a capacity."""

    namespace: str
    claim: str
    request: str
    capacity: str
    amount: str


@dataclass(frozen=True, slots=True)
class AddAlternative:
    """A request takes as many devices of another class, if it cannot have what it asks for."""

    namespace: str
    claim: str
    request: str
    device_class: str


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """A claim loses a constraint."""

    namespace: str
    claim: str
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class FreeClaim:
    """A claim gives its devices back, and the pods that use them have finished."""

    namespace: str
    claim: str
    devices: tuple[str, ...]
    """What it holds, in words."""
    pods: tuple[str, ...] = ()
    """In the claim's namespace."""


@dataclass(frozen=True, slots=True)
class RaiseBound:
    """A queue gets a larger quota, limit or weight of a resource."""

    queue: str
    bound: str
    """`quota`, `limit` or `weight`."""
    resource: str
    before: int
    amount: int
    """Of a weight in thousandths, else a fine amount, as `before` is."""
    kind: str = QUEUE
    """Of the queue: one of `QUEUE_KINDS`."""


class EndedPod(NamedTuple):
    """A pod that has done its work."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """A running job ends: its pods have finished, and the Jobs that made them are complete."""

    title: str
    """The job, in words."""
    namespace: str
    pods: tuple[EndedPod, ...]
    jobs: tuple[str, ...] = ()
    """Names of Job objects."""
    ends_s: float | None = None
    """When that will have happened at the latest; None if nobody knows."""


PodEdit: TypeAlias = (
    LowerRequest
    | Tolerate
    | DropSelector
    | DropNodeRules
    | DropPodRule
    | RelaxSpread
    | DropHostPort
    | DropLabel
    | DropVolume
    | DropDevices
    | OpenGates
    | UseScheduler
    | DropAnnotations
)
NodeEdit: TypeAlias = Uncordon | DropTaint | SetNodeLabel
ClaimEdit: TypeAlias = (
    SetSelector | TolerateDevice | LowerCount | LowerCapacity | AddAlternative | DropConstraint | FreeClaim
)
Edit: TypeAlias = (
    PodEdit | NodeEdit | AddNode | MovePod | Annotate | AddClaim | ShrinkGang | RaiseBound | EndJob | ClaimEdit
)
Edits: TypeAlias = tuple[Edit, ...]

POD_EDITS: tuple[type[PodEdit], ...] = get_args(PodEdit)
NODE_EDITS: tuple[type[NodeEdit], ...] = get_args(NodeEdit)
CLAIM_EDITS: tuple[type[ClaimEdit], ...] = get_args(ClaimEdit)


@dataclass(slots=True)
class Changed:
    """What edits come to: the complete objects, and the values that replace the known ones in a state."""

    documents: list[Mapping[str, Any]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    """The pod in question and those that change with it, with the uids that they have."""
    standing: list[Pod] = field(default_factory=list)
    """Pods on nodes, where they stand now."""
    objects: list[tuple[str, str, Any]] = field(default_factory=list)
    """Kind, key and value of others."""
