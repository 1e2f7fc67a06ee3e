"""One workload of every row of the table, as its users write it, and the pods that its controller makes of it.

A sample says how many of its pods must be placed together: with room for fewer none is placed, with room for all of
them all are. Pods that go one by one have `together=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Body = dict[str, Any]
Labels = Callable[[int], Mapping[str, str]]
"""The labels of a pod by its number."""
JOBSET, LWS, KUBEFLOW = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "training.kubeflow.org/"
INDEX = "batch.kubernetes.io/job-completion-index"
CONTAINER = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


class Sample(NamedTuple):
    """A workload and its pods."""

    objects: list[Body]
    pods: list[Body]
    together: int
    """How many must be placed together."""


def thing(api_version: str, kind: str, name: str, spec: Any = None, above: Body | None = None, **metadata: Any) -> Body:
    """An object with a uid, below another one."""
    about = {"name": name, "namespace": "default", "uid": f"{kind}-{name}", **metadata}
    if above is not None:
        about["ownerReferences"] = [reference(above)]
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec or {}}


def reference(above: Body) -> Body:
    """The owner reference of what a controller makes."""
    named = {key: above["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": above["apiVersion"], "kind": above["kind"], "controller": True, **named}


def pod(name: str, above: Body | None = None, annotations: Mapping[str, str] | None = None, **labels: str) -> Body:
    """A pod of one cpu; labels are given as keywords, with `labels_of` for keys that are no words."""
    return thing("v1", "Pod", name, TEMPLATE["spec"], above, labels=labels, annotations=dict(annotations or {}))


def pods(name: str, count: int, above: Body | None, label: Labels | None = None) -> list[Body]:
    """Pods `name-0`, `name-1`, ..."""
    return [pod(f"{name}-{n}", above, None, **(label(n) if label else {})) for n in range(count)]


def job(name: str, count: int, above: Body | None = None, **metadata: Any) -> Body:
    """A Job of so many pods at once."""
    spec = {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": TEMPLATE}
    return thing("batch/v1", "Job", name, spec, above, **metadata)


def job_pods(owner: Body, count: int, **labels: str) -> list[Body]:
    """What the Job controller makes."""
    return pods(owner["metadata"]["name"], count, owner, lambda n: {INDEX: str(n), **labels})


def plain_job() -> Sample:
    asking = job("train", 4, annotations={"moorage.dev/gang": "true"})
    return Sample([asking], job_pods(asking, 4), 4)


def native_job() -> Sample:
    asking = job("train", 4)
    asking["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    return Sample([asking], job_pods(asking, 4), 3)


def quiet_job() -> Sample:
    quiet = job("batch", 3)
    return Sample([quiet], job_pods(quiet, 3), 1)


def cron_job() -> Sample:
    spec = {"schedule": "@daily", "suspend": True, "jobTemplate": {"spec": {"template": TEMPLATE}}}
    cron = thing("batch/v1", "CronJob", "nightly", spec)
    made = job("nightly-1", 3, cron, annotations={"moorage.dev/gang": "true"})
    return Sample([cron, made], job_pods(made, 3), 3)


def jobset(name: str = "train", above: Body | None = None, **spec: Any) -> Sample:
    """A driver and two Jobs of two workers."""
    roles = [("driver", 1, 1), ("worker", 2, 2)]
    replicated = [
        {
            "name": role,
            "replicas": replicas,
            "template": {"spec": {"parallelism": each, "completions": each, "template": TEMPLATE}},
        }
        for role, replicas, each in roles
    ]
    owner = thing("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": replicated, **spec}, above)
    jobs, made = [], []
    for role, replicas, each in roles:
        for number in range(replicas):
            labels = {
                f"{JOBSET}jobset-name": name,
                f"{JOBSET}replicatedjob-name": role,
                f"{JOBSET}job-index": str(number),
            }
            child = job(f"{name}-{role}-{number}", each, owner, labels=labels)
            jobs.append(child)
            made += job_pods(child, each, **labels)
    return Sample([owner, *jobs], made, 5)


def leader_worker_set(**spec: Any) -> Sample:
    """Two groups of three."""
    template = {"size": 3, "workerTemplate": TEMPLATE}
    owner = thing(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "serve",
        {"replicas": 2, "leaderWorkerTemplate": template, **spec},
    )
    parallel = {"replicas": 2, "podManagementPolicy": "Parallel", "template": TEMPLATE}
    leaders = thing("apps/v1", "StatefulSet", "serve", parallel, owner)
    objects, made = [owner, leaders], []
    for group in range(2):
        labels = {f"{LWS}name": "serve", f"{LWS}group-index": str(group)}
        leader = pod(f"serve-{group}", leaders, None, **labels, **{f"{LWS}worker-index": "0"})
        workers = thing("apps/v1", "StatefulSet", f"serve-{group}", parallel, leader, uid=f"workers-{group}")
        objects.append(workers)
        made += [
            leader,
            *(
                pod(f"serve-{group}-{n}", workers, None, **labels, **{f"{LWS}worker-index": str(n)})
                for n in range(1, 3)
            ),
        ]
    return Sample(objects, made, 3)


def train_job() -> Sample:
    above = thing("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", {"trainer": {"numNodes": 4}})
    found = jobset("train", above)
    return Sample([above, *found.objects], found.pods, found.together)


def kubeflow(kind: str, specs: str, **roles: int) -> Sample:
    """A job of the training operator."""
    spec = {specs: {role: {"replicas": count, "template": TEMPLATE} for role, count in roles.items()}}
    owner = thing("kubeflow.org/v1", kind, "fit", spec)
    made = []
    for role, count in roles.items():
        for number in range(count):
            labels = {
                f"{KUBEFLOW}job-name": "fit",
                f"{KUBEFLOW}replica-type": role.lower(),
                f"{KUBEFLOW}replica-index": str(number),
            }
            made.append(pod(f"fit-{role.lower()}-{number}", owner, None, **labels))
    return Sample([owner], made, sum(roles.values()))


def elastic_pytorch() -> Sample:
    found = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=4)
    found.objects[0]["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 4}
    return found._replace(together=2)


def mpi_v2() -> Sample:
    """The launcher is made when the workers are ready."""
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": TEMPLATE},
            "Worker": {"replicas": 3, "template": TEMPLATE},
        },
    }
    owner = thing("kubeflow.org/v2beta1", "MPIJob", "solve", spec)
    labels = {f"{KUBEFLOW}job-name": "solve", f"{KUBEFLOW}job-role": "worker"}
    made = pods("solve-worker", 3, owner, lambda n: {**labels, f"{KUBEFLOW}replica-index": str(n)})
    return Sample([owner], made, 3)


def ray_cluster(above: Body | None = None, **group: Any) -> Sample:
    """A head and a group of two replicas with two hosts each; another group is suspended."""
    spec = {
        "headGroupSpec": {"template": TEMPLATE},
        "workerGroupSpecs": [
            {"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE, **group},
            {"groupName": "old", "replicas": 9, "suspend": True, "template": TEMPLATE},
        ],
    }
    owner = thing("ray.io/v1", "RayCluster", "ray", spec, above)
    head = pod("ray-head", owner, None, **{"ray.io/cluster": "ray", "ray.io/group": "headgroup"})
    workers = pods("ray-gpu", 4, owner, lambda _: {"ray.io/cluster": "ray", "ray.io/group": "gpu"})
    return Sample([owner], [head, *workers], 5)


def ray_job() -> Sample:
    """The submitter is made when the cluster is there, and is not of the gang."""
    above = thing("ray.io/v1", "RayJob", "etl", {"entrypoint": "python etl.py"})
    found = ray_cluster(above)
    return Sample([above, *found.objects], found.pods, found.together)


def ray_service() -> Sample:
    above = thing("ray.io/v1", "RayService", "llm", {})
    found = ray_cluster(above, minReplicas=1)
    return Sample([above, *found.objects], found.pods, 3)


def spark_application() -> Sample:
    """The driver makes the executors when it runs."""
    spec = {"driver": {"cores": 1}, "executor": {"instances": 2}}
    owner = thing("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sql", spec)
    labels = {"sparkoperator.k8s.io/app-name": "sql", "spark-app-selector": "spark-1"}
    driver = pod("sql-driver", owner, None, **labels, **{"spark-role": "driver"})
    return Sample([owner], [driver, *pods("sql-exec", 2, driver, lambda _: {**labels, "spark-role": "executor"})], 1)


def spark_submit() -> Sample:
    labels = {"spark-app-selector": "spark-1", "spark-app-name": "sql"}
    driver = pod("sql-driver", None, None, **labels, **{"spark-role": "driver"})
    return Sample([], [driver, *pods("sql-exec", 2, driver, lambda _: {**labels, "spark-role": "executor"})], 1)


def _annotated(found: Iterable[Body], **annotations: str) -> list[Body]:
    return [{**each, "metadata": {**each["metadata"], "annotations": annotations}} for each in found]


def volcano_job() -> Sample:
    """With the PodGroup that Volcano's controller makes of it."""
    tasks = [{"name": name, "replicas": count, "template": TEMPLATE} for name, count in (("ps", 1), ("worker", 3))]
    owner = thing("batch.volcano.sh/v1alpha1", "Job", "deep", {"minAvailable": 3, "tasks": tasks})
    group = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "deep-uid", {"minMember": 3, "minTaskMember": {"ps": 1}})
    made = [pod("deep-ps-0", owner, None, **{"volcano.sh/task-spec": "ps", "volcano.sh/task-index": "0"})]
    made += pods("deep-worker", 3, owner, lambda n: {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(n)})
    return Sample([owner, group], _annotated(made, **{"scheduling.k8s.io/group-name": "deep-uid"}), 3)


