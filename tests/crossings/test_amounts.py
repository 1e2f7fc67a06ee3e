"""Queues and devices: quotas, limits and shares hold for fractions of GPUs and for claims as for requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.cli.main import run

GPU, EXTENDED, IMPLICIT = "nvidia.com/gpu", "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
DRIVER, RESOURCE_API = "gpu.example.com", "resource.k8s.io/v1"
FRACTIONS = [{"schedulerName": "moorage", "plugins": {"multiPoint": {"enabled": [{"name": "SharedDevices"}]}}}]
Plain = dict[str, Any]


def queue(name: str, resource: str, **terms: str | int) -> Plain:
    spec = {"resources": {resource: terms}}
    return {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def node(gpus: int = 0, cpu: int = 64, labels: Plain | None = None) -> Plain:
    offered = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    made = node_manifest("n1", labels=labels)
    return {**made, "status": {"capacity": offered, "allocatable": offered}}


def pod(
    name: str,
    of: str,
    notes: Plain | None = None,
    claims: tuple[str, ...] = (),
    requests: Plain | None = None,
    **fields: Any,
) -> Plain:
    """A pod of a queue that may be evicted, on one core."""
    labels = {"moorage.dev/queue": of, "moorage.dev/preemptible": fields.pop("preemptible", "true")}
    named = [{"name": each, "resourceClaimName": each} for each in claims]
    fields = {"resourceClaims": named, "schedulerName": "moorage", **fields}
    made = pod_manifest(name, labels=labels, annotations=notes or {}, **fields)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", **(requests or {})}}
    return made


def half(name: str, of: str = "a", fraction: str = "0.5", **fields: Any) -> Plain:
    return pod(name, of, {"gpu-fraction": fraction}, **fields)


def devices(count: int, extended: str = "") -> list[Plain]:
    """A slice with GPUs of the node, and their class."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"gpu-{number}"} for number in range(count)]
    classed = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    if extended:
        classed["extendedResourceName"] = extended  # type: ignore[assignment]
    return [
        {
            "apiVersion": RESOURCE_API,
            "kind": "ResourceSlice",
            "metadata": {"name": "n1-gpus"},
            "spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": listed},
        },
        {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": classed},
    ]


def claim_spec(count: int = 1) -> Plain:
    exactly = {"deviceClassName": "gpu", "count": count}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim(name: str, count: int = 1, **status: Any) -> Plain:
    made = {"apiVersion": RESOURCE_API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}}
    return {**made, "spec": claim_spec(count), **({"status": status} if status else {})}


def held(name: str, device: int, *users: str) -> Plain:
    """A claim that holds a device for running pods."""
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": f"gpu-{device}"}]
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    return claim(name, allocation={"devices": {"results": results}}, reservedFor=reserved)


def running(made: Plain) -> Plain:
    name = made["metadata"]["name"]
    metadata = {**made["metadata"], "uid": f"uid-{name}"}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return {**made, "metadata": metadata, "spec": {**made["spec"], "nodeName": "n1"}, "status": status}


