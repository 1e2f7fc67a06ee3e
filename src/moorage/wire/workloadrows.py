"""The kinds of workloads whose pods are gangs without a PodGroup, as data.

A row says where an object of the kind writes how many pods it makes, which of them are made only when others run, and
which labels its controller gives to them. `wire.gangowners` reads objects by these rows and `core.ownerchains` finds
the object above a pod. docs/workloads.md explains the columns, and how to add a row of one's own.

Paths are relative to the object, or to the entry of `CountedPods.at`: names joined by dots, `[]` after the name of a
list, `*` for every key of a map. A count is a product of factors, 1 where nothing is given: `a&b` is the smaller one of
those that are given, `a|b` the first that is given and not 0.
"""

from __future__ import annotations

from moorage.core.frozen import FrozenDict
from moorage.core.gangowners import LabelledLeader
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class CountedPods:
    """Where pods of a kind are counted; every entry of a list or a map is a role."""

    at: str
    count: tuple[str, ...] = ("replicas",)
    name: str = ""
    """Path of the role's name; without one, the key in a map."""
    role: str = ""
    """The name of a role that has no other."""
    off: str = ""
    """Path of a flag: where it is true, there are none of them."""
    least: str = ""
    """Path of how many of the role must be placed together."""
    after: str = ""
    """Path of a list: where it is not empty, they are made only when others run."""
    annotations: str = ""
    """Path of annotations, for `WorkloadRow.led_if`."""


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One kind. Without members its objects are passed over, and those below decide."""

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    members: tuple[CountedPods, ...] = ()
    minimum: tuple[str, ...] = ()
    """Paths of how many pods must be placed together; the first that is given counts, and without one all pods do."""
    done: tuple[str, ...] = ()
    """Paths of how many pods have succeeded, and do not come back; Jobs below the object are counted anyway."""
    elastic: bool = False
    """Whether the counts are the least of each role, and there may be more."""
    only_asked: bool = False
    """Whether it is a gang only with the annotation `moorage.dev/gang`."""
    minimum_annotation: str = ""
    mark: str = ""
    """A label that only pods of this kind have: one whose owner is not known yet waits for it."""
    role_label: str = ""
    rank_labels: tuple[str, ...] = ()
    """Only where the usual ones (`core.topologyasks.RANK_LABELS`) do not say it."""
    split_label: str = ""
    """Every value of this label of the pods is a gang of its own."""
    each_if: FrozenDict[str, str] = FrozenDict()
    """Path -> value: then each role is made only when the one before runs, and is a gang of its own."""
    later_if: FrozenDict[str, tuple[str, str]] = FrozenDict()
    """Role -> path and value: then its pods are made only when the others run, and do not count."""
    led_if: FrozenDict[str, str] = FrozenDict()
    """Path -> value, or `@` and an annotation: then the others are made only when the leader has a node."""
    led_unless: str = ""
    """An annotation with which that does not hold."""
    leader: LabelledLeader | None = None
    """The leader, where there is one: it is placed alone then, and the others are a gang."""
    led_count: tuple[str, ...] = ()
    """How many leaders an entry has, where there may be several: only they count then."""
    own: bool = False
    """Whether it comes from a configuration."""

    @property
    def id(self) -> str:
        """What events call the kind."""
        return f"{self.kind}.{self.group}" if self.own or self.kind == "Job" else self.kind


_JOB_PODS = "template.spec.parallelism&template.spec.completions"
_KUBEFLOW = "training.kubeflow.org/job-name"
_SUCCEEDED = ("status.replicaStatuses.*.succeeded",)
_MIN_AVAILABLE = "spec.runPolicy.schedulingPolicy.minAvailable"
_ELASTIC = "spec.elasticPolicy.minReplicas"


def _kubeflow(kind: str, specs: str, *minimum: str) -> WorkloadRow:
    """A kind of Kubeflow's training operator."""
    return WorkloadRow(
        kind,
        "kubeflow.org",
        ("v1",),
        f"{kind.lower()}s",
        (CountedPods(f"spec.{specs}.*"),),
        (_MIN_AVAILABLE, *minimum),
        _SUCCEEDED,
        mark=_KUBEFLOW,
    )


