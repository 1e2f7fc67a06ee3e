"""The lifelike controllers: they make pods, replace lost ones and remove the right surplus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from moorage.adapters.memory.cluster import INSTANT, EmbeddedCluster
from moorage.adapters.memory.controllers.replicasets import DELETION_COST, deletion_order
from moorage.adapters.memory.controllers.templates import daemon_target
from moorage.adapters.memory.kubelet import RUN_SECONDS
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.adapters.memory.objects import KubeObject, is_ready, node_of


@pytest.fixture
def cluster() -> EmbeddedCluster:
    cluster = EmbeddedCluster(INSTANT)
    for name in ("n1", "n2"):
        cluster.create(node_manifest(name))
    return cluster


def bind_all(cluster: EmbeddedCluster, node: str = "n1") -> None:
    """Play the scheduler until nothing is pending."""
    cluster.step()
    while pending := cluster.pending_pods():
        for pod in pending:
            cluster.store.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"], node)
        cluster.step()


def pods(cluster: EmbeddedCluster, **labels: str) -> list[KubeObject]:
    def chosen(pod: KubeObject) -> bool:
        return labels.items() <= (pod["metadata"].get("labels") or {}).items()

    return [pod for pod in cluster.store.list("Pod") if chosen(pod)]


def names(objects: Iterable[KubeObject]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_a_deployment_makes_a_replica_set_that_makes_pods(cluster: EmbeddedCluster) -> None:
    """Names and owners are those of Kubernetes, and the counts arrive in the status."""
    cluster.create(workload_manifest("Deployment", "web", own={"replicas": 3}))
    bind_all(cluster)
    (replica_set,) = cluster.store.list("ReplicaSet")
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{digest}"
    assert len(pods(cluster, **{"pod-template-hash": digest})) == 3
    assert all(name.startswith(f"web-{digest}-") for name in names(pods(cluster)))
    status = cluster.store.get("Deployment", "default", "web")["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)


def test_scaling_and_replacing(cluster: EmbeddedCluster) -> None:
    """The number of pods follows the number of replicas; a lost pod is replaced by one of another name."""
    cluster.create(workload_manifest("Deployment", "web", own={"replicas": 2}))
    bind_all(cluster)
    cluster.scale("Deployment", "default", "web", 5)
    bind_all(cluster)
    assert len(pods(cluster)) == 5
    cluster.scale("Deployment", "default", "web", 1)
    cluster.step()
    (left,) = pods(cluster)
    cluster.delete("Pod", "default", left["metadata"]["name"])
    cluster.step()
    (new,) = pods(cluster)
    assert new["metadata"]["uid"] != left["metadata"]["uid"]


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param({}, id="rolling"),
        pytest.param({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, id="one by one"),
        pytest.param({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}}, id="halves"),
        pytest.param({"type": "Recreate"}, id="recreate"),
    ],
)
def test_a_new_template_replaces_all_pods(cluster: EmbeddedCluster, strategy: dict[str, Any]) -> None:
    """A rollout ends with all pods of the new template, and goes beyond no limit on its way."""
    deployment = workload_manifest("Deployment", "web", own={"replicas": 4, "strategy": strategy})
    cluster.create(deployment)
    bind_all(cluster)
    cluster.apply(workload_manifest("Deployment", "web", own={"replicas": 4, "strategy": strategy}, cpu="200m"))
    most = 0
    for _ in range(20):
        cluster.step()
        most = max(most, len(pods(cluster)))
        for pod in cluster.pending_pods():
            cluster.store.bind("default", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")
    requests = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods(cluster)]
    assert requests == ["200m"] * 4
    assert most <= 5
    assert [s["spec"]["replicas"] for s in cluster.store.list("ReplicaSet")] == [0, 4]


def test_deleting_an_owner_deletes_everything_below_it(cluster: EmbeddedCluster) -> None:
    """Garbage collection goes down the chain and leaves others alone."""
    cluster.create(workload_manifest("Deployment", "web", own={"replicas": 3}))
    cluster.create(workload_manifest("CronJob", "tick"))
    cluster.create(pod_manifest("bare"))
    bind_all(cluster)
    cluster.delete("Deployment", "default", "web")
    cluster.delete("CronJob", "default", "tick")
    cluster.step()
    assert names(cluster.store.list("Pod")) == ["bare"]
    assert cluster.store.list("ReplicaSet") == []
    assert cluster.store.list("Job") == []


def test_stateful_pods_keep_their_names(cluster: EmbeddedCluster) -> None:
    """A lost pod comes back under its name, and scaling down takes the highest ordinals."""
    cluster.create(workload_manifest("StatefulSet", "db", own={"replicas": 3}))
    bind_all(cluster)
    cluster.delete("Pod", "default", "db-1")
    bind_all(cluster)
    assert sorted(names(pods(cluster))) == ["db-0", "db-1", "db-2"]
    cluster.scale("StatefulSet", "default", "db", 1)
    cluster.step()
    assert names(pods(cluster)) == ["db-0"]


def test_a_job_runs_to_its_end(cluster: EmbeddedCluster) -> None:
    """At most `parallelism` pods at once; complete when `completions` have succeeded."""
    job = workload_manifest("Job", "sum", own={"parallelism": 2, "completions": 3})
    job["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: "10"}
    cluster.create(job)
    most = 0
    for _ in range(4):
        bind_all(cluster)
        most = max(most, sum(1 for pod in pods(cluster) if is_ready(pod)))
        cluster.advance(cluster.now_s + 10)
    status = cluster.store.get("Job", "default", "sum")["status"]
    assert most == 2
    assert (status["succeeded"], status["active"]) == (3, 0)
    assert status["conditions"][0]["type"] == "Complete"


def test_failed_pods_of_a_job_are_made_again_until_the_limit(cluster: EmbeddedCluster) -> None:
    """More failures than backoffLimit end the Job."""
    cluster.create(workload_manifest("Job", "bad", own={"backoffLimit": 1}))
    for want_pods in (1, 2, 2):
        bind_all(cluster)
        assert len(pods(cluster)) == want_pods
        for pod in pods(cluster):
            cluster.store.patch_status("Pod", "default", pod["metadata"]["name"], {"phase": "Failed"})
    cluster.step()
    assert cluster.store.get("Job", "default", "bad")["status"]["conditions"][0]["type"] == "Failed"


def test_daemons_follow_the_nodes(cluster: EmbeddedCluster) -> None:
    """One pod per node; a new node gets one, a tainted one loses it."""
    cluster.create(workload_manifest("DaemonSet", "log"))
    cluster.step()
    assert sorted(daemon_target(pod) for pod in pods(cluster)) == ["n1", "n2"]
    cluster.create(node_manifest("n3"))
    cluster.patch("Node", "", "n1", {"spec": {"taints": [{"key": "t", "effect": "NoExecute"}]}})
    cluster.step()
    assert sorted(daemon_target(pod) for pod in pods(cluster)) == ["n2", "n3"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_bare_replica_owners(cluster: EmbeddedCluster, kind: str) -> None:
    """Both kinds work alike."""
    cluster.create(workload_manifest(kind, "r", own={"replicas": 2}))
    cluster.step()
    assert len(pods(cluster)) == 2


def test_a_refused_pod_is_a_warning_not_a_crash(cluster: EmbeddedCluster) -> None:
    """An owner whose pods admission refuses makes none until the reason is gone and the owner is touched."""
    cluster.create(workload_manifest("ReplicaSet", "r", priorityClassName="gone"))
    cluster.step()
    assert pods(cluster) == []
    assert "no PriorityClass with name gone was found" in cluster.warnings[0]
    cluster.create(manifest("PriorityClass", "gone", value=1))
    cluster.patch("ReplicaSet", "default", "r", {"metadata": {"labels": {"touched": "yes"}}})
    cluster.step()
    assert len(pods(cluster)) == 1
    assert cluster.warnings == ()


def test_deletion_order(cluster: EmbeddedCluster) -> None:
    """Unbound first, then by deletion cost, then from the fullest node, then the newest."""
    for name, node, cost in (
        ("costly", "n1", "10"),
        ("old", "n1", "0"),
        ("new", "n1", "0"),
        ("lonely", "n2", "0"),
        ("cheap", "n2", "-5"),
        ("odd", "n1", "many"),
        ("pending", "", "100"),
    ):
        pod = cluster.create(pod_manifest(name, annotations={DELETION_COST: cost}))
        if node:
            cluster.store.bind("default", name, pod["metadata"]["uid"], node)
    cluster.step()
    assert names(deletion_order(pods(cluster), cluster.store)) == [
        "pending",
        "cheap",
        "odd",
        "new",
        "old",
        "lonely",
        "costly",
    ]
    assert all(node_of(pod) for pod in pods(cluster) if pod["metadata"]["name"] != "pending")
