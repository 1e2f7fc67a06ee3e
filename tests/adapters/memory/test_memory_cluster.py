"""Kubelets, collectors, time and commands of the embedded cluster."""

from __future__ import annotations

import pytest

from moorage.adapters.memory.cluster import INSTANT, LIFELIKE, SIMULATION, Behaviour, EmbeddedCluster
from moorage.adapters.memory.errors import Invalid
from moorage.adapters.memory.kubelet import RUN_SECONDS, KubeletOptions
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.adapters.memory.objects import KubeObject, condition_of, is_ready
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus, PodRef, RecordEvent
from moorage.core.events import BindDone, BindOutcome, DeleteDone
from moorage.core.pods import Condition
from moorage.wire.kinds import find_kind
from moorage.wire.pod import pod_from_builtin

SLOW = Behaviour(lifelike=True, kubelet=KubeletOptions(start_delay_s=2.0, stop_delay_s=None), pod_collection_delay_s=5)


def made(behaviour: Behaviour) -> EmbeddedCluster:
    cluster = EmbeddedCluster(behaviour)
    cluster.create(node_manifest("n1", zone="z1"))
    cluster.step()
    return cluster


def bound(cluster: EmbeddedCluster, name: str = "a", node: str = "n1", **annotations: str) -> KubeObject:
    pod = cluster.create(pod_manifest(name, annotations=annotations))
    return cluster.store.bind("default", name, pod["metadata"]["uid"], node)


def phase(cluster: EmbeddedCluster, name: str = "a") -> str | None:
    pod = cluster.store.find("Pod", "default", name)
    return None if pod is None else pod["status"]["phase"]


def test_a_bound_pod_runs_after_its_delay_and_ends_after_its_grace() -> None:
    """Each step at its own time, with conditions and start time."""
    cluster = made(SLOW)
    start_s = cluster.now_s
    bound(cluster)
    cluster.advance(start_s + 1)
    assert phase(cluster) == "Pending"
    cluster.advance(start_s + 2)
    pod = cluster.store.get("Pod", "default", "a")
    assert (phase(cluster), is_ready(pod)) == ("Running", True)
    assert pod["status"]["startTime"] == "2026-01-01T00:00:02Z"
    cluster.delete("Pod", "default", "a", grace_s=10)
    cluster.advance(start_s + 5)
    cluster.store.patch_status("Pod", "default", "a", {"message": "still here"})
    cluster.advance(start_s + 11)
    assert phase(cluster) == "Running"
    cluster.advance(start_s + 12)
    assert phase(cluster) is None


def test_a_pod_deleted_before_it_runs_never_runs() -> None:
    """The timer for its start is replaced by the one for its end."""
    cluster = made(SLOW)
    bound(cluster)
    cluster.step()
    cluster.delete("Pod", "default", "a", grace_s=1)
    cluster.advance(cluster.now_s + 1)
    assert phase(cluster) is None
    assert cluster.next_s is None


def test_annotated_pods_succeed_after_running() -> None:
    """Any pod with the annotation completes; a number that is none is ignored."""
    cluster = made(INSTANT)
    bound(cluster, "short", **{RUN_SECONDS: "1.5"})
    bound(cluster, "odd", **{RUN_SECONDS: "nan"})
    cluster.step()
    assert phase(cluster, "short") == "Running"
    cluster.advance(cluster.now_s + 2)
    assert (phase(cluster, "short"), phase(cluster, "odd")) == ("Succeeded", "Running")
    assert not is_ready(cluster.store.get("Pod", "default", "short"))


def test_a_pod_on_a_missing_node_waits_for_it() -> None:
    """Nobody runs it until the node joins; the node becomes ready."""
    cluster = made(INSTANT)
    bound(cluster, node="n2")
    cluster.step()
    assert phase(cluster) == "Pending"
    cluster.create(node_manifest("n2"))
    cluster.step()
    assert phase(cluster) == "Running"
    assert is_ready(cluster.store.get("Node", "", "n2"))


@pytest.mark.parametrize(
    ("comes_back", "want"), [pytest.param(False, None, id="gone"), pytest.param(True, "Running", id="back in time")]
)
def test_pods_of_a_deleted_node_go_a_little_later(comes_back: bool, want: str | None) -> None:
    """Unless the node has come back by then."""
    cluster = made(SLOW)
    bound(cluster)
    cluster.advance(cluster.now_s + 3)
    cluster.delete("Node", "", "n1")
    cluster.advance(cluster.now_s + 4)
    assert phase(cluster) == "Running"
    if comes_back:
        cluster.create(node_manifest("n1"))
    cluster.advance(cluster.now_s + 1)
    assert phase(cluster) == want


def test_apply_creates_then_replaces_and_keeps_the_status() -> None:
    """The same manifest again changes nothing."""
    cluster = made(LIFELIKE)
    web = workload_manifest("Deployment", "web", own={"replicas": 1})
    cluster.apply(web)
    cluster.step()
    version = cluster.store.resource_version
    cluster.apply(web)
    assert cluster.store.resource_version == version
    changed = cluster.apply(workload_manifest("Deployment", "web", own={"replicas": 2}))
    assert changed["status"]["replicas"] == 1
    assert changed["metadata"]["generation"] == 2


def test_scale_refuses_negative_numbers() -> None:
    """One line with the field, the value and the remedy."""
    with pytest.raises(Invalid, match=r"spec.replicas: Invalid value: -1: give 0 or more"):
        made(INSTANT).scale("Deployment", "default", "web", -1)


