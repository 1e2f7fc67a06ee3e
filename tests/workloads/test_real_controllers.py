"""JobSet, LeaderWorkerSet and Job of their real controllers: gangs, placed by ranks, and nobody writes a PodGroup.

The managers are built on first use, which takes a quarter of an hour: `make workloads`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, pods_of, scheduler
from tests.patience import eventually
from tests.workloads.managers import JOBSET, LEADER_WORKER_SET, create, running

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("workloads")]

BLOCK, RACK = "example.com/block", "example.com/rack"
PATIENCE_S = 300
CRD = Path(__file__).parents[2] / "deploy" / "crds" / "topologies.yaml"
CONTROLLERS = "job-controller,statefulset-controller,serviceaccount-controller,garbage-collector-controller"


@pytest.fixture(scope="module")
def plane(control_plane_assets: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:  # noqa: ARG001
    """An API server with all controllers, and a scheduler."""
    folder = tmp_path_factory.mktemp("workloads")
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start())
        plane.start_controller_manager(f"--controllers={CONTROLLERS}")
        create(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(CRD.read_text()))
        for manager in (JOBSET, LEADER_WORKER_SET):
            stack.enter_context(running(manager, plane, folder))
        grant(plane)
        topologies = "/apis/moorage.dev/v1alpha1/topologies"
        eventually(lambda: plane.request("GET", topologies).status == 200, PATIENCE_S, "topologies are served")
        levels = [BLOCK, RACK, "kubernetes.io/hostname"]
        body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}}
        create(plane, topologies, body | {"spec": {"levels": levels}})
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": "moorage"}],
        }
        file = folder / "config.yaml"
        file.write_text(json.dumps(configuration))
        stack.enter_context(scheduler(plane, folder / "log", "--config", str(file), "--log-format=text"))
        yield plane


def grant(plane: ControlPlane) -> None:
    """What the chart grants to a scheduler beyond what kube-scheduler has: to read these kinds."""
    kinds = {
        "jobset.x-k8s.io": "jobsets",
        "leaderworkerset.x-k8s.io": "leaderworkersets",
        "moorage.dev": "topologies",
        "batch": "jobs",
    }
    rules = [{"apiGroups": [group], "resources": [kind], "verbs": ["list", "watch"]} for group, kind in kinds.items()]
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": "workloads"}
    create(plane, f"{rbac}/clusterroles", {"metadata": metadata, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "workloads"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    create(plane, f"{rbac}/clusterrolebindings", {"metadata": metadata, "roleRef": role, "subjects": [user]})


def constraints(size: int) -> dict[str, str]:
    """All members in one block, and so many consecutive ones in a rack."""
    return {
        "moorage.dev/topology-required": BLOCK,
        "moorage.dev/topology-slice-required": RACK,
        "moorage.dev/topology-slice-size": str(size),
    }


def pod_template(pool: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/c:v1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "moorage", "nodeSelector": {"pool": pool}, "containers": [container]}
    return {"spec": spec}


def job_spec(pool: str, pods: int) -> dict[str, Any]:
    template = pod_template(pool)
    template["spec"]["restartPolicy"] = "Never"
    return {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}


JOBS = "/apis/batch/v1/namespaces/default/jobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
INDEX = "batch.kubernetes.io/job-completion-index"
WORKERS = [{"name": "workers", "replicas": 2, "template": {"spec": job_spec("jobset", 4)}}]
CASES = {
    "jobset": (
        JOBSETS,
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": WORKERS}},
        8,
        ("jobset.sigs.k8s.io/job-index", INDEX),
    ),
    "lws": (
        SETS,
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "workerTemplate": pod_template("lws")}},
        },
        4,
        ("leaderworkerset.sigs.k8s.io/worker-index",),
    ),
    "job": (JOBS, {"apiVersion": "batch/v1", "kind": "Job", "spec": job_spec("job", 4)}, 4, (INDEX,)),
}
"""Kind -> where it is created, the object, how many pods it has, and the labels of their ranks."""


@pytest.mark.parametrize("name", CASES)
def test_a_workload_of_its_real_controller_is_a_gang(plane: ControlPlane, name: str) -> None:
    """With one node too few none of its pods is bound; then all are, and each half of the ranks has its own rack."""
    path, body, pods, rank_labels = CASES[name]
    *nodes, last = [(f"{name}-{rack}-{number}", rack) for rack in range(2) for number in range(pods // 2)]
    for node, rack in nodes:
        make_node(plane, node, cpu="1", **{"pool": name, BLOCK: name, RACK: f"{name}-{rack}"})
    annotations = constraints(pods // 2) | ({"moorage.dev/gang": "true"} if name == "job" else {})
    whole = {**body, "metadata": {"name": name, "annotations": annotations}}
    eventually(lambda: plane.request("POST", path, whole).status in (201, 409), PATIENCE_S, "its webhook answers")
    eventually(lambda: len(mine(plane, name)) == pods, PATIENCE_S, f"{pods} pods of {name}")
    eventually(lambda: all(map(is_told, mine(plane, name))), PATIENCE_S, "all are told why they wait")
    assert not any(pod["spec"].get("nodeName") for pod in mine(plane, name))
    node, rack = last
    make_node(plane, node, cpu="1", **{"pool": name, BLOCK: name, RACK: f"{name}-{rack}"})
    eventually(lambda: all(pod["spec"].get("nodeName") for pod in mine(plane, name)), PATIENCE_S, "all are bound")
    placed = sorted(
        (tuple(int(pod["metadata"]["labels"][label]) for label in rank_labels), pod["spec"]["nodeName"])
        for pod in mine(plane, name)
    )
    racks = [node.split("-")[1] for _, node in placed]
    assert len(set(racks[: pods // 2])) == len(set(racks[pods // 2 :])) == 1, placed
    assert len({node for _, node in placed}) == pods


def mine(plane: ControlPlane, name: str) -> list[dict[str, Any]]:
    """The pods of a case."""
    return [pod for pod in pods_of(plane) if pod["spec"].get("nodeSelector", {}).get("pool") == name]


def is_told(pod: dict[str, Any]) -> bool:
    """Whether a pod says that its gang waits."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["status"] == "False" and "pod group" in each.get("message", "") for each in conditions)
