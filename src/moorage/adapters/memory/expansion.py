"""How the simulator plays the workload controllers.

All of its rules are here:
- An owner in the input gets the pods it lacks: wanted minus live ones. Live pods count through the ReplicaSets or Jobs
  between them and the owner; an owner whose own owner can be expanded too is left to that one.
- They are named `<owner>-0`, `<owner>-1`, ... and owned by the object in the input; no ReplicaSet or Job is made.
- Lost pods are replaced under the owner's next free name. A name is used once only, so that a name in a report means
  one pod; a StatefulSet's pods, whose names are their identity, come back under the same name.
- Surplus pods stay: the input says that they exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.controllers.demand import (
    finished_count,
    free_indexes,
    is_indexed,
    job_is_over,
    job_pods_wanted,
    replicas_wanted,
)
from moorage.adapters.memory.controllers.deployments import revision_of
from moorage.adapters.memory.controllers.eligibility import eligible_nodes
from moorage.adapters.memory.controllers.groupsets import group_pods, jobset_pods
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.controllers.loop import ControllerLoop
from moorage.adapters.memory.controllers.statefulsets import first_ordinal, make_claims
from moorage.adapters.memory.controllers.templates import (
    TEMPLATE_HASH,
    daemon_spec,
    daemon_target,
    index_marks,
    job_labels,
    pod_from,
    stateful_labels,
    stateful_spec,
    template_hash,
    template_of,
)
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    is_live,
    is_terminating,
    metadata_of,
    spec_of,
    status_of,
)
from moorage.adapters.memory.store import Store

EXPANDABLE = (
    "CronJob", "DaemonSet", "Deployment", "Job", "JobSet", "LeaderWorkerSet", "ReplicaSet", "ReplicationController",
    "StatefulSet",
)  # fmt: skip
_GROUP_SETS = {"JobSet": jobset_pods, "LeaderWorkerSet": group_pods}
_VOLCANO = "batch.volcano.sh/"
"""Has a Job, too, which is not Kubernetes' own."""


