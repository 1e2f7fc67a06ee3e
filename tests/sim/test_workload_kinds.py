"""Every kind of workload is placed as its row of the table says, from what its users write and its controller makes."""

from __future__ import annotations

import pytest

from moorage.adapters.memory.manifests import node_manifest
from moorage.core.gangowners import GangOwner
from moorage.sim.outcome import SimulationOutcome
from moorage.wire.kinds import KINDS
from moorage.wire.workloadrows import ROWS
from tests.sim.simulating import places, run
from tests.sim.workload_samples import (
    SAMPLES,
    Body,
    jobset,
    leader_worker_set,
    mpi_v2,
    pod,
    ray_cluster,
    reference,
    thing,
)


def room_for(count: int) -> list[Body]:
    """Nodes that hold a pod each."""
    return [node_manifest(f"n{number}", cpu="1") for number in range(count)]


def scheduled(outcome: SimulationOutcome) -> int:
    """How many pods have a node now."""
    return sum(1 for node in places(outcome).values() if node)


@pytest.mark.parametrize("row", SAMPLES)
def test_a_workload_is_placed_as_a_whole(row: str) -> None:
    """With room for one pod less than it needs none is placed, with room for those that it needs they are."""
    sample = SAMPLES[row]()
    names = {f"default/{each['metadata']['name']}" for each in sample.pods}
    if sample.together > 1:
        placed = places(run([*room_for(sample.together - 1), *sample.objects, *sample.pods]))
        assert {name for name in names if placed[name]} == set()
    placed = places(run([*room_for(sample.together), *sample.objects, *sample.pods]))
    assert sum(1 for name in names if placed[name]) == sample.together
    placed = places(run([*room_for(len(names)), *sample.objects, *sample.pods]))
    assert names <= placed.keys()
    assert all(placed[name] for name in names)


def test_every_row_has_a_sample() -> None:
    """What is in the table is placed above."""
    shown = {
        (each["apiVersion"].rpartition("/")[0], each["kind"]) for make in SAMPLES.values() for each in make().objects
    }
    assert {(row.group, row.kind) for row in ROWS} <= shown
    assert {kind.id for kind in KINDS if kind.value is GangOwner} == {row.id for row in ROWS}


# --- what simulate makes of the object alone ---


def test_a_jobset_is_expanded_with_the_labels_of_its_controller() -> None:
    """All Jobs and indexes, and as one gang."""
    (owner, *_), _, _ = jobset()
    found = run([*room_for(5), owner])
    assert sorted(places(found)) == [
        "default/train-driver-0-0",
        "default/train-worker-0-0",
        "default/train-worker-0-1",
        "default/train-worker-1-0",
        "default/train-worker-1-1",
    ]
    assert scheduled(found) == 5
    assert scheduled(run([*room_for(4), owner])) == 0


def test_what_a_jobset_has_is_not_made_again() -> None:
    """Only the shortfall is."""
    objects, made, _ = jobset()
    assert len(places(run([*room_for(5), *objects, *made[:3]]))) == 5


def test_a_suspended_jobset_has_no_pods() -> None:
    """Nothing is made."""
    (owner, *_), _, _ = jobset(suspend=True)
    assert places(run([*room_for(5), owner])) == {}


def test_a_leader_worker_set_is_expanded_group_by_group() -> None:
    """Each group is a gang."""
    (owner, *_), _, _ = leader_worker_set()
    assert scheduled(run([*room_for(6), owner])) == 6
    assert scheduled(run([*room_for(5), owner])) == 3
    assert scheduled(run([*room_for(2), owner])) == 0


# --- traps ---


def test_the_roles_of_a_jobset_in_order_are_gangs_of_their_own() -> None:
    """The workers are made when the driver runs: a gang of all would wait for ever."""
    (owner, *_), _, _ = jobset(startupPolicy={"startupPolicyOrder": "InOrder"})
    found = run([*room_for(5), owner])
    assert scheduled(found) == 5
    found = run([*room_for(4), owner])
    assert {name for name, node in places(found).items() if node} == {"default/train-driver-0-0"}
    assert len(places(found)) == 5


