"""The virtual kubelet on the real API server: nodes live, bound pods run, deleted pods end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletPace, kubelet_thread
from moorage.bench.virtualnodes import KubeletPod, VirtualNode, read_pod, remaining_grace_s
from tests.patience import await_true

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def create_pod(plane: ControlPlane, name: str, node: str | None = None, grace_s: int = 0) -> str:
    """Create a pod, bound by hand if a node is given; returns its UID."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": grace_s}
    if node is not None:
        spec["nodeName"] = node
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    answer = plane.request("POST", PODS, body)
    assert answer.status == 201, answer.content
    return str(answer.json()["metadata"]["uid"])


def phase(plane: ControlPlane, name: str) -> str:
    answer = plane.request("GET", f"{PODS}/{name}")
    return answer.json()["status"]["phase"] if answer.status == 200 else "gone"


def condition(thing: dict[str, Any], kind: str) -> str:
    return next((one["status"] for one in thing["status"]["conditions"] if one["type"] == kind), "absent")


def test_nodes_are_ready_and_as_described(empty_control_plane: ControlPlane) -> None:
    """A node carries what its owner said, is Ready, and has a lease; removed nodes take their lease along."""
    plane = empty_control_plane
    taint = {"key": "gpu", "effect": "NoSchedule"}
    described = VirtualNode(name="n1", zone="a", capacity={"cpu": "8", "pods": "5"}, labels={"x": "y"}, taints=[taint])
    with kubelet_thread(plane.admin_kubeconfig) as kubelet:
        kubelet.add_nodes([described, VirtualNode(name="n2", unschedulable=True)])
        node = plane.request("GET", "/api/v1/nodes/n1").json()
        assert node["status"]["allocatable"] == {"cpu": "8", "pods": "5"}
        assert node["spec"]["taints"] == [taint]
        labels = node["metadata"]["labels"]
        assert (labels["x"], labels["topology.kubernetes.io/zone"], labels["kubernetes.io/hostname"]) == (
            "y",
            "a",
            "n1",
        )
        assert condition(node, "Ready") == "True"
        assert plane.request("GET", "/api/v1/nodes/n2").json()["spec"]["unschedulable"] is True
        assert plane.request("GET", f"{LEASES}/n1").json()["spec"]["holderIdentity"] == "n1"
        kubelet.remove_nodes(["n1", "n2"])
    for path in ("/api/v1/nodes/n1", f"{LEASES}/n1"):
        assert plane.request("GET", path).status == 404


def test_leases_are_renewed(empty_control_plane: ControlPlane) -> None:
    """Heartbeats go on, also for a lease that somebody deleted."""
    plane = empty_control_plane
    with kubelet_thread(plane.admin_kubeconfig, pace=KubeletPace(heartbeat_s=0.1)) as kubelet:
        kubelet.add_nodes([VirtualNode(name="n1"), VirtualNode(name="n2")])

        def renewed(name: str) -> str:
            answer = plane.request("GET", f"{LEASES}/{name}")
            return answer.json()["spec"]["renewTime"] if answer.status == 200 else ""

        before = renewed("n2")
        await_true(lambda: renewed("n2") > before)
        plane.request("DELETE", f"{LEASES}/n1")
        await_true(lambda: renewed("n1") > before)
        kubelet.remove_nodes(["n1", "n2"])


def test_bound_pods_run(empty_control_plane: ControlPlane) -> None:
    """Pods on our nodes become Running and Ready with an address, early ones too; others are left alone."""
    plane = empty_control_plane
    create_pod(plane, "early", "n1")
    with kubelet_thread(plane.admin_kubeconfig) as kubelet:
        kubelet.add_nodes([VirtualNode(name="n1")])
        create_pod(plane, "stranger", "other")
        create_pod(plane, "pending")
        create_pod(plane, "late")
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"}, "target": target}
        assert plane.request("POST", f"{PODS}/late/binding", binding).status == 201
        await_true(lambda: phase(plane, "early") == phase(plane, "late") == "Running")
        pod = plane.request("GET", f"{PODS}/late").json()
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
            assert condition(pod, kind) == "True", kind
        assert pod["status"]["containerStatuses"][0]["ready"] is True
        other = plane.request("GET", f"{PODS}/early").json()["status"]
        assert pod["status"]["podIP"] != other["podIP"]
        assert pod["status"]["hostIP"] == other["hostIP"]
        assert (phase(plane, "stranger"), phase(plane, "pending")) == ("Pending", "Pending")