ROWS: tuple[WorkloadRow, ...] = (
    WorkloadRow(
        "JobSet",
        "jobset.x-k8s.io",
        ("v1alpha2",),
        "jobsets",
        (
            CountedPods(
                "spec.replicatedJobs[]",
                ("replicas", _JOB_PODS),
                name="name",
                after="dependsOn",
                annotations="template.metadata.annotations",
            ),
        ),
        mark="jobset.sigs.k8s.io/jobset-name",
        role_label="jobset.sigs.k8s.io/replicatedjob-name",
        each_if=FrozenDict({"spec.startupPolicy.startupPolicyOrder": "InOrder"}),
        led_if=FrozenDict({"@alpha.jobset.sigs.k8s.io/exclusive-topology": ""}),
        led_unless="alpha.jobset.sigs.k8s.io/node-selector",
        led_count=("replicas",),
    ),
    WorkloadRow(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        ("v1",),
        "leaderworkersets",
        (CountedPods("spec.leaderWorkerTemplate", ("size",)),),
        mark="leaderworkerset.sigs.k8s.io/name",
        split_label="leaderworkerset.sigs.k8s.io/group-index",
        led_if=FrozenDict({"spec.startupPolicy": "LeaderReady", "@leaderworkerset.sigs.k8s.io/exclusive-topology": ""}),
        leader=LabelledLeader("leaderworkerset.sigs.k8s.io/worker-index", "0"),
    ),
    WorkloadRow("TrainJob", "trainer.kubeflow.org", ("v1alpha1",), "trainjobs"),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", _ELASTIC),
    _kubeflow("TFJob", "tfReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", _ELASTIC),
    WorkloadRow(
        "MPIJob",
        "kubeflow.org",
        ("v2beta1", "v1"),
        "mpijobs",
        (CountedPods("spec.mpiReplicaSpecs.*"),),
        (_MIN_AVAILABLE,),
        _SUCCEEDED,
        mark=_KUBEFLOW,
        role_label="training.kubeflow.org/job-role",
        later_if=FrozenDict({"launcher": ("spec.launcherCreationPolicy", "WaitForWorkersReady")}),
    ),
    WorkloadRow(
        "RayCluster",
        "ray.io",
        ("v1", "v1alpha1"),
        "rayclusters",
        (
            CountedPods("spec.headGroupSpec", (), role="headgroup"),
            CountedPods(
                "spec.workerGroupSpecs[]", ("minReplicas|replicas", "numOfHosts"), name="groupName", off="suspend"
            ),
        ),
        elastic=True,
        mark="ray.io/cluster",
    ),
    WorkloadRow("RayJob", "ray.io", ("v1", "v1alpha1"), "rayjobs"),
    WorkloadRow("RayService", "ray.io", ("v1", "v1alpha1"), "rayservices"),
    WorkloadRow(
        "SparkApplication",
        "sparkoperator.k8s.io",
        ("v1beta2",),
        "sparkapplications",
        (CountedPods("spec.driver", (), role="driver"),),
        mark="sparkoperator.k8s.io/app-name",
    ),
    WorkloadRow(
        "Job",
        "batch.volcano.sh",
        ("v1alpha1",),
        "jobs",
        (CountedPods("spec.tasks[]", name="name", least="minAvailable"),),
        ("spec.minAvailable",),
        ("status.succeeded",),
    ),
    WorkloadRow(
        "AppWrapper",
        "workload.codeflare.dev",
        ("v1beta2",),
        "appwrappers",
        (CountedPods("spec.components[].podSets[]"),),
    ),
    WorkloadRow(
        "Revision",
        "serving.knative.dev",
        ("v1",),
        "revisions",
        only_asked=True,
        minimum_annotation="autoscaling.knative.dev/min-scale",
    ),
)
"""Every kind of the table that is read through its own object. Groups that pods name themselves, and controllers of
Kubernetes' own, which are gangs only if they ask for it, are read elsewhere (`core.membership`, `core.gangowners`)."""

PLAIN_OWNERS = ("Job", "StatefulSet", "ReplicaSet", "Deployment")
"""Controllers of Kubernetes' own that may be above pods, and may ask to be a gang."""
