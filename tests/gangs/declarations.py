"""The ways in which a gang is declared, and the objects of one drill as Kubernetes JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tests.gangs.ledger import MEMBER

Object = dict[str, Any]
Way = Literal["native", "annotations", "crd"]
WAYS: tuple[Way, ...] = get_args(Way)

CPU = "900m"
"""What a member asks for and what a node has: a node holds exactly one member."""
GROUP = "gang"
OWNER = "workers"
DRILL = "drill.moorage.dev/run"
GRACE_S = 1
CRD_GROUP = "scheduling.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang: how it is declared, who schedules it, and whether somebody replaces its members."""

    name: str
    """Also the name of its namespace, of its scheduler and the prefix of its nodes."""
    way: Way
    size: int
    owned: bool

    @property
    def node_names(self) -> list[str]:
        """As many nodes as there are members."""
        return [f"{self.name}-n{number:02}" for number in range(1, self.size + 1)]


def group_object(gang: Gang) -> tuple[str, Object] | None:
    """Return the collection's path and the object that declares the gang, if there is one in this way."""
    metadata = {"name": GROUP, "namespace": gang.name}
    if gang.way == "native":
        spec: Object = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        return f"/apis/scheduling.k8s.io/v1beta1/namespaces/{gang.name}/podgroups", body
    if gang.way == "crd":
        spec = {"minMember": gang.size, "scheduleTimeoutSeconds": 60}
        body = {"apiVersion": f"{CRD_GROUP}/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        return f"/apis/{CRD_GROUP}/v1alpha1/namespaces/{gang.name}/podgroups", body
    return None


def member(gang: Gang, name: str, owner_uid: str | None) -> Object:
    """Return one member as a pod that is not bound."""
    metadata: Object = {"name": name, "namespace": gang.name, "labels": {MEMBER: "", "app": OWNER}}
    spec: Object = {
        "schedulerName": gang.name,
        "nodeSelector": {DRILL: gang.name},
        "terminationGracePeriodSeconds": GRACE_S,
        "containers": [container()],
    }
    if gang.way == "native":
        spec["schedulingGroup"] = {"podGroupName": GROUP}
    elif gang.way == "crd":
        metadata["labels"][f"{CRD_GROUP}/pod-group"] = GROUP
    else:
        metadata["annotations"] = {"moorage.dev/pod-group": GROUP}
        if owner_uid is None:
            metadata["annotations"]["moorage.dev/pod-group-min-available"] = str(gang.size)
    if owner_uid is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": OWNER, "uid": owner_uid, "controller": True}
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def owner_object(gang: Gang) -> Object:
    """Return the ReplicaSet of an owned gang; the drill plays its controller."""
    labels = {"app": OWNER}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    spec = {"replicas": gang.size, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": OWNER, "namespace": gang.name}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def intruder(gang: Gang, node: str) -> Object:
    """Return a pod of nobody's that sits on the node and takes all its room."""
    spec = {"nodeName": node, "schedulerName": "nobody", "terminationGracePeriodSeconds": 0}
    metadata = {"name": "intruder", "namespace": gang.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": [container()]}}


def node(gang: Gang, name: str) -> Object:
    """Return a node with room for one member."""
    amounts = {"cpu": CPU, "memory": "4Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, DRILL: gang.name}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def crd_objects(user: str) -> Sequence[tuple[str, Object]]:
    """Return what a team that uses the coscheduling PodGroup has installed: the CRD, and the right to read it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{CRD_GROUP}"},
        "spec": {"group": CRD_GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    role = reader(user, "pod-group-reader", CRD_GROUP, "podgroups")
    return [("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd), *role]


def reader(user: str, name: str, api_group: str, resource: str) -> Sequence[tuple[str, Object]]:
    """Return what lets a user read a kind."""
    rule = {"apiGroups": [api_group], "resources": [resource], "verbs": ["get", "list", "watch"]}
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    return [(f"/apis/{rbac}/v1/clusterroles", role), (f"/apis/{rbac}/v1/clusterrolebindings", binding)]


def container() -> Object:
    """Return what every pod of the drills runs."""
    return {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": CPU}}}
