"""Gangs and the real Karpenter: it adds exactly the nodes that a waiting gang needs, and the gang starts on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, pods_of, scheduler
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually
from tests.workloads.karpenter import CLAIMS, NODES, PATIENCE_S, karpenter, machines
from tests.workloads.managers import create

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("workloads")]
PODS = "/api/v1/namespaces/default/pods"
SIZE = 8


def grant(plane: ControlPlane) -> None:
    """What the chart grants: to read NodeClaims."""
    rules = [{"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["list", "watch"]}]
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": "claims"}
    create(plane, f"{rbac}/clusterroles", {"metadata": metadata, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "claims"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    create(plane, f"{rbac}/clusterrolebindings", {"metadata": metadata, "roleRef": role, "subjects": [user]})


def member(number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/c:v1", "resources": {"requests": {"cpu": "3"}}}
    annotations = {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": str(SIZE)}
    spec = {"schedulerName": "moorage", "containers": [container]}
    return {"metadata": {"name": f"g-{number}", "annotations": annotations}, "spec": spec}


def versions(plane: ControlPlane, path: str, since: str) -> list[tuple[int, dict[str, Any]]]:
    """Every version that objects have had since then, with its number: one count for all kinds of a control plane."""
    answer = plane.request("GET", f"{path}?watch=true&resourceVersion={since}&timeoutSeconds=1")
    objects = [json.loads(line)["object"] for line in answer.content.splitlines()]
    return [(int(each["metadata"]["resourceVersion"]), each) for each in objects]


def is_open(node: dict[str, Any]) -> bool:
    """Whether pods may run there."""
    conditions = node["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("taints")


def check_start(plane: ControlPlane, since: str) -> None:
    """No member was bound before every node was there that had to be added: the gang has started together."""
    opened: dict[str, int] = {}
    for number, node in versions(plane, NODES, since):
        if is_open(node):
            opened.setdefault(node["metadata"]["name"], number)
    bound: dict[str, int] = {}
    for number, pod in versions(plane, PODS, since):
        if "nodeName" in pod["spec"]:
            bound.setdefault(pod["metadata"]["name"], number)
    assert len(bound) == SIZE
    last = max(opened[node["metadata"]["name"]] for node in machines(plane))
    assert last < min(bound.values()), f"nodes {opened}, members {bound}"


@pytest.mark.parametrize("there", [0, SIZE // 2], ids=["nothing is there", "half of it would fit"])
def test_karpenter_adds_the_nodes_of_a_gang(fresh_control_plane: PlaneFactory, tmp_path: Path, there: int) -> None:
    """One node for each member that has none, no more; all members are bound, none before the last node is there."""
    plane = fresh_control_plane()
    for number in range(there):
        make_node(plane, f"n{number}", cpu="4")
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "moorage"}],
    }
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(configuration))
    grant(plane)
    with karpenter(plane, tmp_path), scheduler(plane, tmp_path / "log", "--config", str(file), "--log-format=text"):
        since = plane.request("GET", PODS).json()["metadata"]["resourceVersion"]
        for number in range(SIZE):
            create(plane, PODS, member(number))
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in pods_of(plane)), PATIENCE_S, "all are bound")
        assert len(machines(plane)) == SIZE - there
        assert len(plane.request("GET", CLAIMS).json()["items"]) == SIZE - there
        assert len({pod["spec"]["nodeName"] for pod in pods_of(plane)}) == SIZE
        check_start(plane, since)
