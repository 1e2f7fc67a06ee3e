"""Objects come out of admission as the API server would store them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.clock import Clock
from moorage.adapters.memory.defaulting import Classes, admit_pod, at_birth, default_object
from moorage.adapters.memory.errors import Forbidden, Invalid
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.adapters.memory.store import Store

CLASSES = Classes(
    priority={
        "high": manifest("PriorityClass", "high", value=1000, preemptionPolicy="Never"),
        "base": manifest("PriorityClass", "base", value=10, globalDefault=True),
        "other": manifest("PriorityClass", "other", value=20, globalDefault=True),
    },
    runtime={
        "kata": manifest(
            "RuntimeClass",
            "kata",
            handler="kata",
            overhead={"podFixed": {"cpu": "250m"}},
            scheduling={"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
        )
    },
)
SELECTOR = {"matchLabels": {"app": "x"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IN_V1 = {"key": "v", "operator": "In", "values": ["1"]}
NOT_IN_V1 = {"key": "v", "operator": "NotIn", "values": ["1"]}


def admitted_spec(classes: Classes = CLASSES, **spec: Any) -> dict[str, Any]:
    """The spec after admission; twice is the same as once, and the argument is not written to."""
    pod = pod_manifest("a", labels={"app": "x", "v": "1"}, **spec)
    copy = deepcopy(pod)
    once = admit_pod(pod, classes).object
    assert pod == copy
    assert admit_pod(once, classes).object == once
    return dict(once["spec"])


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"priority": 10, "priorityClassName": "base"}, id="lowest global default"),
        pytest.param(
            {"priorityClassName": "high"}, {"priority": 1000, "preemptionPolicy": "Never"}, id="class with policy"
        ),
        pytest.param({"priorityClassName": "high", "priority": 7}, {"priority": 7}, id="given priority stays"),
        pytest.param({"priorityClassName": "system-node-critical"}, {"priority": 2_000_001_000}, id="system class"),
        pytest.param({"priorityClassName": "gone"}, {"priority": 0}, id="unknown class"),
    ],
)
def test_priority(spec: dict[str, Any], want: dict[str, Any]) -> None:
    """Priority comes from the class, or from the default class, and nothing that is given is overruled."""
    got = admitted_spec(**spec)
    assert {name: got[name] for name in want} == want


def test_without_classes_priority_is_zero() -> None:
    """No class at all: 0, and lower ones may be preempted."""
    got = admitted_spec(Classes())
    assert (got["priority"], got["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in got


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({"limits": {"cpu": "1"}}, {"cpu": "1"}, id="request is the limit"),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            {"cpu": "500m", "memory": "1Gi"},
            id="only what is missing",
        ),
        pytest.param({"requests": {"cpu": "1"}}, {"cpu": "1"}, id="no limits"),
        pytest.param({}, None, id="nothing"),
    ],
)
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_requests_from_limits(part: str, resources: dict[str, Any], want: dict[str, str] | None) -> None:
    """A resource with a limit and no request is requested up to the limit."""
    spec: dict[str, Any] = {part: [{"name": "c", "resources": resources}]}
    got = admitted_spec(**spec)
    assert got[part][0]["resources"].get("requests") == want


@pytest.mark.parametrize(
    ("pod_level", "want"),
    [
        pytest.param({"limits": {"memory": "1Gi"}}, {"memory": "1Gi"}, id="limit where no container asks"),
        pytest.param({"limits": {"cpu": "2"}}, None, id="containers ask for it already"),
        pytest.param({"limits": {"memory": "1Gi"}, "requests": {"memory": "5Mi"}}, {"memory": "5Mi"}, id="given"),
    ],
)
def test_pod_level_requests(pod_level: dict[str, Any], want: dict[str, str] | None) -> None:
    """Pod-level limits become pod-level requests for resources that no container requests."""
    got = admitted_spec(cpu="1", memory=None, resources=pod_level)
    assert got["resources"].get("requests") == want


@pytest.mark.parametrize(
    ("host_network", "port", "want"),
    [
        pytest.param(True, {"containerPort": 80}, 80, id="host network"),
        pytest.param(True, {"containerPort": 80, "hostPort": 8080}, 8080, id="given"),
        pytest.param(False, {"containerPort": 80}, None, id="pod network"),
    ],
)
def test_host_ports(host_network: bool, port: dict[str, int], want: int | None) -> None:
    """On the host's network every container port is a host port."""
    got = admitted_spec(hostNetwork=host_network, containers=[{"name": "c", "ports": [port]}])
    assert got["containers"][0]["ports"][0].get("hostPort") == want