class Expansion:
    """Makes the pods that the owners in the store lack, each time `step` is called."""

    def __init__(self, store: Store, admission: StoreAdmission) -> None:
        self._store = store
        self._admission = admission
        self._lineage = Lineage(store)
        self._retired: set[tuple[str, str]] = set()
        self._ordinals: dict[str, int] = {}
        self._deletions = store.watch(("Pod",))
        by_kind = {"DaemonSet": self._expand_daemons, "StatefulSet": self._expand_stateful, "Job": self._expand_job}
        reconcilers = {kind: by_kind.get(kind, self._expand_replicas) for kind in EXPANDABLE}
        reconcilers["CronJob"] = self._expand_cron
        reconcilers |= dict.fromkeys(_GROUP_SETS, self._expand_group_set)
        self._loop = ControllerLoop(
            store,
            self._lineage,
            {kind: self._unless_owned(function) for kind, function in reconcilers.items()},
            by_life_only=True,
            by_readiness=frozenset(_GROUP_SETS),
        )

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the API server refuses to owners at present."""
        return tuple(self._loop.refusals.values())

    def step(self) -> None:
        """Make what is lacking."""
        for change in self._deletions.pull():
            if change.type is ChangeType.DELETED:
                metadata = change.object["metadata"]
                self._retired.add((metadata["namespace"], metadata["name"]))
        self._loop.step()

    def _unless_owned(self, expand: Callable[[KubeObject], None]) -> Callable[[KubeObject], None]:
        def guarded(owner: KubeObject) -> None:
            if not any(ancestor["kind"] in EXPANDABLE for ancestor in self._lineage.ancestors(owner)):
                expand(owner)

        return guarded

    def _live(self, owner: KubeObject) -> list[KubeObject]:
        return [pod for pod in self._lineage.pods_of(owner) if is_live(pod)]

    def _expand_replicas(self, owner: KubeObject) -> None:
        lacking = replicas_wanted(owner) - len(self._live(owner))
        if lacking <= 0:
            return
        labels = {TEMPLATE_HASH: self._template_hash(owner)} if owner["kind"] == "Deployment" else NOTHING
        for _ in range(lacking):
            self._make(pod_from(owner, self._free_name(owner), template_of(owner), labels=labels))

    def _expand_stateful(self, owner: KubeObject) -> None:
        # A pod that is still ending keeps its name, and its place among the wanted ones, until it is gone.
        present = [pod for pod in self._lineage.pods_of(owner) if is_live(pod) or is_terminating(pod)]
        lacking = replicas_wanted(owner) - len(present)
        namespace, ordinal = owner["metadata"]["namespace"], first_ordinal(owner)
        while lacking > 0:
            name = f"{owner['metadata']['name']}-{ordinal}"
            if self._store.find("Pod", namespace, name) is None:
                make_claims(owner, name, self._store, self._admission)
                labels, spec = stateful_labels(name, ordinal), stateful_spec(owner, name)
                self._make(pod_from(owner, name, template_of(owner), labels=labels, spec=spec))
                lacking -= 1
            ordinal += 1

    def _expand_group_set(self, owner: KubeObject) -> None:
        """Pods of a LeaderWorkerSet have fixed names; those of a JobSet end in letters, here in a number if need be."""
        namespace = owner["metadata"]["namespace"]
        for wanted in _GROUP_SETS[owner["kind"]](owner, [*self._lineage.pods_of(owner)]):
            name, again = wanted.name, 0
            while owner["kind"] == "JobSet" and self._is_taken(namespace, name):
                again += 1
                name = f"{wanted.name}-{again}"
            made = pod_from(owner, name, wanted.template, labels=wanted.labels, annotations=wanted.annotations)
            self._make(made)

    def _expand_job(self, job: KubeObject) -> None:
        if not job_is_over(job) and not str(job.get("apiVersion")).startswith(_VOLCANO):
            self._expand_job_spec(job, spec_of(job), status_of(job), job_labels(job))

    def _expand_cron(self, cron: KubeObject) -> None:
        """One Job's worth of pods, owned by the CronJob itself."""
        if not spec_of(cron).get("suspend"):
            self._expand_job_spec(cron, spec_of(spec_of(cron).get("jobTemplate") or NOTHING), NOTHING, NOTHING)

    def _expand_job_spec(
        self, owner: KubeObject, spec: Mapping[str, Any], status: Mapping[str, Any], labels: Mapping[str, str]
    ) -> None:
        pods = [*self._lineage.pods_of(owner)]
        own = [pod for pod in pods if pod["metadata"]["ownerReferences"][0].get("uid") == owner["metadata"]["uid"]]
        wanted = job_pods_wanted(
            spec,
            succeeded=finished_count(status, own, phase="Succeeded"),
            failed=finished_count(status, own, phase="Failed"),
        )
        lacking = wanted - sum(1 for pod in pods if is_live(pod))
        indexes = free_indexes(own, lacking) if is_indexed(spec) else [None] * max(0, lacking)
        for index in indexes:
            marks = NOTHING if index is None else index_marks(index)
            name, template = self._free_name(owner), template_of(owner)
            self._make(pod_from(owner, name, template, labels={**labels, **marks}, annotations=marks))

    def _expand_daemons(self, owner: KubeObject) -> None:
        served = {daemon_target(pod) for pod in self._live(owner)}
        template = template_of(owner)
        for node in eligible_nodes(template, self._store.list("Node")):
            if node not in served:
                self._make(pod_from(owner, self._free_name(owner), template, spec=daemon_spec(template, node)))

    def _make(self, pod: KubeObject) -> None:
        self._admission.create(pod)

    def _is_taken(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self._retired or self._store.find("Pod", namespace, name) is not None

    def _free_name(self, owner: KubeObject) -> str:
        """The owner's next name that no pod has or has had."""
        metadata = owner["metadata"]
        namespace, ordinal = metadata["namespace"], self._ordinals.get(metadata["uid"], 0)
        while True:
            name = f"{metadata['name']}-{ordinal}"
            ordinal += 1
            if not self._is_taken(namespace, name):
                self._ordinals[metadata["uid"]] = ordinal
                return name

    def _template_hash(self, deployment: KubeObject) -> str:
        """The hash that the Deployment's newest ReplicaSet carries, else that of the template."""
        newest = max(self._replica_sets(deployment), key=revision_of, default=None)
        known = (metadata_of(newest or NOTHING).get("labels") or NOTHING).get(TEMPLATE_HASH)
        return str(known) if known else template_hash(template_of(deployment))

    def _replica_sets(self, deployment: KubeObject) -> Iterator[KubeObject]:
        return iter(self._store.children(deployment, kind="ReplicaSet"))
