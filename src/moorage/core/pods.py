"""A pod as placement sees it: identity and status in `Pod`, all that rules may read in a shared `PodTemplate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, replace
from operator import attrgetter

from moorage.core.affinity import NodeAffinity, PodAffinity, SpreadConstraint
from moorage.core.assignments import Assignment
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.gangrecords import GangRecord
from moorage.core.limits import Excess
from moorage.core.membership import GangKey, OwnedMember, gang_key, gang_size
from moorage.core.resources import NO_REQUESTS, Requests
from moorage.core.shareasks import ShareAsk, share_ask
from moorage.core.taints import Toleration
from moorage.core.topologyasks import TopologyAsk
from moorage.core.values import copier, dataclass

DEFAULT_SCHEDULER = "default-scheduler"

PENDING = "Pending"
RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
FINISHED = (SUCCEEDED, FAILED)

PREEMPTION = "PreemptionByScheduler"
"""Reason of the condition DisruptionTarget on a pod that is evicted for another one."""

UNRESOLVED_CLAIM = "?"
"""Starts the name of a ResourceClaim that does not exist yet; no object's name can."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner reference with `controller: true`."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that a container occupies; an empty address means all of them."""

    address: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume that placement depends on: a claim, or a disk that nodes can hold only in certain ways."""

    claim: str | None = None
    """Name of the PersistentVolumeClaim; for generic ephemeral volumes `<pod>-<volume>`."""
    ephemeral: bool = False
    disk: tuple[str, str, bool] | None = None
    """(kind, identity, read only) of an in-tree disk; VolumeRestrictions and NodeVolumeLimits look at some kinds."""
    csi_driver: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """What a container requests of resources that classes of devices may back."""

    index: int
    """Its place among init and main containers."""
    name: str
    brief: bool
    """Whether it ends before the main containers start."""
    requests: tuple[tuple[str, int, int], ...]
    """Resources, their places among the names of all that the container requests, and amounts."""
    init: bool = False
    """Whether it is an init container, sidecars included."""

    def amount(self, resource: str) -> int:
        """How much of a resource it requests."""
        return next((amount for name, _, amount in self.requests if name == resource), 0)

    def place(self, resource: str) -> int:
        """The place of a resource among the names of all that the container requests, sorted."""
        return next(place for name, place, _ in self.requests if name == resource)


_TEMPLATE_BYTES, _PART_BYTES = 1024, 128


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodTemplate:
    """Everything of a pod that a placement rule may read. Equal pods share one template (see `intern`)."""

    namespace: str = "default"
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    requests: Requests = NO_REQUESTS
    node_selector: FrozenDict[str, str] = EMPTY
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    """Normalised image names, one entry per container (duplicates kept), then image volumes."""
    container_count: int = 1
    """Init and main containers and image volumes; ImageLocality's thresholds scale with it."""
    volumes: tuple[PodVolume, ...] = ()
    claims: tuple[str, ...] = ()
    """Names of ResourceClaims; `UNRESOLVED_CLAIM` and the pod's own name for it while one is still to be made."""
    made_claims: tuple[str, ...] = ()
    """Of these, the claims that were made for the pod, from templates."""
    asks: tuple[ContainerAsk, ...] = ()
    """What containers request of extended resources, container by container; empty if they request none."""
    group: str | None = None
    """spec.schedulingGroup.podGroupName."""
    host_network: bool = False
    features: tuple[str, ...] = ()
    """Node features that the pod needs (NodeDeclaredFeatures), sorted."""
    topology: TopologyAsk | None = None
    """What its annotations ask of the levels of a Topology, for the members of its gang with the same role."""
    limits: tuple[tuple[str, int], ...] = ()
    """What the containers may use at most, by resource name, sorted; no rule reads it, metrics tell it."""
    excess: tuple[Excess, ...] = ()
    """What was cut off because it is beyond a limit; with any of it, a pod that waits is not scheduled."""
    owned: OwnedMember | None = None
    """The gang that follows from the pod's owners (`core.ownerchains`), for a pod that names none itself."""
    gang: GangKey | None = field(default=None, init=False, compare=False, repr=False)
    """The gang that the pod is in: the one that it names, whichever way, else that of its owners."""
    gang_size: int | None = field(default=None, init=False, compare=False, repr=False)
    """How many members of the gang that it names must be placed together, if an annotation says so."""
    share: ShareAsk | None = field(default=None, init=False, compare=False, repr=False)
    """What it asks for of devices that pods may share, in whichever words."""
    size: int = field(default=0, init=False, compare=False, repr=False)
    """Its approximate size in bytes, for caches."""
    _hash: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_compared(self)))
        object.__setattr__(self, "size", _size_of(self))
        gang = gang_key(self.namespace, self.group, self.labels, self.annotations)
        if gang is not None:
            object.__setattr__(self, "gang_size", gang_size(self.annotations))
        elif self.owned is not None:
            gang = self.owned.gang
        object.__setattr__(self, "gang", gang)
        if self.annotations or self.asks:
            object.__setattr__(self, "share", share_ask(self.annotations, self.requests, self.asks))

    def __hash__(self) -> int:
        return self._hash

    @property
    def has_pod_terms(self) -> bool:
        """Whether the pod says something about the pods around it."""
        return self.pod_affinity is not None or self.pod_anti_affinity is not None