def test_a_role_that_depends_on_another_is_a_gang_of_its_own() -> None:
    """Likewise."""
    (owner, *_), _, _ = jobset()
    owner["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert scheduled(run([*room_for(5), owner])) == 5
    assert scheduled(run([*room_for(4), owner])) == 1


def test_workers_that_are_made_when_the_leader_is_ready_are_a_gang() -> None:
    """The leader is placed alone, and the workers together."""
    (owner, *_), _, _ = leader_worker_set(startupPolicy="LeaderReady", replicas=1)
    assert scheduled(run([*room_for(3), owner])) == 3
    found = run([*room_for(2), owner])
    assert {name for name, node in places(found).items() if node} == {"default/serve-0"}
    assert len(places(found)) == 3


def test_exclusive_placement_makes_followers_later() -> None:
    """JobSet and LeaderWorkerSet make followers only when their leader has a node: leaders cannot wait for them."""
    objects, made, _ = jobset()
    objects[0]["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    leaders = [each for each in made if each["metadata"]["name"].endswith("-0")]
    assert len(leaders) == 3
    quiet = [each for each in objects if each["kind"] != "JobSet"]
    for each in quiet:
        each["spec"]["suspend"] = True
    waiting = {**objects[0], "spec": {**objects[0]["spec"], "suspend": True}}
    assert scheduled(run([*room_for(3), waiting, *quiet, *leaders])) == 3
    assert scheduled(run([*room_for(2), waiting, *quiet, *leaders])) == 0


def test_a_launcher_that_comes_later_does_not_count_and_joins() -> None:
    """Workers start without it; when it is there, it is placed."""
    objects, made, _ = mpi_v2()
    launcher_job = thing("batch/v1", "Job", "solve-launcher", {"parallelism": 1}, objects[0])
    labels = {"training.kubeflow.org/job-name": "solve", "training.kubeflow.org/job-role": "launcher"}
    launcher = pod("solve-launcher-x", launcher_job, None, **labels)
    standing = [{**each, "spec": {**each["spec"], "nodeName": f"n{n}"}} for n, each in enumerate(made)]
    found = run([*room_for(4), *objects, launcher_job, *standing, launcher])
    assert places(found)["default/solve-launcher-x"] == "n3"


def test_the_submitter_of_a_ray_job_is_placed_alone() -> None:
    """It is made by a Job of the RayJob when the cluster is there."""
    above = thing("ray.io/v1", "RayJob", "etl", {})
    cluster = ray_cluster(above)
    job = thing("batch/v1", "Job", "etl", {"parallelism": 1}, above)
    submitter = pod("etl-submit", job)
    found = run([*room_for(1), above, *cluster.objects, job, submitter, *cluster.pods])
    assert {name for name, node in places(found).items() if node} == {"default/etl-submit"}


def test_members_that_are_being_deleted_do_not_count() -> None:
    """A JobSet that is restarted has old and new pods under one name: the old ones on nodes complete nothing."""
    objects, made, _ = jobset()
    old = []
    for number, each in enumerate(made):
        gone = {**each["metadata"], "name": f"old-{number}", "uid": f"old-{number}"}
        gone |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/slow"]}
        old.append({**each, "metadata": gone, "spec": {**each["spec"], "nodeName": f"n{number}"}})
    found = run([*room_for(9), *objects, *old, *made])
    assert not any(node for name, node in places(found).items() if name.startswith("default/train-"))
    found = run([*room_for(10), *objects, *old, *made])
    assert scheduled(found) == 5


def test_pods_that_have_succeeded_are_not_waited_for() -> None:
    """A worker that failed comes back after the driver is done: the others will not come back."""
    objects, made, _ = jobset()
    for each in objects[1:]:
        if each["metadata"]["name"] != "train-worker-1":
            each["status"] = {
                "succeeded": each["spec"]["completions"],
                "conditions": [{"type": "Complete", "status": "True"}],
            }
    last = [each for each in made if each["metadata"]["name"].startswith("train-worker-1-")]
    done = {**objects[0], "spec": {**objects[0]["spec"], "suspend": True}}
    assert scheduled(run([*room_for(2), done, *objects[1:], *last])) == 2
    assert scheduled(run([*room_for(1), done, *objects[1:], *last])) == 0


def test_no_more_pods_are_waited_for_than_can_exist() -> None:
    """A Job has no more pods at once than completions, whatever its parallelism; alone and in a JobSet."""
    asking = thing(
        "batch/v1",
        "Job",
        "short",
        {"parallelism": 6, "completions": 2, "completionMode": "Indexed", "template": jobset().pods[0]},
        annotations={"moorage.dev/gang": "true"},
    )
    assert scheduled(run([*room_for(2), asking])) == 2
    assert scheduled(run([*room_for(1), asking])) == 0
    (owner, *_), _, _ = jobset()
    owner["spec"]["replicatedJobs"][1]["template"]["spec"]["parallelism"] = 7
    assert scheduled(run([*room_for(5), owner])) == 5
    assert scheduled(run([*room_for(4), owner])) == 0


def test_a_group_that_is_made_again_does_not_count_its_old_pods() -> None:
    """LeaderWorkerSet replaces a group as a whole: old pods that still stand on nodes complete nothing."""
    objects, made, _ = leader_worker_set(replicas=1)
    group = [each for each in made if each["metadata"]["name"].startswith("serve-0")]
    old = []
    for number, each in enumerate(group):
        gone = {**each["metadata"], "name": f"old-{number}", "uid": f"old-{number}"}
        gone |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/slow"]}
        old.append({**each, "metadata": gone, "spec": {**each["spec"], "nodeName": f"n{number}"}})
    for room, want in ((5, 0), (6, 3)):
        found = places(run([*room_for(room), *objects[:-1], *old, *group]))
        assert sum(1 for name, node in found.items() if name.startswith("default/serve-0") and node) == want


# --- owners that lie ---


@pytest.mark.parametrize(
    "lie",
    [{"uid": "another"}, {"name": "other"}, {"controller": False}, {"kind": "RayCluster", "apiVersion": "ray.io/v1"}],
    ids=["uid", "name", "no controller", "kind"],
)
def test_owners_that_lie_get_no_gang(lie: Body) -> None:
    """A reference must name a controller that exists, by its name, kind and uid."""
    sample = SAMPLES["PyTorchJob"]()
    for each in sample.pods:
        each["metadata"]["ownerReferences"] = [{**reference(sample.objects[0]), **lie}]
    assert scheduled(run([*room_for(1), *sample.objects, *sample.pods])) == 1


def test_a_pod_that_its_owner_does_not_select_is_not_of_the_gang() -> None:
    """A stranger that claims to be of a Deployment gets no gang, and the others do not wait less."""
    sample = SAMPLES["Deployment that asks"]()
    stranger = pod("stranger", sample.objects[0], None, app="other")
    found = run([*room_for(2), *sample.objects, *sample.pods, stranger])
    assert {name for name, node in places(found).items() if node} == {"default/stranger"}


def test_an_owner_of_another_namespace_does_not_count() -> None:
    """Owner references do not cross namespaces."""
    sample = SAMPLES["PyTorchJob"]()
    sample.objects[0]["metadata"]["namespace"] = "other"
    assert scheduled(run([*room_for(1), *sample.objects, *sample.pods])) == 1