def bare_volcano_job() -> Sample:
    """Without it: the Job itself says enough."""
    found = volcano_job()
    return Sample(found.objects[:1], _annotated(found.pods), 3)


def volcano_group() -> Sample:
    """Volcano makes a PodGroup for an owner of any kind."""
    group = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroup-1", {"minMember": 2})
    return Sample([group], _annotated(pods("web", 3, None), **{"scheduling.k8s.io/group-name": "podgroup-1"}), 2)


def kueue_group() -> Sample:
    kueue = "kueue.x-k8s.io/pod-group-"
    made = pods("step", 3, None, lambda n: {f"{kueue}name": "g", f"{kueue}pod-index": f"{n}"})
    return Sample([], _annotated(made, **{"kueue.x-k8s.io/pod-group-total-count": "3"}), 3)


def yunikorn() -> Sample:
    """Only the first pod says how many there are."""
    groups = '[{"name": "head", "minMember": 1}, {"name": "worker", "minMember": 2, "minResource": {"cpu": "1"}}]'
    app = {"yunikorn.apache.org/app-id": "app-1"}
    first = _annotated(
        pods("head", 1, None),
        **app,
        **{"yunikorn.apache.org/task-group-name": "head", "yunikorn.apache.org/task-groups": groups},
    )
    others = _annotated(pods("worker", 2, None), **app, **{"yunikorn.apache.org/task-group-name": "worker"})
    return Sample([], [*first, *others], 3)


