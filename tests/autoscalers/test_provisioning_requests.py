"""ProvisioningRequests on the real API server: one for each gang that waits for nodes, whatever happens to leaders."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.core.provisioning import BEST_EFFORT_ATOMIC, CONSUMED, CONSUMED_CLASS
from tests.app.scheduling import make_node, pods_of, scheduler
from tests.autoscalers.requests import CRDS, REQUESTS, provisioning_crd, requests_of, templates_of
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually

PODS = "/api/v1/namespaces/default/pods"
PATIENCE_S = 120


@pytest.fixture
def plane(fresh_control_plane: PlaneFactory) -> ControlPlane:
    """With the CRD, and the rights that the chart gives."""
    plane = fresh_control_plane()
    assert plane.request("POST", CRDS, provisioning_crd()).status == 201
    eventually(lambda: plane.request("GET", REQUESTS).status == 200, PATIENCE_S, "the kind is served")
    rules = [
        {
            "apiGroups": ["autoscaling.x-k8s.io"],
            "resources": ["provisioningrequests"],
            "verbs": ["list", "watch", "create", "delete"],
        },
        {"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["create", "delete"]},
    ]
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": "capacity"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capacity"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    assert plane.request("POST", f"{rbac}/clusterroles", {"metadata": metadata, "rules": rules}).status == 201
    binding = {"metadata": metadata, "roleRef": role, "subjects": [user]}
    assert plane.request("POST", f"{rbac}/clusterrolebindings", binding).status == 201
    return plane


@contextmanager
def scheduling(plane: ControlPlane, folder: Path, name: str = "log", after_s: float = 0.0) -> Iterator[Any]:
    """A scheduler that asks for nodes after so many seconds."""
    args = {"provisionAfterSeconds": after_s}
    profile = {"schedulerName": "moorage", "pluginConfig": [{"name": "GangScheduling", "args": args}]}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(configuration))
    with scheduler(plane, folder / name, "--config", str(file), "--log-format=text") as process:
        eventually(lambda: "scheduling" in (folder / name).read_text(), PATIENCE_S, "it schedules")
        yield process


def make_members(plane: ControlPlane, size: int = 3) -> None:
    """A gang by annotations; every pod has a label of its own, as those of JobSets have."""
    for number in range(size):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        annotations = {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": str(size)}
        metadata = {"name": f"g-{number}", "annotations": annotations, "labels": {"rank": str(number)}}
        spec = {"schedulerName": "moorage", "containers": [container], "terminationGracePeriodSeconds": 0}
        answer = plane.request("POST", PODS, {"metadata": metadata, "spec": spec})
        assert answer.status == 201, answer.content


def is_asked_for(plane: ControlPlane) -> bool:
    """Whether there is a request, and all members say that they consume it."""
    names = {pod["metadata"].get("annotations", {}).get(CONSUMED) for pod in pods_of(plane)}
    return names == {request["metadata"]["name"] for request in requests_of(plane)} and bool(names)


def nothing_is_left(plane: ControlPlane) -> bool:
    return not requests_of(plane) and not templates_of(plane)


def test_a_gang_asks_for_nodes_until_it_has_them(plane: ControlPlane, tmp_path: Path) -> None:
    """The request names a PodTemplate that looks like the pods; both go when the gang has started."""
    make_node(plane, "n1", cpu="2")
    with scheduling(plane, tmp_path):
        make_members(plane)
        eventually(lambda: is_asked_for(plane), PATIENCE_S, "it asks for nodes")
        (request,) = requests_of(plane)
        assert request["spec"]["provisioningClassName"] == BEST_EFFORT_ATOMIC
        (pod_set,) = request["spec"]["podSets"]
        assert pod_set["count"] == 3
        spec = templates_of(plane)[pod_set["podTemplateRef"]["name"]]["template"]["spec"]
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
        assert "nodeName" not in spec
        assert {pod["metadata"]["annotations"][CONSUMED_CLASS] for pod in pods_of(plane)} == {BEST_EFFORT_ATOMIC}
        make_node(plane, "n2", cpu="2")
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in pods_of(plane)), PATIENCE_S, "it starts")
        eventually(lambda: nothing_is_left(plane), PATIENCE_S, "the request is deleted")


def test_the_next_leader_goes_on_where_one_was_killed(plane: ControlPlane, tmp_path: Path) -> None:
    """A second leader finds the request and writes no other; a third one deletes it, as the gang is gone meanwhile."""
    make_node(plane, "n1", cpu="2")
    with scheduling(plane, tmp_path, "first") as process:
        make_members(plane)
        eventually(lambda: bool(templates_of(plane)), PATIENCE_S, "it has begun to ask")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with scheduling(plane, tmp_path, "second") as process:
        eventually(lambda: is_asked_for(plane), PATIENCE_S, "the second one completes it")
        (request,) = requests_of(plane)
        assert len(templates_of(plane)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert [each["metadata"]["uid"] for each in requests_of(plane)] == [request["metadata"]["uid"]]
    for pod in pods_of(plane):
        assert plane.request("DELETE", f"{PODS}/{pod['metadata']['name']}").status == 200
    eventually(lambda: not pods_of(plane), PATIENCE_S, "the pods are gone")
    with scheduling(plane, tmp_path, "third"):
        eventually(lambda: nothing_is_left(plane), PATIENCE_S, "the third one deletes it")