def test_the_same_calls_give_the_same_cluster() -> None:
    """Names, uids, times and versions are equal, change for change."""

    def story(seed: int) -> list[tuple[str, KubeObject]]:
        cluster = EmbeddedCluster(LIFELIKE, seed=seed)
        watch = cluster.watch()
        cluster.create(node_manifest("n1"))
        cluster.create(workload_manifest("Deployment", "web", own={"replicas": 3}))
        for _ in range(3):
            cluster.advance(cluster.now_s + 2)
            for pod in cluster.pending_pods():
                cluster.store.bind("default", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")
        return [(change.type.value, change.object) for change in watch.pull()]

    assert story(1) == story(1)
    assert story(1) != story(2)


@pytest.mark.parametrize("behaviour", [pytest.param(INSTANT, id="lifelike"), pytest.param(SIMULATION, id="simulation")])
def test_everything_that_is_made_can_be_decoded(behaviour: Behaviour) -> None:
    """Whatever controllers, kubelets and the volume binder write is read by the engine's decoders without complaint."""
    cluster = made(behaviour)
    cluster.create(manifest("StorageClass", "fast", provisioner="disk.example"))
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"):
        own = {"volumeClaimTemplates": [claim]} if kind == "StatefulSet" else {}
        cluster.create(workload_manifest(kind, f"a-{kind.lower()}", own=own))
    cluster.step()
    for pod in cluster.pending_pods():
        cluster.store.bind("default", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")
    cluster.step()
    for kind in cluster.store.kinds():
        for obj in cluster.store.list(kind):
            reader = find_kind(obj["apiVersion"], kind)
            assert reader is not None
            reader.from_builtin(obj)
    pods = [pod_from_builtin(pod) for pod in cluster.store.list("Pod")]
    assert len(pods) == 7
    assert {(pod.node, pod.phase) for pod in pods} == {("n1", "Running")}


# Commands


def ref(pod: KubeObject, uid: str | None = None) -> PodRef:
    metadata = pod["metadata"]
    return PodRef(metadata["namespace"], metadata["name"], uid or metadata["uid"])


def test_bind_command_outcomes() -> None:
    """Every answer of the API server becomes the outcome that the engine expects."""
    cluster = made(INSTANT)
    runner = CommandRunner(cluster.store)
    pod = cluster.create(pod_manifest("a"))
    gated = cluster.create(pod_manifest("gated", schedulingGates=[{"name": "g"}]))

    def outcome(command: Command) -> tuple[BindOutcome, str | None]:
        answer = runner.run(command)
        assert isinstance(answer, BindDone)
        return answer.outcome, answer.node

    assert outcome(Bind(ref(pod), "n1")) == (BindOutcome.BOUND, "n1")
    assert outcome(Bind(ref(pod), "n1")) == (BindOutcome.BOUND, "n1")
    assert outcome(Bind(ref(pod), "n2")) == (BindOutcome.ELSEWHERE, "n1")
    assert outcome(Bind(ref(pod, uid="other"), "n1")) == (BindOutcome.GONE, None)
    assert outcome(Bind(PodRef("default", "unknown", "u"), "n1")) == (BindOutcome.GONE, None)
    assert outcome(Bind(ref(gated), "n1")) == (BindOutcome.FAILED, "n1")


def test_delete_command_marks_the_victim_first() -> None:
    """The condition says why; a pod that is gone, or another one of its name, is no failure and stays untouched."""
    cluster = made(SLOW)
    runner = CommandRunner(cluster.store)
    pod = bound(cluster)
    other = DeletePod(ref(pod, uid="other"), "PreemptionByScheduler", "m")
    assert runner.run(other) == DeleteDone("other", ok=True)
    assert "deletionTimestamp" not in cluster.store.get("Pod", "default", "a")["metadata"]
    assert runner.run(DeletePod(ref(pod), "PreemptionByScheduler", "make room")) == DeleteDone(
        pod["metadata"]["uid"], ok=True
    )
    victim = cluster.store.get("Pod", "default", "a")
    assert condition_of(victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert victim["metadata"]["deletionGracePeriodSeconds"] == 30


def test_status_command_writes_condition_and_nomination() -> None:
    """None leaves a part alone, the empty string clears the nomination; a repeated write commits nothing."""
    cluster = made(INSTANT)
    runner = CommandRunner(cluster.store)
    pod = cluster.create(pod_manifest("a"))
    condition = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
    assert runner.run(PatchPodStatus(ref(pod), condition, "n1", 1)) is None
    status = cluster.store.get("Pod", "default", "a")["status"]
    assert status["nominatedNodeName"] == "n1"
    assert status["conditions"][0]["reason"] == "Unschedulable"
    assert status["conditions"][0]["observedGeneration"] == 1
    version = cluster.store.resource_version
    runner.run(PatchPodStatus(ref(pod), condition, None, 1))
    assert cluster.store.resource_version == version
    runner.run(PatchPodStatus(ref(pod), nominated_node=""))
    assert "nominatedNodeName" not in cluster.store.get("Pod", "default", "a")["status"]
    runner.run(PatchPodStatus(PodRef("default", "unknown", "u"), condition))


def test_event_commands_become_events_with_series() -> None:
    """Equal events are counted, long notes are cut, the oldest make room."""
    cluster = made(INSTANT)
    runner = CommandRunner(cluster.store, keep_events=2)
    pod = ref(cluster.create(pod_manifest("a")))

    def event(note: str) -> RecordEvent:
        return RecordEvent(pod, "Warning", "FailedScheduling", "Scheduling", note, "moorage", related=pod)

    for note in ("x", "x", "y" * 2000):
        runner.run(event(note))
    first, second = cluster.store.list("Event")
    assert first["series"]["count"] == 2
    assert first["regarding"]["uid"] == pod.uid
    assert (len(second["note"]), second["note"][-4:]) == (1024, " ...")
    runner.run(event("z"))
    assert [e["note"][0] for e in cluster.store.list("Event")] == ["y", "z"]
