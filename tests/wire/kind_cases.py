"""Objects of every kind with most of their fields, and the core values that they become."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.affinity import NodeTerm
from moorage.core.arrivals import NodeClaim
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.membership import Declared, GangKey
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
from moorage.core.provisioning import ProvisioningRequest
from moorage.core.queues import Queue, ResourceShare
from moorage.core.selectors import EVERYTHING, NOTHING, Operator, Requirement, selector_from_labels
from moorage.core.strategy import parse_strategy
from moorage.core.taints import Taint, Toleration
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


def rolling(**update: Any) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": update}}


ROLLED_OUT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("paused", {"paused": True}, {"paused": True, "max_unavailable": 1}),
    ("recreated", {"strategy": {"type": "Recreate"}}, {"max_unavailable": 6}),
    ("without a gap", rolling(maxUnavailable=0), {}),
    ("with a gap", rolling(maxUnavailable="50%", maxSurge=0), {"max_unavailable": 3}),
    ("with neither", rolling(maxUnavailable="10%", maxSurge=0), {"max_unavailable": 1}),
    ("with a surge in per cent", rolling(maxUnavailable="0%", maxSurge="1%"), {}),
]
"""Deployments: what is different, what their spec says, and the fields."""

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
    *(
        pytest.param(
            body("apps/v1", "Deployment", spec={"replicas": 6, "selector": APP, **spec}),
            Workload("Deployment", "default", "x", selector=WEB, replicas=6, **fields),
            id=f"Deployment {name}",
        )
        for name, spec, fields in ROLLED_OUT
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
        body(
            "batch/v1",
            "Job",
            spec={"parallelism": 4, "completions": 6, "activeDeadlineSeconds": 60},
            status={"succeeded": 5, "startTime": "1970-01-01T00:00:09Z"},
        ),
        Workload("Job", "default", "x", replicas=4, completions=6, succeeded=5, ends_s=69.0),
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
                    "nvidia.com/gpu": ResourceShare(4000, 2500, 8000),
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
                    "nvidia.com/gpu": ResourceShare(1500),
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
            "autoscaling.x-k8s.io/v1",
            "ProvisioningRequest",
            {
                "namespace": "default",
                "name": "g-21e03d3493",
                "uid": "u1",
                "annotations": {"moorage.dev/provisions-for": "label:g", "moorage.dev/pod-set-counts": "2,1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "g-0", "uid": "p1"}],
            },
            spec={"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": []},
            status={
                "conditions": [
                    {"type": "Failed", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"},
                    {
                        "type": "Provisioned",
                        "status": "True",
                        "message": "found",
                        "lastTransitionTime": "2026-01-03T00:00:00Z",
                    },
                ]
            },
        ),
        ProvisioningRequest(
            "default",
            "g-21e03d3493",
            "u1",
            "check-capacity.autoscaling.x-k8s.io",
            GangKey("default", "g", Declared.LABEL),
            "2,1",
            "p1",
            ("Provisioned",),
            "found",
        ),
        id="ProvisioningRequest",
    ),
    pytest.param(
        body(
            "karpenter.sh/v1",
            "NodeClaim",
            {"labels": {"karpenter.sh/nodepool": "p"}, "creationTimestamp": "1970-01-01T00:01:40Z"},
            spec={
                "requirements": [
                    {"key": "zone", "operator": "In", "values": ["a"]},
                    {"key": "size", "operator": "In", "values": ["s", "m"]},
                    {"key": "os", "operator": "NotIn", "values": ["w"]},
                ],
                "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "warming", "effect": "NoExecute"}],
            },
            status={"nodeName": "n1", "allocatable": {"cpu": "3500m", "pods": "110"}},
        ),
        NodeClaim(
            "x",
            FrozenDict({"zone": "a", "karpenter.sh/nodepool": "p"}),
            (Taint("gpu", "yes", "NoSchedule"),),
            (Taint("warming", "", "NoExecute"),),
            FrozenDict({"cpu": 3500, "pods": 110}),
            "n1",
            created_s=100.0,
        ),
        id="NodeClaim",
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
