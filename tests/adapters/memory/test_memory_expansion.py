"""The simulator's rules for making pods (what is wanted minus what lives, named in order, owned by the input)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.controllers.demand import replicas_wanted
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.controllers.templates import daemon_target
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.adapters.memory.objects import KubeObject, controller_of
from moorage.core.controllers import REVISION

NODES = [node_manifest("n1", zone="z1"), node_manifest("n2", zone="z2", taints=[{"key": "t", "effect": "NoSchedule"}])]


def loaded(*objects: KubeObject) -> EmbeddedCluster:
    cluster = EmbeddedCluster(SIMULATION)
    cluster.load([*NODES, *objects])
    cluster.step()
    return cluster


def names(cluster: EmbeddedCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.store.list("Pod")]


def owned(obj: dict[str, Any], kind: str, name: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def with_uid(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "uid": uid}}


@pytest.mark.parametrize(
    ("kind", "own", "want"),
    [
        pytest.param("Deployment", {"replicas": 2}, ["web-0", "web-1"], id="deployment"),
        pytest.param("Deployment", {}, ["web-0"], id="one by default"),
        pytest.param("Deployment", {"replicas": 0}, [], id="none"),
        pytest.param("ReplicaSet", {"replicas": 2}, ["web-0", "web-1"], id="replica set"),
        pytest.param("ReplicationController", {"replicas": 1}, ["web-0"], id="replication controller"),
        pytest.param("StatefulSet", {"replicas": 2}, ["web-0", "web-1"], id="stateful set"),
        pytest.param("StatefulSet", {"replicas": 2, "ordinals": {"start": 3}}, ["web-3", "web-4"], id="ordinals"),
        pytest.param("DaemonSet", {}, ["web-0"], id="daemon set, one eligible node"),
        pytest.param("Job", {"parallelism": 3, "completions": 2}, ["web-0", "web-1"], id="job, completions"),
        pytest.param("Job", {"parallelism": 2, "completions": 9}, ["web-0", "web-1"], id="job, parallelism"),
        pytest.param("Job", {"parallelism": 2}, ["web-0", "web-1"], id="job, work queue"),
        pytest.param("Job", {"parallelism": 2, "suspend": True}, [], id="suspended job"),
        pytest.param("CronJob", {"parallelism": 2, "completions": 2}, ["web-0", "web-1"], id="cron job"),
        pytest.param("CronJob", {"suspend": True}, [], id="suspended cron job"),
    ],
)
def test_every_kind_makes_its_pods(kind: str, own: dict[str, Any], want: list[str]) -> None:
    """Names run from zero and are those of the object in the input, whatever its kind."""
    cluster = loaded(workload_manifest(kind, "web", own=own))
    assert names(cluster) == want
    assert {pod["status"]["phase"] for pod in cluster.store.list("Pod")} <= {"Pending"}


@pytest.mark.parametrize(
    ("kind", "want_chain"),
    [
        pytest.param("Deployment", ["ReplicaSet", "Deployment"], id="deployment"),
        pytest.param("CronJob", ["Job", "CronJob"], id="cron job"),
        *(
            pytest.param(kind, [kind], id=kind)
            for kind in ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
        ),
    ],
)
def test_pods_are_owned_as_live(kind: str, want_chain: list[str]) -> None:
    """A Deployment has a ReplicaSet and a CronJob has a Job, which select the pods by labels of their own."""
    cluster = loaded(workload_manifest(kind, "web"))
    (pod,) = cluster.store.list("Pod")
    ancestors = [*Lineage(cluster.store).ancestors(pod)]
    assert [each["kind"] for each in ancestors] == want_chain
    assert ancestors[-1]["metadata"]["name"] == "web"
    if len(want_chain) == 2:
        selected = ancestors[0]["spec"]["selector"]["matchLabels"]
        assert selected.keys() - ancestors[-1]["spec"].get("selector", {}).get("matchLabels", {}).keys()
        assert selected.items() <= pod["metadata"]["labels"].items()
        assert selected.items() <= ancestors[0]["spec"]["template"]["metadata"]["labels"].items()


def test_a_replica_set_has_what_its_deployment_says() -> None:
    """Its number, its annotations but for those of kubectl, and its revision, as of the Deployment controller."""
    deployment = workload_manifest("Deployment", "web", own={"replicas": 3})
    said = {"moorage.dev/min-hosts": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    cluster = loaded({**deployment, "metadata": {**deployment["metadata"], "annotations": said}})
    (made,) = cluster.store.list("ReplicaSet")
    assert made["spec"]["replicas"] == 3
    assert made["metadata"]["annotations"] == {"moorage.dev/min-hosts": "2", "deployment.kubernetes.io/revision": "1"}
    assert loaded(workload_manifest("Deployment", "web", own={"replicas": 0})).store.list("ReplicaSet") != []
    assert loaded(workload_manifest("CronJob", "web", own={"suspend": True})).store.list("Job") == []


def test_a_daemon_pod_is_pinned_and_tolerates_what_daemons_tolerate() -> None:
    """The pod asks for one node by name; taints keep it off others unless it tolerates them."""
    tolerant = workload_manifest("DaemonSet", "ds", tolerations=[{"operator": "Exists"}])
    cluster = loaded(workload_manifest("DaemonSet", "shy"), tolerant)
    targets = {pod["metadata"]["name"]: daemon_target(pod) for pod in cluster.store.list("Pod")}
    assert targets == {"shy-0": "n1", "ds-0": "n1", "ds-1": "n2"}
    keys = {t.get("key") for t in cluster.store.get("Pod", "default", "shy-0")["spec"]["tolerations"]}
    assert {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"} <= keys


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"nodeSelector": {"topology.kubernetes.io/zone": "z1"}}, ["n1"], id="selector"),
        pytest.param({"nodeSelector": {"topology.kubernetes.io/zone": "z9"}}, [], id="no match"),
        pytest.param({"nodeName": "n2", "tolerations": [{"operator": "Exists"}]}, ["n2"], id="node name"),
    ],
)
def test_daemons_go_where_their_template_allows(spec: dict[str, Any], want: list[str]) -> None:
    """Selector, affinity and node name of the template choose the nodes."""
    cluster = loaded(workload_manifest("DaemonSet", "ds", **spec))
    assert [daemon_target(pod) for pod in cluster.store.list("Pod")] == want


DEPLOYMENT = with_uid(workload_manifest("Deployment", "web", own={"replicas": 3}), "d")
REPLICA_SET = owned(
    with_uid(workload_manifest("ReplicaSet", "web-hx2", own={"replicas": 3}), "r"), "Deployment", "web", "d"
)
POD = owned(pod_manifest("web-hx2-p1", labels={"pod-template-hash": "hx2"}), "ReplicaSet", "web-hx2", "r")
ENDED = {**POD, "metadata": {**POD["metadata"], "name": "web-hx2-p2"}, "status": {"phase": "Failed"}}


@pytest.mark.parametrize(
    ("objects", "want_made"),
    [
        pytest.param([DEPLOYMENT, REPLICA_SET, POD], ["web-0", "web-1"], id="through the replica set"),
        pytest.param([POD, REPLICA_SET, DEPLOYMENT], ["web-0", "web-1"], id="in any order"),
        pytest.param([DEPLOYMENT, POD], ["web-0", "web-1"], id="replica set left out of the input"),
        pytest.param([REPLICA_SET, POD], ["web-hx2-0", "web-hx2-1"], id="deployment left out of the input"),
        pytest.param([DEPLOYMENT, REPLICA_SET, ENDED], ["web-0", "web-1", "web-2"], id="ended pods do not count"),
    ],
)
def test_only_the_shortfall_is_made(objects: list[KubeObject], want_made: list[str]) -> None:
    """Live pods count through the object between them and the owner; that object is not expanded itself."""
    cluster = loaded(*objects)
    given = {obj["metadata"]["name"] for obj in objects}
    assert [name for name in names(cluster) if name not in given] == want_made


def test_the_newest_replica_set_of_the_input_gets_the_shortfall() -> None:
    """By its revision, whatever the order; it is scaled to what the others leave, and the old one stays as it is."""

    def of_revision(number: int) -> KubeObject:
        made = owned(
            with_uid(workload_manifest("ReplicaSet", f"web-h{number}"), f"r{number}"), "Deployment", "web", "d"
        )
        metadata = made["metadata"] | {
            "labels": {"pod-template-hash": f"h{number}"},
            "annotations": {"deployment.kubernetes.io/revision": str(number)},
        }
        return {**made, "metadata": metadata}

    old = owned(pod_manifest("web-h9-p", labels={"pod-template-hash": "h9"}), "ReplicaSet", "web-h9", "r9")
    cluster = loaded(DEPLOYMENT, of_revision(10), of_revision(9), old)
    made = [pod for pod in cluster.store.list("Pod") if pod["metadata"]["name"] != "web-h9-p"]
    assert [pod["metadata"]["labels"]["pod-template-hash"] for pod in made] == ["h10", "h10"]
    assert {(controller_of(pod) or {})["name"] for pod in made} == {"web-h10"}
    replicas = {each["metadata"]["name"]: replicas_wanted(each) for each in cluster.store.list("ReplicaSet")}
    assert replicas == {"web-h10": 2, "web-h9": 1}


@pytest.mark.parametrize("first", ["Deployment", "ReplicaSet"])
def test_a_replica_set_without_a_controller_is_taken_by_the_deployment_that_selects_it(first: str) -> None:
    """As live; it makes no pods of its own beside those of the Deployment."""
    deployment = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "selector": {"matchLabels": {"app": "web"}}}}
    orphan = with_uid(workload_manifest("ReplicaSet", "web-hx2", own={"replicas": 2}), "r")
    orphan = {**orphan, "metadata": {**orphan["metadata"], "labels": {"app": "web", "pod-template-hash": "hx2"}}}
    other = with_uid(workload_manifest("ReplicaSet", "alone", own={"replicas": 1}), "o")
    objects = [deployment, orphan, other] if first == "Deployment" else [orphan, other, deployment]
    cluster = loaded(*objects)
    pods = cluster.store.list("Pod")
    assert sorted(pod["metadata"]["name"] for pod in pods) == ["alone-0", "web-0", "web-1", "web-2"]
    assert Counter((controller_of(pod) or {})["name"] for pod in pods) == {"web-hx2": 3, "alone": 1}


@pytest.mark.parametrize("text", ["9" * 5000, "٣", "", "-1"], ids=["5,000 digits", "not ASCII", "nothing", "negative"])
def test_a_revision_that_is_no_number_is_the_oldest(text: str) -> None:
    def numbered(name: str, revision: str) -> KubeObject:
        made = owned(with_uid(workload_manifest("ReplicaSet", name), name), "Deployment", "web", "d")
        return {**made, "metadata": made["metadata"] | {"annotations": {REVISION: revision}}}

    cluster = loaded(DEPLOYMENT, numbered("web-odd", text), numbered("web-new", "1"))
    owners = {(controller_of(pod) or {})["name"] for pod in cluster.store.list("Pod")}
    assert owners == {"web-new"}


def test_what_the_input_leaves_out_between_owner_and_pods_comes_back_as_it_was() -> None:
    """The pods of `kubectl get deployments,cronjobs,pods` have one owner with those that are made beside them."""
    job_pod = owned(pod_manifest("tick-29000000-p"), "Job", "tick-29000000", "j")
    cron = with_uid(workload_manifest("CronJob", "tick", own={"parallelism": 2, "completions": 2}), "c")
    cluster = loaded(DEPLOYMENT, POD, cron, job_pod)
    assert {each["metadata"]["uid"]: each["metadata"]["name"] for each in cluster.store.list("ReplicaSet")} == {
        "r": "web-hx2"
    }
    assert {each["metadata"]["uid"]: each["metadata"]["name"] for each in cluster.store.list("Job")} == {
        "j": "tick-29000000"
    }
    owners = {pod["metadata"]["name"]: (controller_of(pod) or {})["uid"] for pod in cluster.store.list("Pod")}
    assert owners == {
        "web-hx2-p1": "r", "web-0": "r", "web-1": "r", "tick-29000000-p": "j", "tick-0": "j"
    }  # fmt: skip
    assert cluster.store.find("Pod", "default", "web-0")["metadata"]["labels"]["pod-template-hash"] == "hx2"  # type: ignore[index]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, ["tick-0", "tick-1"], id="that runs"),
        pytest.param({"succeeded": 1}, ["tick-0"], id="half done"),
        pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, ["tick-0"], id="over, so a new one"),
    ],
)
def test_the_job_of_a_cron_job_in_the_input(status: dict[str, Any], want: list[str]) -> None:
    """Its own numbers count as long as it runs."""
    cron = with_uid(workload_manifest("CronJob", "tick"), "c")
    job = owned(
        with_uid(workload_manifest("Job", "tick-1", own={"parallelism": 2, "completions": 2}), "j"),
        "CronJob",
        "tick",
        "c",
    )
    assert names(loaded(cron, {**job, "status": status})) == want


def test_owners_without_uids_are_matched_by_name() -> None:
    """Hand-written files have no uids; their owner references work all the same."""
    pod = owned(pod_manifest("mine"), "Deployment", "web", "")
    cluster = loaded(pod, workload_manifest("Deployment", "web", own={"replicas": 2}))
    assert names(cluster) == ["mine", "web-0"]


def test_a_finished_or_half_finished_job_makes_what_is_left() -> None:
    """Completions that have happened are not wanted again."""
    job = workload_manifest("Job", "j", own={"parallelism": 5, "completions": 5})
    half = {**job, "status": {"succeeded": 3}}
    over = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert names(loaded(half)) == ["j-0", "j-1"]
    assert names(loaded(over)) == []


def test_indexed_jobs_number_their_pods() -> None:
    """Each pod has a completion index of its own, as label and annotation."""
    cluster = loaded(
        workload_manifest("Job", "j", own={"parallelism": 2, "completions": 2, "completionMode": "Indexed"})
    )
    key = "batch.kubernetes.io/job-completion-index"
    assert [pod["metadata"]["annotations"][key] for pod in cluster.store.list("Pod")] == ["0", "1"]
    assert cluster.store.list("Pod")[0]["metadata"]["labels"]["job-name"] == "j"


def test_taken_names_are_skipped() -> None:
    """Two owners of one name share the sequence."""
    cluster = loaded(
        pod_manifest("web-1"),
        workload_manifest("Deployment", "web", own={"replicas": 2}),
        workload_manifest("ReplicaSet", "web", own={"replicas": 1}),
    )
    assert names(cluster) == ["web-1", "web-0", "web-2", "web-3"]


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        pytest.param("Deployment", ["web-1", "web-2"], id="next free name"),
        pytest.param("StatefulSet", ["web-1", "web-0"], id="the name is the identity"),
    ],
)
def test_evicted_pods_come_back(kind: str, want: list[str]) -> None:
    """A lost pod of an owner in the input is replaced; one without owner is not."""
    cluster = loaded(workload_manifest(kind, "web", own={"replicas": 2}), pod_manifest("bare"))
    for name in ("web-0", "bare"):
        uid = cluster.store.get("Pod", "default", name)["metadata"]["uid"]
        cluster.store.bind("default", name, uid, "n1")
    cluster.step()
    for name in ("web-0", "bare"):
        cluster.delete("Pod", "default", name)
    cluster.step()
    assert names(cluster) == want


def test_an_evicted_daemon_comes_back_for_its_node() -> None:
    """One pod per eligible node, also after evictions and for nodes that join."""
    cluster = loaded(workload_manifest("DaemonSet", "ds"))
    cluster.delete("Pod", "default", "ds-0")
    cluster.create(node_manifest("n3"))
    cluster.step()
    assert {pod["metadata"]["name"]: daemon_target(pod) for pod in cluster.store.list("Pod")} == {
        "ds-1": "n1",
        "ds-2": "n3",
    }


def test_surplus_pods_stay() -> None:
    """The input says that they exist."""
    pods = [owned(pod_manifest(f"p{n}"), "Deployment", "web", "d") for n in range(3)]
    cluster = loaded(with_uid(workload_manifest("Deployment", "web", own={"replicas": 1}), "d"), *pods)
    assert names(cluster) == ["p0", "p1", "p2"]


def test_deployment_pods_carry_the_hash_of_the_newest_replica_set() -> None:
    """MatchLabelKeys on pod-template-hash then groups old and new pods of one revision."""
    newest = {**REPLICA_SET, "metadata": {**REPLICA_SET["metadata"], "labels": {"pod-template-hash": "hx2"}}}
    cluster = loaded(DEPLOYMENT, newest)
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in cluster.store.list("Pod")} == {"hx2"}


def test_made_pods_stand_where_their_owner_stands() -> None:
    """Place in the input orders pods of equal priority and age."""
    cluster = loaded(workload_manifest("Deployment", "b", own={"replicas": 2}), pod_manifest("a"))
    ordered = sorted(cluster.pending_pods(), key=cluster.place_of)
    assert [pod["metadata"]["name"] for pod in ordered] == ["b-0", "b-1", "a"]


def test_priority_classes_apply_wherever_they_stand_in_the_input() -> None:
    """A class at the end of the file counts for the pods at its beginning."""
    cluster = loaded(pod_manifest("a", priorityClassName="high"), manifest("PriorityClass", "high", value=5))
    assert cluster.store.get("Pod", "default", "a")["spec"]["priority"] == 5
    assert cluster.warnings == ()


def test_a_stateful_set_makes_its_claims() -> None:
    """One claim per pod and template, mounted by the pod."""
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    cluster = loaded(workload_manifest("StatefulSet", "db", own={"replicas": 1, "volumeClaimTemplates": [claim]}))
    assert cluster.store.find("PersistentVolumeClaim", "default", "data-db-0") is not None
    volumes = cluster.store.get("Pod", "default", "db-0")["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
