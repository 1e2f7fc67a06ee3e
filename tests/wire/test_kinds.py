"""Every kind of the table becomes its core value, from JSON and from plain objects alike."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.claims import ClaimConsumer, DeviceClass, ResourceClaim
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.objects import (
    COSCHEDULING_GROUPS,
    KAI_GROUPS,
    VOLCANO_GROUPS,
    Namespace,
    PlacementPolicy,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    RuntimeClass,
    Service,
    Workload,
)
from moorage.core.pods import Owner
from moorage.core.queues import Queue, ResourceShare
from moorage.core.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector, selector_from_labels
from moorage.core.strategy import parse_strategy
from moorage.core.taints import Toleration
from moorage.core.topology import HyperNode, NodeMatch, Topology
from moorage.core.topologyasks import SliceAsk, SubGroup, TopologyAsk
from moorage.core.volumes import (
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, KINDS, POD, Kind, find_kind, pod_kind, readable_versions
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadrows import ROWS

GI = 1024**3
APP = {"matchLabels": {"app": "web"}}
WEB = selector_from_labels({"app": "web"})
WEB_LABELS = FrozenDict({"app": "web"})
ZONE_A = NodeTerm((Requirement("zone", Operator.IN, ("a",)),))
ZONE_A_WIRE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}, "annotations": {"k": "v"}}, "spec": {"containers": []}}
MADE: dict[str, Any] = {"template_labels": WEB_LABELS, "template_annotations": FrozenDict({"k": "v"})}
OWNED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1", "controller": True}


def body(api_version: str, kind: str, metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **(metadata or {})}, **fields}


def kind_of(obj: dict[str, Any]) -> Kind:
    kind = find_kind(obj["apiVersion"], obj["kind"])
    assert kind is not None
    return kind


WORKLOADS = [
    pytest.param(
        body(
            "apps/v1",
            "Deployment",
            {"namespace": "n", "uid": "u", "annotations": {"a": "b"}, "labels": {"l": "m"}},
            spec={"replicas": 3, "selector": APP, "template": TEMPLATE},
        ),
        Workload(
            "Deployment", "n", "x", "u", FrozenDict({"l": "m"}), FrozenDict({"a": "b"}), None, WEB, replicas=3, **MADE
        ),
        id="Deployment",
    ),
    pytest.param(
        body("apps/v1", "ReplicaSet", {"ownerReferences": [OWNED]}, spec={"selector": APP}),
        Workload(
            "ReplicaSet", "default", "x", owner=Owner("Deployment", "web", "u1", "apps/v1"), selector=WEB, replicas=1
        ),
        id="ReplicaSet, replicas default to 1",
    ),
    pytest.param(
        body("apps/v1", "StatefulSet", spec={"replicas": 0, "selector": {}}),
        Workload("StatefulSet", "default", "x", selector=EVERYTHING, one_by_one=True),
        id="StatefulSet scaled to nothing",
    ),
    pytest.param(
        body("apps/v1", "DaemonSet", spec={"selector": APP, "template": TEMPLATE}),
        Workload("DaemonSet", "default", "x", selector=WEB, **MADE),
        id="DaemonSet",
    ),
    pytest.param(
        body("v1", "ReplicationController", spec={"replicas": 2, "template": TEMPLATE}),
        Workload("ReplicationController", "default", "x", selector=WEB, replicas=2, **MADE),
        id="ReplicationController selects its template's labels",
    ),
    pytest.param(
        body("batch/v1", "Job", spec={"parallelism": 4, "completions": 6}, status={"succeeded": 5}),
        Workload("Job", "default", "x", replicas=4, completions=6, succeeded=5),
        id="Job",
    ),
    pytest.param(
        body(
            "batch/v1", "Job", spec={"parallelism": 4}, status={"conditions": [{"type": "Complete", "status": "True"}]}
        ),
        Workload("Job", "default", "x", replicas=4, finished=True),
        id="Job, a finished work queue",
    ),
    pytest.param(
        body("batch/v1", "Job", spec={}),
        Workload("Job", "default", "x", replicas=1, completions=1),
        id="Job of one pod",
    ),
    pytest.param(
        body(
            "batch/v1",
            "CronJob",
            spec={"suspend": True, "jobTemplate": {"spec": {"completions": 2, "template": TEMPLATE}}},
        ),
        Workload("CronJob", "default", "x", replicas=1, completions=2, suspended=True, **MADE),
        id="CronJob",
    ),
]

STORAGE = [
    pytest.param(
        body(
            "v1",
            "PersistentVolumeClaim",
            {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}},
            spec={
                "accessModes": ["ReadWriteOncePod"],
                "storageClassName": "fast",
                "volumeName": "pv1",
                "selector": APP,
                "resources": {"requests": {"storage": "10Gi"}},
            },
            status={"phase": "Bound"},
        ),
        PersistentVolumeClaim(
            "default",
            "x",
            volume="pv1",
            bind_completed=True,
            storage_class="fast",
            access_modes=("ReadWriteOncePod",),
            request_bytes=10 * GI,
            selector=WEB,
            phase="Bound",
            selected_node="n1",
            annotations=FrozenDict(
                {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}
            ),
        ),
        id="PersistentVolumeClaim",
    ),
    pytest.param(
        body("v1", "PersistentVolumeClaim", spec={"storageClassName": "", "volumeMode": "Block"}),
        PersistentVolumeClaim("default", "x", storage_class="", volume_mode="Block"),
        id="PersistentVolumeClaim without class",
    ),
    pytest.param(
        body(
            "v1",
            "PersistentVolume",
            {"labels": {"zone": "a"}},
            spec={
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "csi": {"driver": "d", "volumeHandle": "h"},
                "nodeAffinity": {"required": ZONE_A_WIRE},
                "claimRef": {"namespace": "n", "name": "c", "uid": "u"},
            },
            status={"phase": "Bound"},
        ),
        PersistentVolume(
            "x",
            labels=FrozenDict({"zone": "a"}),
            capacity_bytes=2 * GI,
            access_modes=("ReadWriteOnce",),
            storage_class="fast",
            claim=ClaimRef("n", "c", "u"),
            node_terms=(ZONE_A,),
            source=VolumeSource("csi", "d", "h"),
            phase="Bound",
        ),
        id="PersistentVolume",
    ),
    pytest.param(
        body("v1", "PersistentVolume", spec={"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}}),
        PersistentVolume("x", source=VolumeSource("awsElasticBlockStore", "", "vol-1", read_only=True)),
        id="PersistentVolume of an in-tree plugin",
    ),
    pytest.param(
        body(
            "storage.k8s.io/v1",
            "StorageClass",
            {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="p",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        ),
        StorageClass("x", "p", wait_for_consumer=True, allowed_topologies=(ZONE_A,), default=True),
        id="StorageClass",
    ),
    pytest.param(
        body(
            "storage.k8s.io/v1",
            "CSINode",
            {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "b,a"}},
            spec={"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["zone"], "allocatable": {"count": 2}}]},
        ),
        CSINode("x", (NodeDriver("d", "i", ("zone",), 2),), ("a", "b")),
        id="CSINode",
    ),
    pytest.param(
        body("storage.k8s.io/v1", "CSIDriver", spec={"storageCapacity": True, "preventPodSchedulingIfMissing": True}),
        CSIDriver("x", storage_capacity=True, attach_required=True, prevent_scheduling_if_missing=True),
        id="CSIDriver",
    ),
    pytest.param(
        body("storage.k8s.io/v1", "CSIStorageCapacity", storageClassName="fast", nodeTopology=APP, capacity="1Gi"),
        CSIStorageCapacity("default", "x", "fast", WEB, GI),
        id="CSIStorageCapacity",
    ),
    pytest.param(
        body(
            "storage.k8s.io/v1",
            "VolumeAttachment",
            status={"attached": True},
            spec={"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"}},
        ),
        VolumeAttachment("x", "d", "n1", "pv1", attached=True),
        id="VolumeAttachment",
    ),
]

OTHERS = [
    pytest.param(
        body("v1", "Service", spec={"selector": {"app": "web"}}), Service("default", "x", WEB_LABELS), id="Service"
    ),
    pytest.param(
        body("v1", "Service", spec={"selector": None}), Service("default", "x"), id="Service without selector"
    ),
    pytest.param(
        body("v1", "Namespace", {"labels": {"team": "a"}}),
        Namespace("x", FrozenDict({"team": "a", "kubernetes.io/metadata.name": "x"})),
        id="Namespace carries its name as a label",
    ),
    pytest.param(
        body(
            "policy/v1",
            "PodDisruptionBudget",
            spec={"minAvailable": "50%", "selector": APP},
            status={"disruptionsAllowed": 2, "disruptedPods": {"b": "2025-01-01T00:00:00Z", "a": None}},
        ),
        PodDisruptionBudget("default", "x", WEB, 2, ("a", "b"), "50%"),
        id="PodDisruptionBudget",
    ),
    pytest.param(
        body("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": 1}),
        PodDisruptionBudget("default", "x", NOTHING, max_unavailable=1, observed=False),
        id="PodDisruptionBudget that no controller has seen",
    ),
    pytest.param(
        body("policy/v1", "PodDisruptionBudget", spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
        PodDisruptionBudget("default", "x", NOTHING, observed=False, spares_unready=True),
        id="PodDisruptionBudget that never cares for pods that are not ready",
    ),
    pytest.param(
        body("policy/v1", "PodDisruptionBudget", status={"currentHealthy": 2, "desiredHealthy": 2}),
        PodDisruptionBudget("default", "x", NOTHING, observed=False, spares_unready=True),
        id="PodDisruptionBudget that is kept without those that are not ready",
    ),
    pytest.param(
        body("policy/v1", "PodDisruptionBudget", status={"currentHealthy": 0, "desiredHealthy": 0}),
        PodDisruptionBudget("default", "x", NOTHING, observed=False),
        id="PodDisruptionBudget that wants nobody",
    ),
    pytest.param(
        body("scheduling.k8s.io/v1", "PriorityClass", value=-5, globalDefault=True, preemptionPolicy="Never"),
        PriorityClass("x", -5, global_default=True, preemption_policy="Never"),
        id="PriorityClass",
    ),
    pytest.param(
        body(
            "node.k8s.io/v1",
            "RuntimeClass",
            handler="h",
            overhead={"podFixed": {"cpu": "250m", "memory": "1Gi"}},
            scheduling={"nodeSelector": {"app": "web"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
        ),
        RuntimeClass("x", FrozenDict({"cpu": 250, "memory": GI}), WEB_LABELS, (Toleration("k", "Exists"),)),
        id="RuntimeClass",
    ),
    pytest.param(
        body(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            spec={
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "disruptionMode": {"all": {}},
                "priority": 7,
                "priorityClassName": "high",
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
            },
            status={"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]},
        ),
        PodGroup(
            "default",
            "x",
            min_count=3,
            evict_whole=True,
            priority=7,
            priority_class="high",
            topology_key="zone",
            scheduled=True,
        ),
        id="PodGroup, native",
    ),
    pytest.param(
        body(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            spec={"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}},
        ),
        PodGroup("default", "x"),
        id="PodGroup, native, members one by one",
    ),
    pytest.param(
        body(
            "scheduling.x-k8s.io/v1alpha1",
            "PodGroup",
            status={"phase": "Running"},
            spec={"minMember": 4, "minResources": {"cpu": 2}, "scheduleTimeoutSeconds": 10},
        ),
        PodGroup(
            "default",
            "x",
            api_group=COSCHEDULING_GROUPS,
            min_count=4,
            min_resources=FrozenDict({"cpu": 2000}),
            schedule_timeout_s=10,
            scheduled=True,
        ),
        id="PodGroup, coscheduling",
    ),
    pytest.param(
        body(
            "moorage.dev/v1alpha1",
            "PlacementPolicy",
            spec={"selector": APP, "rules": [{"weight": 2, "nodeSelector": {"b": "c"}}]},
        ),
        PlacementPolicy("default", "x", selector=WEB, rules=parse_strategy("weight=2,nodeSelector=b:c")),
        id="PlacementPolicy",
    ),
    pytest.param(
        body(
            "moorage.dev/v1alpha1",
            "Queue",
            spec={
                "parent": "research",
                "priority": 7,
                "resources": {
                    "cpu": {"quota": "-1", "limit": "64"},
                    "memory": {"weight": 0},
                    "nvidia.com/gpu": {"quota": 4, "weight": 2.5, "limit": "8"},
                },
                "namespaces": APP,
                "preemptMinRuntime": "5m",
            },
        ),
        Queue(
            "x",
            parent="research",
            priority=7,
            resources=FrozenDict(
                {
                    "cpu": ResourceShare(UNLIMITED, 1000, 64_000),
                    "memory": ResourceShare(0, 0),
                    "nvidia.com/gpu": ResourceShare(4, 2500, 8),
                }
            ),
            namespaces=WEB,
            preempt_min_runtime_s=300.0,
        ),
        id="Queue",
    ),
    pytest.param(
        body(
            "scheduling.run.ai/v2",
            "Queue",
            spec={
                "parentQueue": "research",
                "resources": {
                    "cpu": {"quota": -1, "limit": 1e308},
                    "memory": {"quota": 1e308, "overQuotaWeight": 3, "limit": 4},
                    "gpu": {"quota": 1.5},
                },
                "reclaimMinRuntime": "1m",
            },
        ),
        Queue(
            "x",
            parent="research",
            resources=FrozenDict(
                {
                    "cpu": ResourceShare(UNLIMITED),
                    "memory": ResourceShare(UNLIMITED, 3000, 4_000_000),
                    "nvidia.com/gpu": ResourceShare(1),
                }
            ),
            reclaim_min_runtime_s=60.0,
        ),
        id="Queue, KAI",
    ),
    pytest.param(
        body(
            "scheduling.volcano.sh/v1beta1",
            "Queue",
            spec={
                "parent": "root",
                "weight": 3,
                "capability": {"cpu": "8"},
                "deserved": {"cpu": "4"},
                "guarantee": {"resource": {"cpu": "1", "memory": "1Ki"}},
            },
        ),
        Queue(
            "x",
            resources=FrozenDict({"cpu": ResourceShare(4000, 3000, 8000), "memory": ResourceShare(1024, 3000)}),
        ),
        id="Queue, Volcano",
    ),
    pytest.param(
        body("moorage.dev/v1alpha1", "Topology", spec={"levels": ["block", "rack"]}),
        Topology("x", ("block", "rack")),
        id="Topology",
    ),
    pytest.param(
        body("kueue.x-k8s.io/v1beta2", "Topology", spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}),
        Topology("x", ("block", "rack")),
        id="Topology, Kueue",
    ),
    pytest.param(
        body("kai.scheduler/v1alpha1", "Topology", spec={"levels": [{"nodeLabel": "rack"}]}),
        Topology("x", ("rack",)),
        id="Topology, KAI",
    ),
    pytest.param(
        body(
            "topology.volcano.sh/v1alpha1",
            "HyperNode",
            spec={
                "tier": 2,
                "tierName": "spine",
                "members": [
                    {"type": "HyperNode", "selector": {"exactMatch": {"name": "s0"}}},
                    {"type": "Node", "selector": {"regexMatch": {"pattern": "^gpu-[0-9]+$"}}},
                    {"type": "Node", "selector": {"labelMatch": APP}},
                ],
            },
        ),
        HyperNode(
            "x",
            2,
            "spine",
            (
                NodeMatch(nodes=False, name="s0"),
                NodeMatch(nodes=True, pattern="^gpu-[0-9]+$"),
                NodeMatch(nodes=True, labels=FrozenDict(APP["matchLabels"])),
            ),
        ),
        id="HyperNode",
    ),
    pytest.param(
        body(
            "scheduling.run.ai/v2alpha2",
            "PodGroup",
            spec={
                "minMember": 3,
                "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "block"},
                "subGroups": [
                    {"name": "a", "minMember": 1, "topologyConstraint": {"preferredTopologyLevel": "rack"}},
                    {"name": "b", "parent": "a"},
                ],
            },
        ),
        PodGroup(
            "default",
            "x",
            api_group=KAI_GROUPS,
            min_count=3,
            topology=TopologyAsk(required="block", topology="t"),
            subgroups=(SubGroup("a", least=1, ask=TopologyAsk(preferred="rack")), SubGroup("b", "a")),
        ),
        id="PodGroup, KAI",
    ),
    pytest.param(
        body(
            "scheduling.volcano.sh/v1beta1",
            "PodGroup",
            spec={
                "minMember": 4,
                "minTaskMember": {"worker": 3},
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                "subGroupPolicy": [
                    {"subGroupSize": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
                ],
            },
        ),
        PodGroup(
            "default",
            "x",
            api_group=VOLCANO_GROUPS,
            min_count=4,
            topology=TopologyAsk(required="volcano.sh/tier-2", slices=(SliceAsk("volcano.sh/tier-1", 2),)),
            subgroups=(SubGroup("worker", least=3),),
        ),
        id="PodGroup, Volcano",
    ),
    pytest.param(
        body("scheduling.volcano.sh/v1beta1", "Queue", spec={"weight": 2}),
        Queue("x", resources=FrozenDict({"cpu": ResourceShare(0, 2000), "memory": ResourceShare(0, 2000)})),
        id="Queue, Volcano, by weight alone",
    ),
]


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
    assert {kind.name for kind in KINDS} == {*promised.split(), "PodGang", *workloads}
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
    """Whoever decodes many pods gets one template for equal ones."""
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