def test_runtime_class_brings_overhead_selector_and_tolerations() -> None:
    """All three are added; what the pod has stays."""
    got = admitted_spec(runtimeClassName="kata", nodeSelector={"disk": "ssd"}, tolerations=[{"key": "own"}])
    assert got["overhead"] == {"cpu": "250m"}
    assert got["nodeSelector"] == {"kata": "yes", "disk": "ssd"}
    assert got["tolerations"] == [{"key": "own"}, {"key": "kata", "operator": "Exists"}]


@pytest.mark.parametrize("part", ["podAffinity", "podAntiAffinity"])
def test_label_keys_of_affinity_are_merged(part: str) -> None:
    """The pod's own values become expressions; absent labels and null selectors add nothing."""
    term = {
        "topologyKey": "zone",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["v", "absent"],
        "mismatchLabelKeys": ["v"],
    }
    nothing = {"topologyKey": "zone", "matchLabelKeys": ["v"]}
    given = {REQUIRED: [term, nothing], PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    got = admitted_spec(affinity={part: given})["affinity"][part]
    merged = {**SELECTOR, "matchExpressions": [IN_V1, NOT_IN_V1]}
    assert got[REQUIRED][0]["labelSelector"] == merged
    assert got[REQUIRED][1] == nothing
    assert got[PREFERRED][0]["podAffinityTerm"]["labelSelector"] == merged


def test_label_keys_of_spread_are_merged() -> None:
    """A spread constraint has matchLabelKeys only."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["v"],
    }
    got = admitted_spec(topologySpreadConstraints=[constraint])["topologySpreadConstraints"][0]
    assert got["labelSelector"] == {**SELECTOR, "matchExpressions": [IN_V1]}


@pytest.mark.parametrize(
    ("obj", "path", "want"),
    [
        pytest.param(manifest("Pod", "a", spec={}), ("metadata", "namespace"), "default", id="namespace"),
        pytest.param(manifest("Pod", "a", "x", spec={}), ("metadata", "namespace"), "x", id="namespace given"),
        pytest.param(manifest("Node", "n", "x"), ("metadata", "namespace"), None, id="node has no namespace"),
        pytest.param(manifest("Pod", "a", spec={}), ("spec", "schedulerName"), "default-scheduler", id="scheduler"),
        pytest.param(manifest("Pod", "a", spec={}), ("spec", "restartPolicy"), "Always", id="restart policy"),
        pytest.param(manifest("Pod", "a", spec={}), ("spec", "terminationGracePeriodSeconds"), 30, id="grace"),
        pytest.param(manifest("Pod", "a", spec={}), ("status", "phase"), "Pending", id="phase"),
        pytest.param(node_manifest("n", cpu="3"), ("status", "allocatable", "cpu"), "3", id="allocatable"),
        pytest.param(
            manifest("Namespace", "x"), ("metadata", "labels", "kubernetes.io/metadata.name"), "x", id="ns label"
        ),
        pytest.param(
            workload_manifest("ReplicationController", "rc"), ("spec", "selector", "app"), "rc", id="rc selector"
        ),
    ],
)
def test_defaults(obj: dict[str, Any], path: tuple[str, ...], want: object) -> None:
    """One field each."""
    value: Any = default_object(obj, Classes()).object
    for name in path:
        value = value.get(name) if value is not None else None
    assert value == want


def test_a_new_pod_starts_pending_and_gated_if_it_has_gates() -> None:
    """Whatever status its author wrote is dropped; nodes keep theirs."""
    pod = {**pod_manifest("a", schedulingGates=[{"name": "g"}]), "status": {"phase": "Running"}}
    status = at_birth(pod)["status"]
    assert status["phase"] == "Pending"
    assert status["conditions"][0]["reason"] == "SchedulingGated"
    assert at_birth(node_manifest("n"))["status"]["capacity"]


def test_strict_admission_refuses_and_lenient_admission_warns_once_per_owner() -> None:
    """The words are the API server's; a thousand pods of one owner give one line."""
    pod = pod_manifest("a", priorityClassName="gone")
    with pytest.raises(Forbidden, match='pods "a" is forbidden: no PriorityClass with name gone was found'):
        StoreAdmission(Store(Clock()), strict=True).create(pod)
    lenient = StoreAdmission(Store(Clock()), strict=False)
    owner = {"kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    for name in "ab":
        lenient.create({**pod, "metadata": {"name": name, "ownerReferences": [owner]}})
    assert lenient.warnings == ("Deployment default/web: no PriorityClass with name gone was found",)


@pytest.mark.parametrize("spec", ["text", {"containers": "text"}, {"containers": [1]}])
def test_malformed_objects_are_invalid_not_a_crash(spec: object) -> None:
    """One line that names the object."""
    with pytest.raises(Invalid, match="Pod default/a is malformed"):
        StoreAdmission(Store(Clock()), strict=False).load({"kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
