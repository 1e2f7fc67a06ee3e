"""The worst object of every kind beside pods and nodes: each list and map in it filled, and a pod that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from moorage.core import limits
from moorage.core.affinity import PodAffinity, PodTerm
from moorage.core.membership import GROUP_LABEL, KAI_ANNOTATION, VOLCANO_ANNOTATIONS
from moorage.core.pods import Owner, Pod, PodVolume
from moorage.core.queues import KAI_QUEUE, QUEUE, QUEUE_LABEL, VOLCANO_QUEUE
from moorage.core.selectors import EVERYTHING, Operator, Requirement, Selector
from moorage.testing import make_pod
from moorage.wire.kinds import BY_ID
from moorage.wire.workloadrows import ROWS, WorkloadRow
from tests.bounds.shapes import ANNOTATION_BYTES, SIZE_BYTES, Make, filled

Body = dict[str, Any]
Asks = Callable[[str], Pod]
"""Makes a pod of that name, which has to do with the worst object."""

NAME = "worst"
LABELS = {"app": "a1"} | {f"k{number}": f"v{number}" for number in range(900)}
"""Of pods, so that many equalities of a selector hold before one fails."""


class Shape(NamedTuple):
    """One field of a kind, filled."""

    kind: str
    """Its id, as in `wire.kinds`."""
    make: Make
    wrap: Callable[[Any], Body]
    asks: Asks
    is_map: bool = False
    size: int = SIZE_BYTES


def _pod(name: str, **fields: Any) -> Pod:
    return make_pod(name, namespace="tenant", **{"cpu": "100m", "labels": LABELS, "scheduler_name": "moorage"} | fields)


def _owned(kind: str, api_version: str) -> Asks:
    return lambda name: _pod(name, owner=Owner(kind, NAME, NAME, api_version))


def _preempting(name: str) -> Pod:
    """Fits nowhere unless somebody of the namespace `default` goes."""
    return _pod(name, cpu="63800m", priority=1000)


def _mounting(*volumes: PodVolume) -> Asks:
    return lambda name: _pod(name, volumes=volumes)


def _avoiding(name: str) -> Pod:
    """Keeps away from pods of namespaces with certain labels."""
    chosen = Selector((Requirement("k1", Operator.IN, ("v1",)),))
    apart = PodAffinity((PodTerm(EVERYTHING, "kubernetes.io/hostname", (), chosen),))
    return _pod(name, pod_anti_affinity=apart)


_late = _mounting(PodVolume("c"))
_bound = _mounting(PodVolume("b"), PodVolume(csi_driver="v0"))


def _text(number: int) -> tuple[str, str]:
    return f"k{number}", f"v{number}"


def _name(number: int) -> str:
    return f"v{number}"


def _mode(number: int) -> str:
    return ("ReadWriteOnce", "ReadWriteMany")[number % 2]


def _amount(number: int) -> tuple[str, int]:
    return f"example.com/r{number}", 1


def _share(number: int) -> tuple[str, Body]:
    return f"example.com/r{number}", {"quota": 1}


def _queued(name: str) -> Pod:
    return _pod(name, labels={**LABELS, QUEUE_LABEL: NAME})


def _level(number: int) -> Body:
    return {"nodeLabel": f"example.com/l{number}"}


def _member(number: int) -> Body:
    return {"type": "Node", "selector": {"exactMatch": {"name": f"n{number}"}}}


def _subgroup(number: int) -> Body:
    return {"name": f"s{number}", "minMember": 1}


def _policy(number: int) -> Body:
    return {"subGroupSize": number + 1, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}


def _task(number: int) -> tuple[str, int]:
    return f"t{number}", 1


def _kai_gang(name: str) -> Pod:
    return _pod(name, annotations={KAI_ANNOTATION: NAME})


def _volcano_gang(name: str) -> Pod:
    return _pod(name, annotations={VOLCANO_ANNOTATIONS[0]: NAME})


def _expression(number: int) -> Body:
    return {"key": f"x{number}", "operator": "NotIn", "values": ["x"]}


def _condition(number: int) -> Body:
    return {"type": f"t{number}", "status": "True"}


def _selecting(**selector: Any) -> Body:
    return {"spec": {"selector": selector}}


def _selector(prefix: str, kind: str, asks: Asks, where: Callable[..., Body] = _selecting) -> dict[str, Shape]:
    def values(entries: Any) -> Body:
        return where(matchExpressions=[{"key": "app", "operator": "NotIn", "values": entries}])

    return {
        f"{prefix} selector's expressions": Shape(kind, _expression, lambda e: where(matchExpressions=e), asks),
        f"{prefix} selector's labels": Shape(kind, _text, lambda e: where(matchLabels=e), asks, is_map=True),
        f"{prefix} selector's values": Shape(kind, _name, values, asks),
    }


def _terms(prefix: str, kind: str, asks: Asks, where: Callable[[Body], Body]) -> dict[str, Shape]:
    def terms(*entries: Any) -> Body:
        return where({"nodeSelectorTerms": entries})

    return {
        f"{prefix} terms": Shape(
            kind, lambda n: {"matchExpressions": [{**_expression(n), "operator": "In"}]}, lambda e: terms(*e), asks
        ),
        f"{prefix} expressions": Shape(kind, _expression, lambda e: terms({"matchExpressions": e}), asks),
        f"{prefix} values": Shape(
            kind, _name, lambda e: terms({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": e}]}), asks
        ),
        f"{prefix} names": Shape(
            kind, _name, lambda e: terms({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": e}]}),
            asks,
        ),
    }  # fmt: skip


def _metadata(prefix: str, kind: str, asks: Asks) -> dict[str, Shape]:
    def put(field: str) -> Callable[[Any], Body]:
        return lambda entries: {"metadata": {field: entries}}

    return {
        f"{prefix} labels": Shape(kind, _text, put("labels"), asks, is_map=True),
        f"{prefix} annotations": Shape(kind, _text, put("annotations"), asks, is_map=True, size=ANNOTATION_BYTES),
        f"{prefix} owners": Shape(kind, lambda n: {"kind": "A", "name": f"o{n}"}, put("ownerReferences"), asks),
    }


def _workload(prefix: str, kind: str, api_version: str) -> dict[str, Shape]:
    """Their metadata is read in one place: that of Deployments stands for all."""
    asks = _owned(kind, api_version)
    made = {
        f"{prefix} template's labels": Shape(
            kind, _text, lambda e: {"spec": {"template": {"metadata": {"labels": e}}}}, asks, is_map=True
        ),
        **(_metadata(prefix, kind, asks) if kind == "Deployment" else {}),
    }
    if kind == "CronJob":
        return made
    if kind == "ReplicationController":
        plain = Shape(kind, _text, lambda e: {"spec": {"selector": e}}, asks, is_map=True)
        return made | {f"{prefix} selector": plain}
    return made | _selector(prefix, kind, asks)


_VOLUME = {"storageClassName": "wait", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"]}
_CLAIM = {"storageClassName": "wait", "resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
_CLASS = {"provisioner": "disk.example", "volumeBindingMode": "WaitForFirstConsumer"}


def _reached(selector: Body) -> Body:
    return {"spec": {**_VOLUME, "nodeAffinity": {"required": selector}}}


def _topology(entries: Any) -> Body:
    return {**_CLASS, "metadata": {"name": "wait"}, "allowedTopologies": entries}


def _claim_selector(**selector: Any) -> Body:
    return {"metadata": {"name": "c"}, "spec": {**_CLAIM, "selector": selector}}


def _capacity(**selector: Any) -> Body:
    return {"storageClassName": "wait", "capacity": "5Gi", "nodeTopology": selector}


def _gang(name: str) -> Pod:
    return _pod(name, group=NAME)


def _crd_gang(name: str) -> Pod:
    return _pod(name, labels={GROUP_LABEL: NAME})


_CRD = "PodGroup.scheduling.x-k8s.io"


def _device(number: int) -> Body:
    return {"name": f"d{number}", "attributes": {"model": {"string": "m"}}, "capacity": {"memory": {"value": "8Gi"}}}


def _slice(**spec: Any) -> Body:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"spec": {"driver": "d", "pool": pool, **({} if "nodeSelector" in spec else {"allNodes": True}), **spec}}


_claiming: Asks = lambda name: _pod(name, claims=(NAME,))  # noqa: E731


def _grove_gang(name: str) -> Pod:
    return _pod(name, labels={**LABELS, "grove.io/podgang": NAME})


def _role(number: int) -> Body:
    """A role of any workload that lists them."""
    job = {"spec": {"parallelism": 2, "completions": 2}}
    return {"name": f"r{number}", "groupName": f"r{number}", "replicas": 1, "template": job}


def _replica(number: int) -> tuple[str, Body]:
    return f"R{number}", {"replicas": 1}


_ROLES: dict[str, Callable[[Any], Body]] = {
    "JobSet": lambda e: {"spec": {"replicatedJobs": e}},
    "RayCluster": lambda e: {"spec": {"headGroupSpec": {}, "workerGroupSpecs": e}},
    "Job.batch.volcano.sh": lambda e: {"spec": {"tasks": e}},
    "AppWrapper": lambda e: {"spec": {"components": [{"podSets": e}]}},
}
_REPLICAS = {row.id: row.members[0].at.split(".")[1] for row in ROWS if row.members and row.members[0].at.endswith("*")}


def _gang_owner(row: WorkloadRow) -> dict[str, Shape]:
    """A workload by its row: its roles, if it lists any, and its annotations."""
    asks = _owned(row.kind, f"{row.group}/{row.versions[0]}")
    found = {
        f"{row.id}'s annotations": Shape(
            row.id, _text, lambda e: {"metadata": {"annotations": e}}, asks, is_map=True, size=ANNOTATION_BYTES
        )
    }
    if row.id in _ROLES:
        found[f"{row.id}'s roles"] = Shape(row.id, _role, _ROLES[row.id], asks)
    elif row.id in _REPLICAS:
        field = _REPLICAS[row.id]
        found[f"{row.id}'s roles"] = Shape(row.id, _replica, lambda e: {"spec": {field: e}}, asks, is_map=True)
    return found


OBJECT_SHAPES: dict[str, Shape] = {
    "PodGang's pod groups": Shape("PodGang", _role, lambda e: {"spec": {"podgroups": e}}, _grove_gang),
    **{name: shape for row in ROWS for name, shape in _gang_owner(row).items()},
    "service's selector": Shape("Service", _text, lambda e: {"spec": {"selector": e}}, _pod, is_map=True),
    **_metadata("namespace's", "Namespace", _avoiding),
    **_workload("replication controller's", "ReplicationController", "v1"),
    **_workload("deployment's", "Deployment", "apps/v1"),
    **_workload("replica set's", "ReplicaSet", "apps/v1"),
    **_workload("stateful set's", "StatefulSet", "apps/v1"),
    **_workload("daemon set's", "DaemonSet", "apps/v1"),
    **_workload("job's", "Job", "batch/v1"),
    "job's conditions": Shape("Job", _condition, lambda e: {"status": {"conditions": e}}, _owned("Job", "batch/v1")),
    **_workload("cron job's", "CronJob", "batch/v1"),
    **_selector("claim's", "PersistentVolumeClaim", _late, _claim_selector),
    **_metadata("claim's", "PersistentVolumeClaim", _mounting(PodVolume(NAME))),
    "claim's access modes": Shape(
        "PersistentVolumeClaim",
        _mode,
        lambda e: {"metadata": {"name": "c"}, "spec": {**_CLAIM, "accessModes": e}},
        _late,
    ),
    "claim's requests": Shape(
        "PersistentVolumeClaim",
        _amount,
        lambda e: {"metadata": {"name": "c"}, "spec": {**_CLAIM, "resources": {"requests": {"storage": "1Gi", **e}}}},
        _late,
        is_map=True,
    ),
    **_terms("volume's", "PersistentVolume", _late, _reached),
    **_terms("bound volume's", "PersistentVolume", _bound, lambda e: {"metadata": {"name": "bound"}, **_reached(e)}),
    "volume's labels": Shape(
        "PersistentVolume", _text, lambda e: {"metadata": {"labels": e}, "spec": _VOLUME}, _late, is_map=True
    ),
    "volume's access modes": Shape("PersistentVolume", _mode, lambda e: {"spec": {**_VOLUME, "accessModes": e}}, _late),
    "volume's source": Shape(
        "PersistentVolume", _text, lambda e: {"spec": {**_VOLUME, "local": e}}, _late, is_map=True
    ),
    "class's topologies": Shape(
        "StorageClass", lambda n: {"matchLabelExpressions": [{"key": f"k{n}", "values": ["v"]}]}, _topology, _late
    ),
    "class's expressions": Shape(
        "StorageClass",
        lambda n: {"key": f"k{n}", "values": ["v"]},
        lambda e: _topology([{"matchLabelExpressions": e}]),
        _late,
    ),
    "class's values": Shape(
        "StorageClass", _name, lambda e: _topology([{"matchLabelExpressions": [{"key": "k", "values": e}]}]), _late
    ),
    "CSI node's drivers": Shape(
        "CSINode",
        lambda n: {"name": f"v{n}", "allocatable": {"count": 3}},
        lambda e: {"metadata": {"name": "n1"}, "spec": {"drivers": e}},
        _bound,
    ),
    "CSI node's topology keys": Shape(
        "CSINode",
        _name,
        lambda e: {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "v0", "topologyKeys": e}]}},
        _bound,
    ),
    "CSI node's migrated plugins": Shape(
        "CSINode",
        _name,
        lambda e: {
            "metadata": {"name": "n1", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(e)}}
        },
        _bound,
        size=ANNOTATION_BYTES,
    ),
    **_selector("capacity's", "CSIStorageCapacity", _late, _capacity),
    "attachment's source": Shape(
        "VolumeAttachment",
        _text,
        lambda e: {"spec": {"attacher": "v0", "nodeName": "n1", "source": {"inlineVolumeSpec": {"local": e}}}},
        _bound,
        is_map=True,
    ),
    "device requests": Shape(
        "ResourceClaim",
        lambda n: {"exactly": {"deviceClassName": f"d{n}"}},
        lambda e: {"spec": {"devices": {"requests": e}}},
        _claiming,
    ),
    "device alternatives": Shape(
        "ResourceClaim",
        lambda n: {"deviceClassName": f"d{n}"},
        lambda e: {"spec": {"devices": {"requests": [{"firstAvailable": e}]}}},
        _claiming,
    ),
    "consumers of a claim": Shape(
        "ResourceClaim",
        lambda n: {"resource": "pods", "name": f"p{n}", "uid": f"u{n}"},
        lambda e: {"status": {"allocation": {}, "reservedFor": e}},
        _claiming,
    ),
    "device constraints": Shape(
        "ResourceClaim",
        lambda n: {"matchAttribute": f"d/a{n}"},
        lambda e: {"spec": {"devices": {"constraints": e}}},
        _claiming,
    ),
    "allocated devices": Shape(
        "ResourceClaim",
        lambda n: {"request": "r", "driver": "d", "pool": "p", "device": f"d{n}"},
        lambda e: {"status": {"allocation": {"devices": {"results": e}}}},
        _claiming,
    ),
    "parameters of devices": Shape(
        "ResourceClaim",
        _text,
        lambda e: {"spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": e}}]}}},
        _claiming,
        is_map=True,
        size=limits.DEVICE_TEXT,
    ),
    "finalizers": Shape("ResourceClaim", _name, lambda e: {"metadata": {"finalizers": e}}, _claiming),
    "selectors of a template": Shape(
        "ResourceClaimTemplate",
        lambda n: {"cel": {"expression": f"true || {n} == 1"}},
        lambda e: {"spec": {"spec": {"devices": {"requests": [{"exactly": {"selectors": e}}]}}}},
        _claiming,
    ),
    "devices of a slice": Shape("ResourceSlice", _device, lambda e: _slice(devices=e), _claiming),
    "attributes of a device": Shape(
        "ResourceSlice",
        lambda n: (f"a{n}", {"int": n}),
        lambda e: _slice(devices=[{"name": "d", "attributes": e}]),
        _claiming,
        is_map=True,
    ),
    "taints of a device": Shape(
        "ResourceSlice",
        lambda n: {"key": f"k{n}", "effect": "NoSchedule"},
        lambda e: _slice(devices=[{"name": "d", "taints": e}]),
        _claiming,
    ),
    "counters of a slice": Shape(
        "ResourceSlice",
        lambda n: (f"c{n}", {"value": str(n)}),
        lambda e: _slice(sharedCounters=[{"name": "s", "counters": e}]),
        _claiming,
        is_map=True,
    ),
    **_terms("slice's", "ResourceSlice", _claiming, lambda e: _slice(nodeSelector=e)),
    **_metadata("taint rule's", "DeviceTaintRule", _pod),
    **_terms("allocation's", "ResourceClaim", _claiming, lambda e: {"status": {"allocation": {"nodeSelector": e}}}),
    **_metadata("resource claim's", "ResourceClaim", _claiming),
    **_selector(
        "budget's",
        "PodDisruptionBudget",
        _preempting,
        lambda **e: {"metadata": {"namespace": "default"}, **_selecting(**e)},
    ),
    "disrupted pods": Shape(
        "PodDisruptionBudget",
        lambda n: (f"q{n}", None),
        lambda e: {
            "metadata": {"namespace": "default"},
            **_selecting(matchExpressions=[{"key": "app", "operator": "Exists"}]),
            "status": {"disruptedPods": e},
        },
        _preempting,
        is_map=True,
    ),
    "overhead of a runtime": Shape("RuntimeClass", _amount, lambda e: {"overhead": {"podFixed": e}}, _pod, is_map=True),
    "node selector of a runtime": Shape(
        "RuntimeClass", _text, lambda e: {"scheduling": {"nodeSelector": e}}, _pod, is_map=True
    ),
    "tolerations of a runtime": Shape(
        "RuntimeClass", lambda n: {"key": f"k{n}"}, lambda e: {"scheduling": {"tolerations": e}}, _pod
    ),
    **_metadata("request for nodes'", "ProvisioningRequest", _gang),
    "conditions of a request for nodes": Shape(
        "ProvisioningRequest", _condition, lambda e: {"status": {"conditions": e}}, _gang
    ),
    **_metadata("node claim's", "NodeClaim", _gang),
    "requirements of a node claim": Shape(
        "NodeClaim",
        lambda n: {"key": f"k{n}", "operator": "In", "values": ["v"]},
        lambda e: {"spec": {"requirements": e}},
        _gang,
    ),
    "taints of a node claim": Shape(
        "NodeClaim", lambda n: {"key": f"k{n}", "effect": "NoSchedule"}, lambda e: {"spec": {"taints": e}}, _gang
    ),
    "allocatable of a node claim": Shape(
        "NodeClaim", _amount, lambda e: {"status": {"allocatable": e}}, _gang, is_map=True
    ),
    **_metadata("priority class's", "PriorityClass", _pod),
    **_metadata("device class's", "DeviceClass", _pod),
    **_metadata("CSI driver's", "CSIDriver", _bound),
    **_metadata("group's", "PodGroup", _gang),
    "group's topologies": Shape(
        "PodGroup", lambda n: {"key": f"key-{n}"}, lambda e: {"spec": {"schedulingConstraints": {"topology": e}}}, _gang
    ),
    "group's conditions": Shape("PodGroup", _condition, lambda e: {"status": {"conditions": e}}, _gang),
    **_metadata("coscheduling group's", _CRD, _crd_gang),
    "coscheduling group's resources": Shape(
        _CRD, _amount, lambda e: {"spec": {"minMember": 1, "minResources": e}}, _crd_gang, is_map=True
    ),
    **_selector("policy's", "PlacementPolicy", _pod),
    "policy's rules": Shape("PlacementPolicy", _name, lambda e: {"spec": {"selector": {}, "rules": e}}, _pod),
    "levels of a topology": Shape("Topology", _name, lambda e: {"spec": {"levels": e}}, _pod),
    "levels of a topology of Kueue": Shape("Topology.kueue.x-k8s.io", _level, lambda e: {"spec": {"levels": e}}, _pod),
    "levels of a topology of KAI": Shape("Topology.kai.scheduler", _level, lambda e: {"spec": {"levels": e}}, _pod),
    "members of a hyper node": Shape("HyperNode", _member, lambda e: {"spec": {"members": e}}, _pod),
    "KAI group's sub-groups": Shape(
        "PodGroup.scheduling.run.ai", _subgroup, lambda e: {"spec": {"subGroups": e}}, _kai_gang
    ),
    "Volcano group's tasks": Shape(
        "PodGroup.scheduling.volcano.sh",
        _task,
        lambda e: {"spec": {"minTaskMember": e}},
        _volcano_gang,
        is_map=True,
    ),
    "Volcano group's policies": Shape(
        "PodGroup.scheduling.volcano.sh", _policy, lambda e: {"spec": {"subGroupPolicy": e}}, _volcano_gang
    ),
    "Volcano group's resources": Shape(
        "PodGroup.scheduling.volcano.sh", _amount, lambda e: {"spec": {"minResources": e}}, _volcano_gang, is_map=True
    ),
    **_selector("queue's", QUEUE, _queued, lambda **e: {"spec": {"namespaces": e}}),
    "queue's resources": Shape(QUEUE, _share, lambda e: {"spec": {"resources": e}}, _queued, is_map=True),
    "KAI queue's resources": Shape(KAI_QUEUE, _share, lambda e: {"spec": {"resources": e}}, _queued, is_map=True),
    "Volcano queue's capability": Shape(
        VOLCANO_QUEUE, _amount, lambda e: {"spec": {"capability": e}}, _queued, is_map=True
    ),
}

COMPANY: tuple[tuple[str, Body], ...] = (
    ("StorageClass", {"metadata": {"name": "wait"}, **_CLASS}),
    ("CSIDriver", {"metadata": {"name": "disk.example"}, "spec": {"storageCapacity": True}}),
    ("PersistentVolumeClaim", {"metadata": {"name": "c", "namespace": "tenant", "uid": "c"}, "spec": _CLAIM}),
    (
        "PersistentVolumeClaim",
        {
            "metadata": {"name": "b", "namespace": "tenant", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {**_CLAIM, "volumeName": "bound"},
        },
    ),
    (
        "PersistentVolume",
        {"metadata": {"name": "bound"}, "spec": {**_VOLUME, "csi": {"driver": "v0", "volumeHandle": "h"}}},
    ),
    ("PersistentVolume", {"metadata": {"name": "open", "labels": LABELS}, "spec": _VOLUME}),
)
"""What pods ask for beside the worst object; it may be the worst one of its name."""


def decoded(kind: str, body: Body) -> Any:
    """The value of an object of plain types."""
    return BY_ID[kind].from_builtin(body)


@lru_cache(maxsize=4)
def object_json(name: str, most: int | None = None) -> bytes:
    """An object as large as may be in one way, or with at most so many entries."""
    shape = OBJECT_SHAPES[name]
    entries: Any = filled(shape.make, shape.size - 1_000 * shape.is_map, most)
    body = shape.wrap(dict(entries) if shape.is_map else entries)
    plain = {"name": NAME, "uid": NAME, "resourceVersion": "1"}
    if BY_ID[shape.kind].namespaced:
        plain["namespace"] = "tenant"
    return msgspec.json.encode({**body, "metadata": {**plain, **body.get("metadata", {})}})