def kai_group() -> Sample:
    group = thing("scheduling.run.ai/v2alpha2", "PodGroup", "pg-1", {"minMember": 2})
    return Sample([group], _annotated(pods("run", 2, None), **{"pod-group-name": "pg-1"}), 2)


def coscheduling_group() -> Sample:
    group = thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", "pg", {"minMember": 2})
    return Sample([group], pods("run", 2, None, lambda _: {"scheduling.x-k8s.io/pod-group": "pg"}), 2)


def native_group() -> Sample:
    group = thing("scheduling.k8s.io/v1beta1", "PodGroup", "pg", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    made = pods("run", 2, None)
    for each in made:
        each["spec"] = {**each["spec"], "schedulingGroup": {"podGroupName": "pg"}}
    return Sample([group], made, 2)


def argo() -> Sample:
    """Each step is placed alone."""
    flow = thing("argoproj.io/v1alpha1", "Workflow", "flow", {})
    return Sample([flow], pods("flow-step", 2, flow, lambda _: {"workflows.argoproj.io/workflow": "flow"}), 1)


def tekton() -> Sample:
    run = thing("tekton.dev/v1", "TaskRun", "build", {})
    return Sample([run], pods("build-pod", 1, run), 1)


def knative(asks: bool = True) -> Sample:
    annotations = {"autoscaling.knative.dev/min-scale": "2"} | ({"moorage.dev/gang": "true"} if asks else {})
    revision = thing("serving.knative.dev/v1", "Revision", "web-1", {}, annotations=annotations)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, **TEMPLATE}
    scaled = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    deployment = thing("apps/v1", "Deployment", "web-1-deployment", scaled, revision)
    replicas = thing("apps/v1", "ReplicaSet", "web-1-deployment-7", scaled, deployment)
    made = pods("web-1", 3, replicas, lambda _: {"app": "web", "pod-template-hash": "7"})
    return Sample([revision, deployment, replicas], made, 2 if asks else 1)


