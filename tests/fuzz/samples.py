"""Valid inputs, with as many of the fields that we read as there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fuzz.workload_samples import WORKLOADS

_ROOT = Path(__file__).parents[2]
_TERM = {
    "labelSelector": {
        "matchLabels": {"app": "db"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
    },
    "topologyKey": "topology.kubernetes.io/zone",
    "namespaces": ["other"],
    "namespaceSelector": {"matchLabels": {"team": "x"}},
    "matchLabelKeys": ["pod-template-hash"],
    "mismatchLabelKeys": ["x"],
}
_CEL = {"cel": {"expression": "true"}}
_NODE_TERM = {
    "matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["3"]}, {"key": "zone", "operator": "Exists"}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
ANNOTATIONS = {
    "moorage.dev/placement-strategy": "base=1,weight=1,nodeSelector=kind:ondemand;weight=2,nodeSelector=kind:spot",
    "custom-scheduler.io/schedule-strategy": "base=2,weight=1,nodeSelector=a:b",
    "moorage.dev/spot": "3",
    "moorage.dev/min-hosts": "2",
    "moorage.dev/pod-group-min-available": "3",
    "moorage.dev/priority": "100",
    "pod-group": "gang",
    "moorage.dev/policy": "p",
    "priority": "-5",
}
METADATA: dict[str, Any] = {
    "name": "web-1",
    "namespace": "default",
    "uid": "u-1",
    "resourceVersion": "12",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": None,
    "labels": {"app": "web", "pod-template-hash": "abc", "scheduling.x-k8s.io/pod-group": "g"},
    "annotations": ANNOTATIONS,
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o-1", "controller": True}
    ],
}
CONTAINER = {
    "name": "c",
    "image": "registry.example:5000/a/b@sha256:00",
    "restartPolicy": "Always",
    "resources": {
        "requests": {"cpu": "250m", "memory": "1.5Gi", "example.com/gpu": "2"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    },
    "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}],
}
SPEC: dict[str, Any] = {
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "nodeName": "n1",
    "schedulerName": "default-scheduler",
    "priority": 10,
    "preemptionPolicy": "Never",
    "overhead": {"cpu": "10m"},
    "hostNetwork": True,
    "resources": {"requests": {"cpu": "1"}},
    "nodeSelector": {"disk": "ssd"},
    "runtimeClassName": "r",
    "schedulingGates": [{"name": "g"}],
    "schedulingGroup": {"podGroupName": "g"},
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": _NODE_TERM}],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [_TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": _TERM}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "minDomains": 2,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        },
    ],
    "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        {"name": "e", "awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}},
        {"name": "f", "image": {"reference": "img"}},
        {"name": "g", "csi": {"driver": "csi.example.com"}},
    ],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "rc"}, {"name": "x", "resourceClaimTemplateName": "t"}],
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": METADATA,
    "spec": SPEC,
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n2",
        "startTime": "2026-01-01T00:00:01Z",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "reason": "",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
            {"type": "moorage.dev/GangStart", "status": "False", "message": '{"term":"1/a","members":{"web-1":"n1"}}'},
            {
                "type": "moorage.dev/Devices",
                "status": "True",
                "message": '{"node":"n1","devices":[0],"milli":500,"memoryMilli":500,"memoryMiB":0}',
            },
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
            {"type": "Ready", "status": "True"},
        ],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}}
        ],
        "resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}],
    },
}
_HOLDING = ("nodeName", "schedulingGates", "schedulingGroup", "volumes", "resourceClaims", "nodeSelector", "affinity")
_APART = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": _TERM}]}
}
LIGHT_POD: dict[str, Any] = {
    **POD,
    "metadata": {**METADATA, "labels": {"app": "web"}, "annotations": {}},
    "spec": {name: value for name, value in SPEC.items() if name not in _HOLDING} | {"affinity": _APART},
    "status": {},
}
"""One that finds a node."""
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        **METADATA,
        "name": "n1",
        "namespace": "",
        "labels": {"topology.kubernetes.io/zone": "a", "disk": "4"},
    },
    "spec": {
        "unschedulable": True,
        "providerID": "p://1",
        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    },
    "status": {
        "allocatable": {
            "cpu": "7910m",
            "memory": "32Gi",
            "pods": "110",
            "example.com/gpu": "4",
            "ephemeral-storage": "10Gi",
        },
        "capacity": {"cpu": "8"},
        "images": [{"names": ["a/b:1", "a/b@sha256:0"], "sizeBytes": 12345678}],
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        "volumesAttached": [{"name": "kubernetes.io/csi/x^v1", "devicePath": ""}],
        "declaredFeatures": ["F"],
    },
}
_TEMPLATE = {"metadata": {"labels": {"app": "web"}, "annotations": ANNOTATIONS}, "spec": SPEC}
_SCALED = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}
_OBJECTS: dict[str, dict[str, Any]] = {
    "Namespace": {},
    "Service": {"spec": {"selector": {"app": "web"}}},
    "ReplicationController": {"spec": {"replicas": 2, "selector": {"app": "web"}, "template": _TEMPLATE}},
    "Deployment": {"spec": _SCALED, "status": {"replicas": 3}},
    "ReplicaSet": {"spec": _SCALED},
    "StatefulSet": {"spec": _SCALED},
    "DaemonSet": {"spec": _SCALED},
    "Job": {"spec": {"parallelism": 2, "completions": 5, "template": _TEMPLATE}, "status": {"succeeded": 1}},
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": _TEMPLATE}}}},
    "PersistentVolumeClaim": {
        "spec": {
            "volumeName": "v",
            "storageClassName": "s",
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "5Gi"}},
            "selector": {"matchLabels": {"a": "b"}},
        },
        "status": {"phase": "Bound"},
    },
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "s",
            "volumeMode": "Filesystem",
            "claimRef": {"namespace": "a", "name": "b", "uid": "c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_NODE_TERM]}},
            "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Available"},
    },
    "StorageClass": {
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    "CSINode": {
        "spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 5}, "topologyKeys": ["zone"]}]}
    },
    "CSIDriver": {"spec": {"storageCapacity": True}},
    "CSIStorageCapacity": {
        "storageClassName": "s",
        "capacity": "5Gi",
        "maximumVolumeSize": "1Gi",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    },
    "VolumeAttachment": {
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        "status": {"attached": True},
    },
    "ResourceClaim": {
        "metadata": {"finalizers": ["f"]},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "c", "count": 2, "selectors": [_CEL]}},
                    {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "c", "allocationMode": "All"}]},
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": "d/a"}, {"distinctAttribute": "d/b"}],
                "config": [{"opaque": {"driver": "d", "parameters": {"a": [1, {"b": None}]}}}],
            }
        },
        "status": {
            "allocation": {
                "nodeSelector": {"nodeSelectorTerms": [_NODE_TERM]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": "d",
                            "pool": "p",
                            "device": "g",
                            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
                            "bindingConditions": ["ready"],
                            "shareID": "x",
                            "consumedCapacity": {"memory": "1Gi"},
                        }
                    ],
                    "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {}}}],
                },
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [
                {"driver": "d", "pool": "p", "device": "g", "conditions": [{"type": "ready", "status": "True"}]}
            ],
        },
    },
    "ResourceClaimTemplate": {
        "spec": {
            "metadata": {"annotations": {"a": "b"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        }
    },
    "DeviceClass": {
        "spec": {
            "extendedResourceName": "example.com/gpu",
            "selectors": [_CEL],
            "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}],
        }
    },
    "ResourceSlice": {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [_NODE_TERM]},
            "devices": [
                {
                    "name": "g",
                    "attributes": {"a": {"string": "x"}, "d/b": {"int": 1}, "c": {"version": "1.0.0"}},
                    "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"validRange": {"min": "1Gi"}}}},
                    "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}],
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                    "allowMultipleAllocations": True,
                }
            ],
            "sharedCounters": [{"name": "s", "counters": {"m": {"value": "2"}}}],
        }
    },
    "DeviceTaintRule": {
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "value": "v", "effect": "NoExecute"}}
    },
    "PodDisruptionBudget": {
        "spec": {
            "minAvailable": "50%",
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
        "status": {
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
            "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
        },
    },
    "PriorityClass": {"value": 1000, "globalDefault": False, "preemptionPolicy": "Never"},
    "RuntimeClass": {
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": SPEC["tolerations"]},
    },
    "PodGroup": {
        "spec": {
            "minMember": 3,
            "minResources": {"cpu": "4"},
            "scheduleTimeoutSeconds": 10,
            "policy": {"gang": {"minCount": 3}},
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "priorityClassName": "p",
            "priority": 5,
            "topologyConstraint": {"level": "zone"},
            "disruptionMode": "PodGroup",
        },
        "status": {"phase": "Running", "conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]},
    },
    "PlacementPolicy": {
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "rules": ["base=1,weight=1,nodeSelector=a:b"]}
    },
    "Queue": {
        "spec": {
            "parent": "a",
            "parentQueue": "a",
            "priority": 5,
            "resources": {"cpu": {"quota": "4", "weight": 2, "overQuotaWeight": 2, "limit": "-1"}, "gpu": {"quota": 1}},
            "namespaces": {"matchLabels": {"app": "web"}},
            "preemptMinRuntime": "5m",
            "reclaimMinRuntime": "1m30s",
            "weight": 3,
            "capability": {"cpu": "8"},
            "deserved": {"cpu": "4"},
            "guarantee": {"resource": {"cpu": "1"}},
        }
    },
    "Topology": {"spec": {"levels": ["block", "rack", "kubernetes.io/hostname"]}},
    "HyperNode": {
        "spec": {
            "tier": 2,
            "tierName": "spine",
            "members": [
                {"type": "HyperNode", "selector": {"exactMatch": {"name": "s0"}}},
                {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-9]"}}},
                {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"app": "web"}}}},
            ],
        }
    },
    "ProvisioningRequest": {
        "spec": {"provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io"},
        "status": {
            "conditions": [
                {"type": "Provisioned", "status": "True", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ]
        },
    },
    "NodeClaim": {
        "spec": {
            "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}],
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoExecute"}],
        },
        "status": {"nodeName": "n1", "allocatable": {"cpu": "4", "memory": "8Gi"}},
    },
    "PriceList": {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "PriceList",
        "currency": "EUR",
        "updatedAt": "2026-01-01T00:00:00Z",
        "prices": [{"pricePerHour": "0.12", "labels": {"a": "b"}, "providerID": "p"}],
    },
}


def object_of(kind: str) -> dict[str, Any]:
    """A valid object of a kind."""
    if kind in ("Pod", "Node"):
        return POD if kind == "Pod" else NODE
    return {"metadata": METADATA, **(_OBJECTS | WORKLOADS)[kind]}


def review(pod: dict[str, Any]) -> dict[str, Any]:
    asked = {
        "uid": "q-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "default",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "userInfo": {"username": "u"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "no",
    "reason": "NotFound",
    "code": 404,
    "details": {
        "name": "a",
        "kind": "pods",
        "retryAfterSeconds": 3,
        "causes": [{"reason": "x", "message": "y", "field": "z"}],
    },
}
LEASE = {
    "metadata": METADATA,
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    },
}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://10.0.0.1:6443/x",
                "certificate-authority-data": "LS0t",
                "tls-server-name": "a",
                "proxy-url": "http://p",
            },
        }
    ],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "users": [
        {
            "name": "u",
            "user": {
                "token": "t",
                "username": "a",
                "password": "b",
                "as": "x",
                "as-groups": ["g"],
                "as-user-extra": {"k": ["v"]},
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "none",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                    "interactiveMode": "Never",
                },
            },
        }
    ],
}
NODES = ["n1", "n2", "n3"]
QUESTION = {
    "Pod": {**POD, "status": {}, "spec": {**SPEC, "nodeName": ""}},
    "Nodes": {"items": [NODE]},
    "NodeNames": NODES,
}
PREEMPTION = {
    "Pod": POD,
    "NodeNameToVictims": {"n1": {"Pods": [POD], "NumPDBViolations": 1}},
    "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-1"}], "NumPDBViolations": 0}},
}
BINDING = {"PodName": "web-1", "PodNamespace": "default", "PodUID": "u-1", "Node": "n1"}
FILTER_ANSWER = {
    "Nodes": {"items": [NODE]},
    "NodeNames": NODES,
    "FailedNodes": {"n2": "full"},
    "FailedAndUnresolvableNodes": {"n3": "no"},
    "Error": "",
}
PRIORITIES_ANSWER = [{"Host": "n1", "Score": 5}, {"Host": "n2", "Score": 10}]
PREEMPTION_ANSWER = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-1"}], "NumPDBViolations": 1}}}
_GPU = 'device.attributes["gpu.example.com"]'
SELECTORS = (
    f'{_GPU}.model == "a100" && !({_GPU}.healthy) || {_GPU}.numa in [0, 1]',
    f'has({_GPU}.fast) ? {_GPU}.fast : {_GPU}.?model.orValue("none").startsWith("a")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'quantity("10Gi").add(device.capacity["gpu.example.com"].memory).sub(5).asInteger() > 20000000000',
    f'{_GPU}.driverVersion.isGreaterThan(semver("v1.9", true)) && {_GPU}.driverVersion.major() < 2',
    f"cel.bind(x, {_GPU}, x.lanes.all(l, l > 0) && x.lanes.exists_one(l, l == 2) && x.model.size() == 4)",
    '{"a": 1, "b": 2}.transformMap(k, v, v > 1, v * 2) == {"b": 4} && [3, 1, 2].sortBy(x, -x)[0] == 3',
    "[[1], [2, 3]].flatten().map(x, x % 2 == 1, x * 10).sum() == 40 && lists.range(5).slice(1, 3) == [1, 2]",
    f'{_GPU}.model.matches("^(a|h)[0-9]{{1,3}}$") && "abcabc".findAll("b|c+?") == ["b", "c", "b", "c"]',
    f'"%s-%d %x".format([{_GPU}.model, 7, 255]).split("-", 2).join("+").upperAscii().replace("A", "b") != ""',
    "optional.of([1, 2]).optMap(v, v[0] + 1).or(optional.none()).hasValue() && [?optional.none()] == []",
    'timestamp("2020-01-01T00:00:00Z").getHours("+02:00") == 2 && duration("1h30m") > duration("5s")',
    'url("https://a.example.com:80/p?x=1").getHost() != "" && cidr("10.0.0.0/8").containsIP("10.1.2.3")',
    "sets.contains([1, 2u, 3.0], [2]) || type(dyn(1)) == int || b\"\\xff\".size() == 1 || '''a''' == r\"a\"",
    "-(1 + 2 * 3 / 4 % 5) <= 9223372036854775807 ? 0x1F == 31 : 1e3 != 1u // why not",
)
"""Device selectors with as much of the language as there is."""
STRATEGIES = (
    ANNOTATIONS["moorage.dev/placement-strategy"],
    "weight=1",
    "base=1,weight=0;weight=3,nodeSelector=a:b,c:d",
    "base=1,maxPercent=50,nodeSelector=x:y",
    " base = 1 , weight = 2 ",
)
TEXTS = ("100m", "1.5Gi", "1e3", "-5", "0", "1Ei", "2h30m", "1.5s", "500ms", "100", "2147483647", "gang", "50%", "In")
FILES = sorted(
    path
    for folder in ("examples", "deploy/examples")
    for path in (_ROOT / folder).rglob("*.yaml")
    if path.stat().st_size < 20_000
)
_CONFIGURED = ("config.yaml", "profile.yaml", "trial.yaml", "kube-scheduler-config.yaml")
CONFIGURATIONS = [path for path in FILES if path.name in _CONFIGURED]
TRIAL = {
    "name": "packed",
    "digest": "d",
    "phase": "Ended",
    "ranSeconds": 12.5,
    "beganSeconds": 1.8e9,
    "end": "Worse",
    "verdict": "Worse",
    "message": "pending",
    "control": {"placed": 3, "waits": [[0, 2], [97, 1]]},
    "trial": {"placed": 1, "pending": 2, "evictions": 1, "failedBinds": 1},
}
"""What a Lease keeps of a trial."""