_compared = attrgetter(*(each.name for each in fields(PodTemplate) if each.compare and each.name != "owned"))
"""The fields of a template that its hash is made of: all that count for equality, but for what others say of it."""


with_owned: Callable[[PodTemplate, OwnedMember, GangKey], PodTemplate] = copier(PodTemplate, "owned", "gang")
"""The template of a pod that names no gang, with the one that follows from its owners.

What was computed from the other fields stays true, and is not computed again: many a pod has a template of its own.
"""


def _size_of(template: PodTemplate) -> int:
    """About its bytes: everything that a tenant may write many of counts."""
    lists = (
        template.labels, template.annotations, template.node_selector, template.tolerations, template.host_ports,
        template.images, template.volumes, template.claims, template.requests.amounts, template.limits,
        *(ask.requests for ask in template.asks),
    )  # fmt: skip
    parts = sum(map(len, lists)) + sum(each.parts for each in template.spread)
    for affinity in (template.node_affinity, template.pod_affinity, template.pod_anti_affinity):
        if affinity is not None:
            parts += affinity.parts
    return _TEMPLATE_BYTES + _PART_BYTES * parts + sum(map(len, template.annotations.values()))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the pod's status, as far as the scheduler compares it before writing."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """One pod at one resource version. `uid` is its identity."""

    uid: str
    name: str
    template: PodTemplate
    node: str | None = None
    nominated_node: str | None = None
    phase: str = PENDING
    gates: tuple[str, ...] = ()
    requests: Requests = NO_REQUESTS
    """Of a bound pod the larger of spec, allocated and actual; otherwise the template's."""
    created_s: float = 0.0
    started_s: float | None = None
    deleted_s: float | None = None
    """Time of the deletion mark, None while the pod is not being deleted."""
    scheduled_condition: Condition | None = None
    """The PodScheduled condition, if any."""
    generation: int = 0
    resource_version: str = ""
    preempted: bool = False
    """Whether a scheduler evicts it for another pod (condition DisruptionTarget, reason PreemptionByScheduler)."""
    scheduled_s: float | None = None
    """Since when the PodScheduled condition is true; None while it is not, or if that is unknown."""
    gang_record: GangRecord | None = None
    """The record of the start of its gang, if it carries that."""
    ready: bool = True
    """Whether the condition Ready is true; budgets count those pods only."""
    devices: tuple[int, ...] = ()
    """Indices of the shared devices that a bound pod has by its annotations, ascending, which anybody may have written
    who may edit the pod; empty if they do not say."""
    ends_s: float | None = None
    """When it has ended at the latest, by its activeDeadlineSeconds; None if it has none, or has not started."""
    assigned: Assignment | None = None
    """The shared devices that the scheduler gave it with its node; None if it did not, or that is not known."""

    @property
    def share(self) -> ShareAsk | None:
        """What it takes of shared devices: what it was given, or else what it asks for."""
        return self.template.share if self.assigned is None else self.assigned.ask

    @property
    def namespace(self) -> str:
        """The namespace, which is part of the template."""
        return self.template.namespace

    @property
    def key(self) -> str:
        """`namespace/name`, as messages and outputs name a pod."""
        return f"{self.template.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether the pod has run to its end and holds nothing on its node any more."""
        return self.phase in FINISHED


def named_claims(template: PodTemplate) -> list[str]:
    """The claims that such a pod names, in its order; claims of ephemeral volumes are made for it and do not count."""
    return [volume.claim for volume in template.volumes if volume.claim is not None and not volume.ephemeral]


def names_claim(template: PodTemplate, key: str) -> bool:
    """Whether such a pod names the claim with this key."""
    return any(f"{template.namespace}/{name}" == key for name in named_claims(template))


with_template: Callable[[Pod, PodTemplate], Pod] = copier(Pod, "template")
"""The pod with another template."""


def on_node(pod: Pod, node: str) -> Pod:
    """The pod as it is known once it has been bound."""
    made: Pod = _copy_bound(pod, node, None, (), None, None)
    return made


_copy_bound = copier(Pod, "node", "nominated_node", "gates", "scheduled_condition", "scheduled_s")


def as_pending(pod: Pod) -> Pod:
    """The pod as if it had no node and had never had one; its gates stay, as only a pod without a node has any."""
    return replace(
        pod,
        node=None,
        nominated_node=None,
        phase=PENDING,
        requests=pod.template.requests,
        started_s=None,
        deleted_s=None,
        scheduled_condition=None,
        scheduled_s=None,
        preempted=False,
        devices=(),
        assigned=None,
    )