def grove() -> Sample:
    """Grove's operator makes the PodGang."""
    groups = [{"name": "d-0-prefill", "minReplicas": 1}, {"name": "d-0-decode", "minReplicas": 2}]
    gang = thing("scheduler.grove.io/v1alpha1", "PodGang", "d-0", {"podgroups": groups})
    clique = {"grove.io/podgang": "d-0"}
    made = pods("d-0-prefill", 1, None, lambda _: {**clique, "grove.io/podclique": "d-0-prefill"})
    decode = {**clique, "grove.io/podclique": "d-0-decode"}
    made += pods("d-0-decode", 2, None, lambda n: {**decode, "grove.io/podclique-pod-index": str(n)})
    return Sample([gang], made, 3)


def scaled(kind: str, asks: bool, **spec: Any) -> Sample:
    """A Deployment or a StatefulSet of three."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, **TEMPLATE}
    annotations = {"moorage.dev/gang": "true"} if asks else {}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template, **spec}
    owner = thing("apps/v1", kind, "web", spec, annotations=annotations)
    return Sample([owner], pods("web", 3, owner, lambda _: labels), 3 if asks else 1)


def app_wrapper() -> Sample:
    """Everything inside is one gang, also what would be one by itself."""
    first, second = [{"replicas": 1, "path": "a"}, {"replicas": 4, "path": "b"}], [{"path": "c"}]
    spec = {"components": [{"podSets": first}, {"podSets": second}]}
    above = thing("workload.codeflare.dev/v1beta2", "AppWrapper", "all", spec)
    found, alone = jobset("inside", above), pod("extra", above)
    return Sample([above, *found.objects], [*found.pods, alone], 6)


SAMPLES: dict[str, Callable[[], Sample]] = {
    "Job that asks": plain_job,
    "Job with spec.scheduling": native_job,
    "Job that does not ask": quiet_job,
    "CronJob": cron_job,
    "JobSet": jobset,
    "LeaderWorkerSet": leader_worker_set,
    "TrainJob": train_job,
    "PyTorchJob": lambda: kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=3),
    "PyTorchJob, elastic": elastic_pytorch,
    "TFJob": lambda: kubeflow("TFJob", "tfReplicaSpecs", Chief=1, PS=1, Worker=2),
    "XGBoostJob": lambda: kubeflow("XGBoostJob", "xgbReplicaSpecs", Master=1, Worker=2),
    "JAXJob": lambda: kubeflow("JAXJob", "jaxReplicaSpecs", Worker=3),
    "PaddleJob": lambda: kubeflow("PaddleJob", "paddleReplicaSpecs", Master=1, Worker=2),
    "MPIJob v1": lambda: kubeflow("MPIJob", "mpiReplicaSpecs", Launcher=1, Worker=3),
    "MPIJob v2beta1": mpi_v2,
    "RayCluster": ray_cluster,
    "RayJob": ray_job,
    "RayService": ray_service,
    "SparkApplication": spark_application,
    "spark-submit": spark_submit,
    "Volcano Job": volcano_job,
    "Volcano Job without PodGroup": bare_volcano_job,
    "Volcano PodGroup": volcano_group,
    "Kueue pod group": kueue_group,
    "YuniKorn application": yunikorn,
    "KAI PodGroup": kai_group,
    "coscheduling PodGroup": coscheduling_group,
    "native PodGroup": native_group,
    "Argo Workflow": argo,
    "Tekton TaskRun": tekton,
    "Knative Revision that asks": knative,
    "Knative Revision": lambda: knative(asks=False),
    "Grove": grove,
    "Deployment": lambda: scaled("Deployment", asks=False),
    "Deployment that asks": lambda: scaled("Deployment", asks=True),
    "StatefulSet": lambda: scaled("StatefulSet", asks=False),
    "StatefulSet that asks": lambda: scaled("StatefulSet", asks=True, podManagementPolicy="Parallel"),
    "StatefulSet that asks, in order": lambda: scaled("StatefulSet", asks=True)._replace(together=1),
    "AppWrapper": app_wrapper,
}
"""By the name of the row."""
