"""The objects around pods and nodes, as far as placement reads them: workloads, services, budgets, classes, groups.

What volumes and devices need is in `volumes` and `claims`. Every value has the `key` under which `ObjectSeen` names it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.pods import Owner
from moorage.core.selectors import NOTHING, Selector
from moorage.core.strategy_syntax import Strategy, SyntaxRefusal
from moorage.core.taints import Toleration
from moorage.core.topologyasks import SubGroup, TopologyAsk
from moorage.core.values import dataclass

NAMESPACE = "Namespace"
SERVICE = "Service"
PLACEMENT_POLICY = "PlacementPolicy"
DEPLOYMENT = "Deployment"
REPLICA_SET = "ReplicaSet"
REPLICATION_CONTROLLER = "ReplicationController"
STATEFUL_SET = "StatefulSet"
DAEMON_SET = "DaemonSet"
JOB = "Job"
CRON_JOB = "CronJob"

NATIVE_GROUPS = "scheduling.k8s.io"
"""API group of Kubernetes' own PodGroup."""
COSCHEDULING_GROUPS = "scheduling.x-k8s.io"
"""API group of the coscheduling CRD of the same name."""
KAI_GROUPS = "scheduling.run.ai"
"""API group of KAI's PodGroup."""
VOLCANO_GROUPS = "scheduling.volcano.sh"
"""API group of Volcano's PodGroup."""
GROVE_GROUPS = "scheduler.grove.io"
"""API group of Grove's PodGang."""
OWNED_KIND = "PodGroup.owned"
"""What events call the groups that no object of the cluster is, as they follow from the owners of pods."""
OWNED_GROUPS = "owned"
"""Stands for their API group."""

NO_RULES = SyntaxRefusal(())
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def object_key(namespace: str, name: str) -> str:
    """`namespace/name`, or `name` for an object without namespace."""
    return f"{namespace}/{name}" if namespace else name


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


class _HasPlace(_HasName, Protocol):
    @property
    def namespace(self) -> str: ...


class ClusterWide:
    """A value of a kind without namespaces."""

    __slots__ = ()

    @property
    def key(self: _HasName) -> str:
        """The name."""
        return self.name


class Namespaced:
    """A value of a kind with namespaces."""

    __slots__ = ()

    @property
    def key(self: _HasPlace) -> str:
        """`namespace/name`."""
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Workload(Namespaced):
    """A controller that makes pods; a CronJob shows the numbers of the Job that it would make next."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    selector: Selector | None = None
    """None where the object has none (CronJobs; Jobs before the API server gave them one)."""
    template_labels: FrozenDict[str, str] = EMPTY
    template_annotations: FrozenDict[str, str] = EMPTY
    replicas: int = 0
    """How many pods it wants: spec.replicas, or a Job's parallelism. 0 for a DaemonSet, which wants one per node."""
    completions: int | None = None
    """How many pods of a Job must succeed; None for other kinds, and for Jobs that end with the first success."""
    succeeded: int = 0
    """How many pods of a Job have succeeded."""
    suspended: bool = False
    finished: bool = False
    """A Job that is complete or has failed makes no more pods."""
    deleting: bool = False
    created_s: float = 0.0
    gang_least: int | None = None
    """How many pods must be placed together, if the spec says so (`spec.scheduling` of a Job)."""
    one_by_one: bool = False
    """Whether it makes a pod only when those before are ready (a StatefulSet that is not Parallel)."""
    topology: TopologyAsk | None = None
    """What its annotations ask of the levels of a Topology, for all of its pods."""
    paused: bool = False
    """Whether the rollout of a Deployment is paused."""
    max_unavailable: int = 0
    """By how many pods a rollout of a Deployment may fall short of `replicas`."""
    ends_s: float | None = None
    """When a Job has ended at the latest, by its activeDeadlineSeconds; None if it has none, or has not started."""

    @property
    def desired(self) -> int:
        """How many pods should exist now: of a Job no more than it has completions left, of a suspended one none."""
        if self.suspended or self.finished:
            return 0
        if self.completions is None:
            return self.replicas
        return min(self.replicas, max(self.completions - self.succeeded, 0))


@dataclass(frozen=True, slots=True)
class Service(Namespaced):
    """A service; the default spread constraints look at the pods that it selects."""

    namespace: str
    name: str
    selector: FrozenDict[str, str] = EMPTY
    """Labels of the selected pods; empty selects none."""


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget(Namespaced):
    """How many of some pods may be evicted just now."""

    namespace: str
    name: str
    selector: Selector = NOTHING
    disruptions_allowed: int = 0
    disrupted_pods: tuple[str, ...] = ()
    """Names, sorted, of pods whose eviction is already counted in `disruptions_allowed`."""
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    """What the disruption controller computes the allowance from: a number, or a percentage such as `50%`."""
    observed: bool = True
    """Whether the controller has filled in the allowance; without it nothing may be disrupted."""
    spares_unready: bool = False
    """Whether pods that are not ready may be evicted just now whatever the allowance is, and without using it up."""


@dataclass(frozen=True, slots=True)
class PriorityClass(ClusterWide):
    """Gives pods that name it their priority."""

    name: str
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class RuntimeClass(ClusterWide):
    """Adds overhead and node constraints to pods that name it."""

    name: str
    overhead: FrozenDict[str, int] = field(default_factory=FrozenDict)
    """cpu in milli, everything else in whole units."""
    node_selector: FrozenDict[str, str] = EMPTY
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Namespace(ClusterWide):
    """A namespace; pod affinity selects namespaces by label, its own name (`NAMESPACE_NAME_LABEL`) included."""

    name: str
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY


@dataclass(frozen=True, slots=True)
class PodGroup(Namespaced):
    """A gang: Kubernetes' own, of the coscheduling CRD, KAI's, Volcano's or Grove's, or that of an owner's pods."""

    namespace: str
    name: str
    uid: str = ""
    api_group: str = NATIVE_GROUPS
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    min_count: int = 0
    """How many members must be placed together; 0 when the members are scheduled one by one (policy `basic`)."""
    min_resources: FrozenDict[str, int] = field(default_factory=FrozenDict)
    """What the cluster must have free before the gang is tried (CRD only); units as in `Node.allocatable`."""
    schedule_timeout_s: int | None = None
    evict_whole: bool = False
    """Whether an eviction takes all members (`disruptionMode: {all: {}}`)."""
    priority: int | None = None
    priority_class: str = ""
    topology_key: str | None = None
    """All members go into one domain of this node label."""
    topology: TopologyAsk | None = None
    """What the gang as a whole asks of the levels of a Topology."""
    subgroups: tuple[SubGroup, ...] = ()
    workload: str | None = None
    """Name of the Workload object that the group was made from."""
    scheduled: bool = False
    """Whether the condition PodGroupInitiallyScheduled is true; it never turns back."""
    deleting: bool = False
    created_s: float = 0.0
    generation: int = 0
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class PlacementPolicy(Namespaced):
    """A placement strategy for the pods or controllers that it selects."""

    namespace: str
    name: str
    uid: str = ""
    selector: Selector = NOTHING
    rules: Strategy | SyntaxRefusal = NO_RULES
    """The strategy, or what is wrong with it."""
    generation: int = 0
    resource_version: str = ""