def test_adopt_all_runs_pods_of_any_node(empty_control_plane: ControlPlane) -> None:
    """Nodes that a test made by itself get a kubelet too."""
    plane = empty_control_plane
    with kubelet_thread(plane.admin_kubeconfig, adopt_all=True):
        create_pod(plane, "stranger", "other")
        await_true(lambda: phase(plane, "stranger") == "Running")


def test_deleted_pods_end_after_their_grace_period(empty_control_plane: ControlPlane) -> None:
    """A deleted pod stays until its grace is over and then goes; shortening the grace ends it sooner."""
    plane = empty_control_plane
    with kubelet_thread(plane.admin_kubeconfig) as kubelet:
        kubelet.add_nodes([VirtualNode(name="n1")])
        for name, grace_s in (("short", 1), ("long", 3600)):
            create_pod(plane, name, "n1", grace_s=grace_s)
        await_true(lambda: phase(plane, "short") == phase(plane, "long") == "Running")
        for name in ("short", "long"):
            assert plane.request("DELETE", f"{PODS}/{name}").json()["metadata"]["deletionTimestamp"]
        await_true(lambda: phase(plane, "short") == "gone")
        assert phase(plane, "long") == "Running"
        plane.request("DELETE", f"{PODS}/long", {"gracePeriodSeconds": 1})
        await_true(lambda: phase(plane, "long") == "gone")


def test_a_silent_node_is_noticed_and_comes_back(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    """The real node controller sees the silence, and sees the node again after it; silent nodes start no pods."""
    plane = fresh_control_plane()
    plane.start_controller_manager(
        "--controllers=node-lifecycle-controller", "--node-monitor-grace-period=3s", "--node-monitor-period=500ms"
    )
    with kubelet_thread(plane.admin_kubeconfig, pace=KubeletPace(heartbeat_s=0.5)) as kubelet:
        kubelet.add_nodes([VirtualNode(name="n1"), VirtualNode(name="n2")])

        def ready(name: str) -> str:
            return condition(plane.request("GET", f"/api/v1/nodes/{name}").json(), "Ready")

        kubelet.silence("n1")
        create_pod(plane, "a", "n1")
        await_true(lambda: ready("n1") == "Unknown")
        assert ready("n2") == "True"
        assert phase(plane, "a") == "Pending"
        kubelet.revive("n1")
        await_true(lambda: ready("n1") == "True")
        await_true(lambda: phase(plane, "a") == "Running")


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deleted_pod(end_s: float, grace_s: int, phase: str = "Running") -> KubeletPod:
    end = (NOW + timedelta(seconds=end_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = (
        f'{{"name":"a","namespace":"b","uid":"c","deletionTimestamp":"{end}","deletionGracePeriodSeconds":{grace_s}}}'
    )
    return read_pod(f'{{"metadata":{metadata},"spec":{{}},"status":{{"phase":"{phase}"}}}}'.encode())


@pytest.mark.parametrize(
    ("pod", "want_s"),
    [
        pytest.param(deleted_pod(30, 30), 30.0, id="just-deleted"),
        pytest.param(deleted_pod(10, 30), 11.0, id="deleted-a-while-ago-and-the-fraction-is-lost"),
        pytest.param(deleted_pod(-5, 30), 0.0, id="overdue"),
        pytest.param(deleted_pod(30, 30, "Succeeded"), 0.0, id="nothing-runs-any-more"),
        pytest.param(deleted_pod(3600, 0), 0.0, id="no-grace-whatever-the-clocks-say"),
    ],
)
def test_remaining_grace(pod: KubeletPod, want_s: float) -> None:
    """Never more than the grace period, never less than what is left of it, nothing for pods that have ended."""
    assert remaining_grace_s(pod, NOW) == want_s
