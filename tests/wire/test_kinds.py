"""Every kind of the table becomes its core value, from JSON and from plain objects alike."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from moorage.core.claims import ClaimConsumer, DeviceClass, ResourceClaim
from moorage.core.objects import (
    Workload,
)
from moorage.core.selectors import EVERYTHING, Selector
from moorage.core.volumes import (
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolumeClaim,
)
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, KINDS, POD, Kind, find_kind, pod_kind, readable_versions
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadrows import ROWS
from tests.wire.kind_cases import (
    OTHERS,
    STORAGE,
    WORKLOADS,
    body,
)


def kind_of(obj: dict[str, Any]) -> Kind:
    kind = find_kind(obj["apiVersion"], obj["kind"])
    assert kind is not None
    return kind


@pytest.mark.parametrize(("obj", "want"), [*WORKLOADS, *STORAGE, *OTHERS])
def test_objects_become_core_values(obj: dict[str, Any], want: Any) -> None:
    """JSON and plain objects give the same hashable value."""
    kind = kind_of(obj)
    got = kind.from_builtin(obj)
    assert got == want
    assert kind.decode(msgspec.json.encode(obj)) == want
    assert hash(got) == hash(want)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.id) for kind in KINDS if kind is not POD and kind.served])
def test_the_barest_object_is_read(kind: Kind) -> None:
    """Only a name is needed; nulls stand for absent fields; the key is that of events."""
    obj = body(kind.api_versions[0], kind.name, {"labels": None, "annotations": None}, spec=None, status=None)
    value = kind.from_builtin(obj)
    assert value.name == "x"
    if kind.name != "Node":
        assert value.key == ("default/x" if kind.namespaced else "x")


@pytest.mark.parametrize(
    ("obj", "want_start"),
    [
        pytest.param(
            body("apps/v1", "Deployment", spec={"replicas": "3"}), "Deployment x: spec.replicas: '3'", id="type"
        ),
        pytest.param(
            body("apps/v1", "Deployment", spec={"replicas": -1}), "Deployment x: spec.replicas: -1", id="negative"
        ),
        pytest.param(
            body("batch/v1", "Job", spec={"completions": -1}), "Job x: spec.completions: -1", id="completions"
        ),
        pytest.param(
            body("v1", "Service", spec={"selector": {"a": True}}), "Service x: spec.selector.a: true", id="boolean"
        ),
        pytest.param(
            body("v1", "PersistentVolume", spec={"capacity": {"storage": "12qi"}}),
            "PersistentVolume x: spec.capacity.storage: '12qi' is not a quantity",
            id="quantity",
        ),
        pytest.param(
            body("storage.k8s.io/v1", "CSIStorageCapacity", capacity="x"),
            "CSIStorageCapacity x: capacity: 'x' is not a quantity",
            id="quantity at the top",
        ),
        pytest.param(
            body("storage.k8s.io/v1", "StorageClass", volumeBindingMode="Later"),
            "StorageClass x: volumeBindingMode: 'Later' is unknown; write Immediate or WaitForFirstConsumer",
            id="binding mode",
        ),
        pytest.param(
            body(
                "policy/v1",
                "PodDisruptionBudget",
                {"namespace": "n"},
                spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            ),
            "PodDisruptionBudget n/x: spec.selector.matchExpressions[0].operator: 'Near' is unknown",
            id="operator",
        ),
        pytest.param(
            body("scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minMember": 0}),
            "PodGroup x: spec.minMember: 0 is below 1",
            id="gang of none",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", preemptionPolicy="Maybe"),
            "PriorityClass x: preemptionPolicy: 'Maybe' is unknown",
            id="preemption policy",
        ),
        pytest.param(
            body("policy/v1", "PodDisruptionBudget", status={"disruptionsAllowed": 1 << 63}),
            "PodDisruptionBudget x: status.disruptionsAllowed: 9223372036854775808",
            id="more than 32 bits, which would end preemption for everybody",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1beta1", "PodGroup", spec={"priority": 1 << 31}),
            "PodGroup x: spec.priority: 2147483648",
            id="more than 32 bits",
        ),
        pytest.param(
            body("moorage.dev/v1alpha1", "Queue", spec={"resources": {"cpu": {"quota": "-2"}}}),
            "Queue x: spec.resources.cpu.quota: '-2' is negative",
            id="a negative quota",
        ),
        pytest.param(
            body("moorage.dev/v1alpha1", "Queue", spec={"resources": {"cpu": {"weight": -1}}}),
            "Queue x: spec.resources.cpu.weight",
            id="a negative weight",
        ),
        pytest.param(
            body("moorage.dev/v1alpha1", "Queue", spec={"reclaimMinRuntime": "soon"}),
            "Queue x: spec.reclaimMinRuntime: 'soon' is not a duration",
            id="no duration",
        ),
        pytest.param(
            body("moorage.dev/v1alpha1", "Topology", spec={"levels": ["rack", "rack"]}),
            "Topology x: spec.levels[1]: 'rack' appears twice",
            id="a level twice",
        ),
        pytest.param(
            body(
                "topology.volcano.sh/v1alpha1",
                "HyperNode",
                spec={"members": [{"selector": {"regexMatch": {"pattern": "(a+)+$"}}}]},
            ),
            "HyperNode x: spec.members[0].selector.regexMatch.pattern: '(a+)+$' may take too long",
            id="a pattern that takes exponential time",
        ),
        pytest.param(
            body(
                "topology.volcano.sh/v1alpha1",
                "HyperNode",
                spec={"members": [{"selector": {"regexMatch": {"pattern": "a?" * 24 + "a" * 24}}}]},
            ),
            "HyperNode x: spec.members[0].selector.regexMatch.pattern: 'a?a?a?a?a?a?",
            id="a pattern of parts that may be left out",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(obj: dict[str, Any], want_start: str) -> None:
    """Kind, name, field, value, remedy."""
    with pytest.raises(WireError) as caught:
        kind_of(obj).from_builtin(obj)
    assert str(caught.value).startswith(want_start)
    assert "\n" not in str(caught.value)


def test_the_table_covers_the_kinds_that_the_simulator_promises() -> None:
    """The promised input of `simulate`, device classes and prices."""
    promised = """
        Node Pod Deployment ReplicaSet ReplicationController StatefulSet DaemonSet Job CronJob Service
        PersistentVolumeClaim PersistentVolume StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment
        ResourceClaim ResourceClaimTemplate DeviceClass ResourceSlice DeviceTaintRule PodDisruptionBudget
        PriorityClass RuntimeClass PodGroup PlacementPolicy Queue Topology HyperNode Namespace PriceList
    """
    workloads = {row.kind for row in ROWS}
    autoscalers = ("ProvisioningRequest", "NodeClaim")
    assert {kind.name for kind in KINDS} == {*promised.split(), "PodGang", *autoscalers, *workloads}
    assert len(BY_ID) == len(KINDS)
    assert all(re.fullmatch("[a-z]+", kind.plural) for kind in KINDS)


@pytest.mark.parametrize(
    ("api_version", "name", "want_path"),
    [
        ("v1", "Pod", "/api/v1/pods"),
        ("apps/v1", "Deployment", "/apis/apps/v1/deployments"),
        ("storage.k8s.io/v1", "CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
    ],
)
def test_kinds_know_where_they_are_served(api_version: str, name: str, want_path: str) -> None:
    """The path of the best version lists all namespaces."""
    kind = find_kind(api_version, name)
    assert kind is not None
    assert kind.path() == want_path


def test_kinds_are_found_by_version_and_name() -> None:
    """A kind of the same name in another group or version is not taken for it."""
    assert find_kind("extensions/v1beta1", "Deployment") is None
    assert find_kind("v1", "Ingress") is None
    assert readable_versions("PodGroup") == (
        "scheduling.k8s.io/v1beta1",
        "scheduling.x-k8s.io/v1alpha1",
        "scheduling.run.ai/v2alpha2",
        "scheduling.volcano.sh/v1beta1",
    )


def test_pods_of_one_table_share_their_template() -> None:
    """A caller that decodes many pods gets one template for equal ones."""
    kind = pod_kind(TemplateTable())
    spec = {"containers": [{"name": "c", "image": "i"}]}
    first, second = (kind.from_builtin(body("v1", "Pod", {"name": name}, spec=spec)) for name in ("a", "b"))
    assert first.template is second.template


@pytest.mark.parametrize(
    ("workload", "want"),
    [
        pytest.param(Workload("Deployment", "n", "x", replicas=3), 3, id="replicas"),
        pytest.param(Workload("Job", "n", "x", replicas=4, completions=6, succeeded=1), 4, id="parallelism"),
        pytest.param(Workload("Job", "n", "x", replicas=4, completions=6, succeeded=5), 1, id="completions left"),
        pytest.param(Workload("Job", "n", "x", replicas=4, completions=6, succeeded=9), 0, id="more than enough"),
        pytest.param(Workload("Job", "n", "x", replicas=4), 4, id="work queue"),
        pytest.param(Workload("Job", "n", "x", replicas=4, suspended=True), 0, id="suspended"),
        pytest.param(Workload("Job", "n", "x", replicas=4, finished=True), 0, id="finished"),
    ],
)
def test_how_many_pods_a_workload_wants(workload: Workload, want: int) -> None:
    """A Job wants no more pods than it has completions left."""
    assert workload.desired == want


def test_small_questions_to_values() -> None:
    """The answers that several plugins need are given in one place."""
    capacity = CSIStorageCapacity("n", "x", capacity_bytes=9, maximum_volume_bytes=4)
    assert capacity.largest_volume_bytes == 4
    assert CSIStorageCapacity("n", "x", capacity_bytes=9).largest_volume_bytes == 9
    assert CSINode("n", (NodeDriver("d"),)).driver("d") == NodeDriver("d")
    assert CSINode("n").driver("d") is None
    assert ResourceClaim("n", "x", reserved_for=(ClaimConsumer("pods", "p", "u"),)).reserved_for_uid("u")
    assert DeviceClass("gpu", "e/g").resource_names == ("e/g", "deviceclass.resource.kubernetes.io/gpu")
    assert PersistentVolumeClaim("n", "x", volume="v", bind_completed=True).bound
    assert not PersistentVolumeClaim("n", "x", volume="v").bound
    assert Selector() == EVERYTHING
