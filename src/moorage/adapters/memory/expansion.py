"""How the simulator plays the workload controllers.

All of its rules are here:
- An owner in the input gets the pods it lacks: wanted minus live ones. Live pods count through the ReplicaSets or Jobs
  between them and the owner; an owner whose own owner can be expanded too is left to that one.
- They are owned as live: those of a Deployment by a ReplicaSet, those of a CronJob by a Job. It is the current one of
  the input, also one without a controller that its selector matches; one that the input left out, but whose pods it
  holds, comes back as it was; else a new one is made.
- They are named `<owner>-0`, `<owner>-1`, ... after the object in the input.
- Lost pods are replaced under the owner's next free name. A name is used once only, so that a name in a report means
  one pod; a StatefulSet's pods, whose names are their identity, come back under the same name.
- Surplus pods stay: the input says that they exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.controllers.adoption import Adoption
from moorage.adapters.memory.controllers.demand import (
    finished_count,
    free_indexes,
    is_indexed,
    job_is_over,
    job_pods_wanted,
    replicas_wanted,
)
from moorage.adapters.memory.controllers.eligibility import eligible_nodes
from moorage.adapters.memory.controllers.groupsets import group_pods, jobset_pods
from moorage.adapters.memory.controllers.intermediates import current_set, job_for, replica_set_for
from moorage.adapters.memory.controllers.lineage import EXPANDABLE, Lineage
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
    controller_of,
    is_live,
    is_terminating,
    metadata_of,
    spec_of,
    status_of,
    timestamp,
)
from moorage.adapters.memory.store import Store

_GROUP_SETS = {"JobSet": jobset_pods, "LeaderWorkerSet": group_pods}
_VOLCANO = "batch.volcano.sh/"
"""Has a Job, too, which is not Kubernetes' own."""