class Simulated:
    """What `simulate` says about a cluster."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys
        self._found: Plain = {}

    def of(self, *objects: Plain, profiles: list[Plain] | None = None) -> Simulated:
        cluster, config = self._folder / "cluster.yaml", self._folder / "config.yaml"
        cluster.write_text(yaml.safe_dump_all(objects))
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config.write_text(yaml.safe_dump({**kind, "profiles": FRACTIONS if profiles is None else profiles}))
        run(["simulate", "-f", str(cluster), "--config", str(config), "-o", "json"])
        self._found = json.loads(self._capsys.readouterr().out)
        return self

    @property
    def placed(self) -> list[str]:
        return sorted(name for name, each in self._pods().items() if each["node"])

    @property
    def evicted(self) -> list[str]:
        return sorted(each.rpartition("/")[2] for each in self._found["evictions"])

    def message(self, name: str) -> str:
        return str(self._pods()[name]["message"])

    def allocated(self, of: str, resource: str) -> str:
        return str(self._found["queues"][of]["allocated"].get(resource, "0"))

    def share(self, of: str, resource: str) -> str:
        return str(self._found["queues"][of]["fairShare"].get(resource, "0"))

    def _pods(self) -> dict[str, Plain]:
        return {each["name"]: each for each in self._found["pods"]}


@pytest.fixture
def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulated:
    return Simulated(tmp_path, capsys)


# --- fractions ---


def test_a_limit_holds_for_fractions(simulated: Simulated) -> None:
    """Of four pods with half a GPU each two run within a limit of one; the queue says what it has."""
    cluster = [node(4), queue("a", GPU, quota="1", limit="1"), *(half(f"f{number}") for number in range(4))]
    found = simulated.of(*cluster)
    assert found.placed == ["f0", "f1"]
    assert found.allocated("a", GPU) == "1"
    assert found.message("f2") == f"0/1 nodes are available: queue a has 1 of its limit of 1 {GPU}."


def test_a_limit_may_be_a_fraction(simulated: Simulated) -> None:
    """And what a queue has of it is told as it is."""
    cluster = [node(4), queue("a", GPU, limit="1500m"), *(half(f"f{number}", fraction="0.6") for number in range(3))]
    found = simulated.of(*cluster)
    assert found.placed == ["f0", "f1"]
    assert found.message("f2") == f"0/1 nodes are available: queue a has 1.2 of its limit of 1.5 {GPU}."


WORDS: dict[str, tuple[Plain, Plain, list[str]]] = {
    "KAI, in MiB": ({"gpu-memory": "20480"}, {}, ["p0", "p1"]),
    "HAMi": ({}, {GPU: "1", "nvidia.com/gpumem-percentage": "40"}, ["p0", "p1"]),
    "Koordinator": ({}, {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}, ["p0", "p1"]),
    "Alibaba": ({"alibabacloud.com/gpu-milli": "250", "alibabacloud.com/gpu-count": "2"}, {}, ["p0", "p1"]),
    "a fraction beside whole GPUs": ({"gpu-fraction": "0.1"}, {GPU: "1"}, ["p0"]),
    "a fraction of 0": ({"gpu-fraction": "0"}, {GPU: "1"}, []),
}


@pytest.mark.parametrize(("notes", "requests", "want"), WORDS.values(), ids=WORDS)
def test_a_limit_holds_in_all_words(simulated: Simulated, notes: Plain, requests: Plain, want: list[str]) -> None:
    """Nobody leaves it by asking for less beside what is requested; what cannot be read is not placed."""
    ignored = ["nvidia.com/gpumem-percentage", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"]
    args = [{"name": "NodeResourcesFit", "args": {"ignoredResources": ignored}}]
    pods = [pod(f"p{number}", "a", notes, requests=requests) for number in range(4)]
    cluster = [node(4, labels={"nvidia.com/gpu.memory": "40960"}), queue("a", GPU, limit="1"), *pods]
    assert simulated.of(*cluster, profiles=[{**FRACTIONS[0], "pluginConfig": args}]).placed == want


def test_without_shared_devices_an_annotation_counts_for_nothing(simulated: Simulated) -> None:
    """No profile gives fractions, so requests count: no device for two pods, one for the third."""
    pods = [half("f0"), half("f1"), half("f2", requests={GPU: "1"}), half("f3", requests={GPU: "1"})]
    found = simulated.of(node(4), queue("a", GPU, limit="1"), *pods, profiles=[{"schedulerName": "moorage"}])
    assert found.placed == ["f0", "f1", "f2"]
    assert found.allocated("a", GPU) == "1"


def test_fractions_that_may_not_be_evicted_stay_within_the_quota(simulated: Simulated) -> None:
    pods = [half(f"f{number}", preemptible="false") for number in range(3)]
    found = simulated.of(node(4), queue("a", GPU, quota="0.5"), *pods)
    assert found.placed == ["f0"]
    told = f"queue a has 0.5 of its quota of 0.5 {GPU} for pods that may not be evicted"
    assert told in found.message("f1")


def test_a_quota_of_fractions_is_taken_back(simulated: Simulated) -> None:
    """One of two pods goes, as its queue has half a GPU more than its quota; the rest of what it has is its own."""
    lent = [running(half(f"a{number}", "a")) for number in range(2)]
    queues = [queue(name, GPU, quota="0.5", weight=0) for name in "ab"]
    found = simulated.of(node(1), *queues, *lent, half("b0", "b"), half("b1", "b"))
    assert len(found.evicted) == 1
    assert "b0" in found.placed
    assert "b1" not in found.placed


# --- claims ---


@pytest.mark.parametrize(("extended", "resource"), [("", IMPLICIT), (EXTENDED, EXTENDED), (GPU, GPU)])
def test_a_limit_holds_for_claims(simulated: Simulated, extended: str, resource: str) -> None:
    """Under the name of the class: its extended resource, else the name that Kubernetes gives every class."""
    pods = [pod(f"p{number}", "a", claims=(f"c{number}",)) for number in range(3)]
    claims = [claim(f"c{number}") for number in range(3)]
    found = simulated.of(node(), *devices(4, extended), queue("a", resource, limit="2"), *claims, *pods)
    assert found.placed == ["p0", "p1"]
    assert found.allocated("a", resource) == "2"
    assert f"queue a has 2 of its limit of 2 {resource}" in found.message("p2")


def test_requests_and_claims_of_a_class_share_a_limit(simulated: Simulated) -> None:
    """Also where a pod requests the devices by the name that every class has."""
    pods = [
        pod("p0", "a", requests={EXTENDED: "1"}),
        pod("p1", "a", claims=("c1",)),
        pod("p2", "a", requests={IMPLICIT: "1"}),
    ]
    cluster = [node(), *devices(4, EXTENDED), queue("a", EXTENDED, limit="2"), claim("c1")]
    found = simulated.of(*cluster, *pods)
    assert found.placed == ["p0", "p1"]
    assert "queue a has 2 of its limit of 2" in found.message("p2")


def test_a_limit_holds_for_claims_from_templates(simulated: Simulated) -> None:
    template = {"apiVersion": RESOURCE_API, "kind": "ResourceClaimTemplate", "spec": {"spec": claim_spec(2)}}
    template["metadata"] = {"name": "pair", "namespace": "default"}
    named = [{"name": "g", "resourceClaimTemplateName": "pair"}]
    pods = [pod(f"p{number}", "a", resourceClaims=named) for number in range(2)]
    found = simulated.of(node(), *devices(4), queue("a", IMPLICIT, limit="3"), template, *pods)
    assert found.placed == ["p0"]
    assert found.allocated("a", IMPLICIT) == "2"


def test_a_claim_of_several_pods_counts_once(simulated: Simulated) -> None:
    """Two pods run on one device within a limit of one; a pod with a device of its own has to wait."""
    pods = [pod("p0", "a", claims=("both",)), pod("p1", "a", claims=("both",)), pod("p2", "a", claims=("own",))]
    found = simulated.of(node(), *devices(4), queue("a", IMPLICIT, limit="1"), claim("both"), claim("own"), *pods)
    assert found.placed == ["p0", "p1"]
    assert found.allocated("a", IMPLICIT) == "1"


@pytest.mark.parametrize(
    ("limit", "shared", "want"),
    [("1", False, []), ("2", False, ["g0", "g1"]), ("1", True, ["g0", "g1"])],
    ids=["too small", "large enough", "one claim for all"],
)
def test_a_gang_with_claims_starts_within_a_limit(
    simulated: Simulated, limit: str, shared: bool, want: list[str]
) -> None:
    """All of it or nothing, and a claim of all its members is one."""
    notes = {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    names = ["c0", "c0"] if shared else ["c0", "c1"]
    pods = [pod(f"g{number}", "a", notes, claims=(name,)) for number, name in enumerate(names)]
    claims = [claim(name) for name in dict.fromkeys(names)]
    found = simulated.of(node(), *devices(4), queue("a", IMPLICIT, limit=limit), *claims, *pods)
    assert found.placed == want, found.message("g0")


def test_devices_of_claims_are_taken_back(simulated: Simulated) -> None:
    """A queue that has one device more than its quota gives a pod up; another one within its quota does not.

    Devices are left, cores are not, so that the pod that comes needs nothing but the room of another one.
    """
    lent = [running(pod(f"a{number}", "a", claims=(f"a{number}",))) for number in range(2)]
    kept = [running(pod("c0", "c", claims=("c0",)))]
    held_by = [held(name, number, name) for number, name in enumerate(("a0", "a1", "c0"))]
    queues = [queue(name, IMPLICIT, quota="1", weight=0) for name in "abc"]
    claimant = [claim("b0"), pod("b0", "b", claims=("b0",)), claim("b1"), pod("b1", "b", claims=("b1",))]
    found = simulated.of(node(cpu=3), *devices(6), *queues, *lent, *kept, *held_by, *claimant)
    assert found.evicted in (["a0"], ["a1"])
    assert "b0" in found.placed
    assert "b1" not in found.placed


def test_published_devices_are_divided_by_weight(simulated: Simulated) -> None:
    """Neither queue has a quota: each may have half of the four devices, and takes back what it lacks of that."""
    lent = [running(pod(f"a{number}", "a", claims=(f"a{number}",))) for number in range(4)]
    held_by = [held(f"a{number}", number, f"a{number}") for number in range(4)]
    queues = [queue(name, IMPLICIT) for name in "ab"]
    claimants = [each for n in range(3) for each in (claim(f"b{n}"), pod(f"b{n}", "b", claims=(f"b{n}",)))]
    found = simulated.of(node(cpu=4), *devices(4), *queues, *lent, *held_by, *claimants)
    assert found.share("a", IMPLICIT) == found.share("b", IMPLICIT) == "2"


def _either(*counts: int) -> Plain:
    """A claim for the first of several numbers of devices that is available."""
    ways = [{"name": f"w{count}", "deviceClassName": "gpu", "count": count} for count in counts]
    return {**claim("c"), "spec": {"devices": {"requests": [{"name": "r", "firstAvailable": ways}]}}}


@pytest.mark.parametrize(("limit", "has"), [("1", "1"), ("2", "1"), ("3", "3"), ("8", "4")])
def test_alternatives_that_go_beyond_a_limit_are_not_available(simulated: Simulated, limit: str, has: str) -> None:
    """A claim for four devices, or three, or one gets no more than its queue may have."""
    cluster = [node(), *devices(4), queue("a", IMPLICIT, limit=limit), _either(4, 3, 1)]
    found = simulated.of(*cluster, pod("p", "a", claims=("c",)))
    assert found.placed == ["p"]
    assert found.allocated("a", IMPLICIT) == has


def test_alternatives_of_pods_that_may_not_be_evicted_stay_within_the_quota(simulated: Simulated) -> None:
    cluster = [node(), *devices(4), queue("a", IMPLICIT, quota="2"), _either(4, 2)]
    found = simulated.of(*cluster, pod("p", "a", claims=("c",), preemptible="false"))
    assert found.allocated("a", IMPLICIT) == "2"


@pytest.mark.parametrize(("limit", "placed"), [("3", []), ("4", ["p"])])
def test_a_claim_for_all_devices_counts_for_all_of_a_node(simulated: Simulated, limit: str, placed: list[str]) -> None:
    every = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    claimed = {**claim("c"), "spec": {"devices": {"requests": [every]}}}
    found = simulated.of(node(), *devices(4), queue("a", IMPLICIT, limit=limit), claimed, pod("p", "a", claims=("c",)))
    assert found.placed == placed