class Expansion:
    """Makes the pods that the owners in the store lack, each time `step` is called."""

    def __init__(self, store: Store, admission: StoreAdmission) -> None:
        self._store = store
        self._admission = admission
        self._lineage = Lineage(store)
        self._adoption = Adoption(store)
        self._retired: set[tuple[str, str]] = set()
        self._ordinals: dict[str, int] = {}
        self._deletions = store.watch(("Pod",))
        by_kind = {"DaemonSet": self._expand_daemons, "StatefulSet": self._expand_stateful, "Job": self._expand_job}
        reconcilers = {kind: by_kind.get(kind, self._expand_replicas) for kind in EXPANDABLE}
        reconcilers |= {"Deployment": self._expand_deployment, "CronJob": self._expand_cron}
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
        self._adoption.step()
        self._loop.step()

    def _unless_owned(self, expand: Callable[[KubeObject], None]) -> Callable[[KubeObject], None]:
        def guarded(owner: KubeObject) -> None:
            if not any(ancestor["kind"] in EXPANDABLE for ancestor in self._lineage.ancestors(owner)):
                expand(owner)

        return guarded

    def _live(self, owner: KubeObject) -> list[KubeObject]:
        return [pod for pod in self._lineage.pods_of(owner) if is_live(pod)]

    def _expand_replicas(self, owner: KubeObject) -> None:
        for _ in range(replicas_wanted(owner) - len(self._live(owner))):
            self._make(pod_from(owner, self._free_name(owner), template_of(owner)))

    def _expand_deployment(self, deployment: KubeObject) -> None:
        """As a Deployment after its rollout: its current ReplicaSet has what the others do not."""
        current = self._current_set(deployment)
        live = self._live(deployment)
        others = sum(1 for pod in live if not _is_owned(pod, current))
        wanted = replicas_wanted(deployment)
        if replicas_wanted(current) < wanted - others:
            metadata, patch = current["metadata"], {"spec": {"replicas": wanted - others}}
            current = self._store.patch("ReplicaSet", metadata["namespace"], metadata["name"], patch)
        template, digest = template_of(deployment), _digest_of(current) or _end_of_name(current, deployment)
        labels = {TEMPLATE_HASH: digest} if digest else NOTHING
        for _ in range(wanted - len(live)):
            self._make(pod_from(current, self._free_name(deployment), template, labels=labels))

    def _current_set(self, deployment: KubeObject) -> KubeObject:
        known = current_set(self._store.children(deployment, kind="ReplicaSet"))
        if known is not None:
            return known
        left_out = self._left_out(deployment, "ReplicaSet")
        name, uid, digest = left_out or ("", "", template_hash(template_of(deployment)))
        made = replica_set_for(
            deployment, name or f"{deployment['metadata']['name']}-{digest}", digest, revision=1, replicas=0
        )
        return self._admission.load({**made, "metadata": {**made["metadata"], "uid": uid}})

    def _left_out(self, owner: KubeObject, kind: str) -> tuple[str, str, str] | None:
        """Name, uid and template hash of the object above the owner's youngest pod, where the input left it out."""
        found: tuple[str, str, str] | None = None
        newest = ""
        for pod in self._live(owner):
            reference, created = controller_of(pod) or NOTHING, str(metadata_of(pod).get("creationTimestamp") or "")
            if reference.get("kind") != kind or self._store.owner(pod, reference) is not None:
                continue
            if found is None or created > newest:
                found, newest = (str(reference["name"]), str(reference["uid"]), _digest_of(pod)), created
        return found

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
            self._make_job_pods(job, job, [*self._lineage.pods_of(job)])

    def _expand_cron(self, cron: KubeObject) -> None:
        """The Jobs that run, else one Job."""
        if spec_of(cron).get("suspend"):
            return
        jobs = [job for job in self._store.children(cron, kind="Job") if not job_is_over(job)]
        own = [pod for pod in self._lineage.pods_of(cron) if _is_owned(pod, cron)]
        for job in jobs or [self._make_job(cron)]:
            self._make_job_pods(job, cron, [*self._lineage.pods_of(job), *own])

    def _make_job(self, cron: KubeObject) -> KubeObject:
        left_out, now_s = self._left_out(cron, "Job"), self._store.clock.now_s
        namespace, minute = cron["metadata"]["namespace"], int(now_s) // 60
        while self._store.find("Job", namespace, name := f"{cron['metadata']['name']}-{minute}") is not None:
            minute += 1
        name, uid, _ = left_out or (name, self._store.new_uid(), "")
        return self._admission.load(job_for(cron, name, uid, timestamp(now_s)))

    def _make_job_pods(self, job: KubeObject, named_after: KubeObject, pods: Iterable[KubeObject]) -> None:
        """What the Job lacks; `pods` are all that count for it."""
        pods, spec, status = [*pods], spec_of(job), status_of(job)
        own = [pod for pod in pods if _is_owned(pod, job)]
        wanted = job_pods_wanted(
            spec,
            succeeded=finished_count(status, own, phase="Succeeded"),
            failed=finished_count(status, own, phase="Failed"),
        )
        lacking = wanted - sum(1 for pod in pods if is_live(pod))
        indexes = free_indexes(own, lacking) if is_indexed(spec) else [None] * max(0, lacking)
        for index in indexes:
            marks = NOTHING if index is None else index_marks(index)
            name, labels = self._free_name(named_after), {**job_labels(job), **marks}
            self._make(pod_from(job, name, template_of(job), labels=labels, annotations=marks))

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


def _is_owned(pod: KubeObject, owner: KubeObject) -> bool:
    """Whether the object itself is the controller of the pod."""
    return bool((controller_of(pod) or NOTHING).get("uid") == owner["metadata"]["uid"])


def _digest_of(obj: KubeObject) -> str:
    return str((metadata_of(obj).get("labels") or NOTHING).get(TEMPLATE_HASH) or "")


def _end_of_name(replica_set: KubeObject, deployment: KubeObject) -> str:
    """The hash of a ReplicaSet that does not carry it as a label."""
    stem, name = f"{deployment['metadata']['name']}-", str(replica_set["metadata"]["name"])
    return name.removeprefix(stem) if name.startswith(stem) else ""
