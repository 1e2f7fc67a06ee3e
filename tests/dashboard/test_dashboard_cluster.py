"""Every page of the dashboard on the real API server, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import clear
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_cluster

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)

CAPACITY, ZONE = "node.kubernetes.io/capacity", "topology.kubernetes.io/zone"
STRATEGY = "moorage.dev/schedule-strategy"
HALVES = f"weight=1,nodeSelector={CAPACITY}:on-demand;weight=1,nodeSelector={CAPACITY}:spot"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: moorage
  plugins:
    multiPoint:
      enabled: [{name: PlacementStrategy}]
"""
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"


def post(plane: ControlPlane, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = plane.request("POST", path, body)
    assert answer.status in (200, 201), answer.content
    found: dict[str, Any] = answer.json()
    return found


def node(name: str, zone: str, capacity: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone, CAPACITY: capacity}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, cpu: str, owner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "web"}}
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        identity = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{**reference, **identity, "controller": True}]
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    body = {"schedulerName": "moorage", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def owned(kind: str, name: str, owner: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "1")["spec"]}
    if owner is not None:
        metadata["ownerReferences"] = pod("x", "1", owner)["metadata"]["ownerReferences"]
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return {**body, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}}


def fill(plane: ControlPlane) -> None:
    """Three nodes, a Deployment with a strategy and its pods, one pod that fits nowhere and a gated one."""
    for name, zone, capacity in (("od-1", "z1", "on-demand"), ("spot-1", "z1", "spot"), ("spot-2", "z2", "spot")):
        post(plane, "/api/v1/nodes", node(name, zone, capacity))
    deployment = post(plane, DEPLOYMENT.rpartition("/")[0], owned("Deployment", "web", annotations={STRATEGY: HALVES}))
    deployment |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    replicas = post(plane, "/apis/apps/v1/namespaces/default/replicasets", owned("ReplicaSet", "web-1", deployment))
    replicas |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    for number, name in enumerate(("od-1", "spot-1", "spot-2")):
        post(plane, PODS, pod(f"web-1-{number}", "500m", replicas, nodeName=name))
    post(plane, PODS, pod("huge", "64"))
    message = "0/3 nodes are available: 3 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    plane.request("PATCH", f"{PODS}/huge/status", {"status": {"conditions": [condition]}})
    post(plane, PODS, pod("gated", "1", schedulingGates=[{"name": "example.com/quota"}]))


@pytest.fixture
def cluster(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    fill(empty_control_plane)
    yield empty_control_plane
    clear(empty_control_plane)


def test_every_page_on_the_api_server(cluster: ControlPlane, visit: Visit) -> None:
    """Map, queue, pods, strategies, timeline and what-if; what happens shows without a reload."""
    with served_cluster(cluster.admin_kubeconfig, CONFIGURATION) as url:
        page = visit(url)
        expect(page.get_by_role("heading", name=re.compile("z1, on-demand"))).to_be_visible()

        page.get_by_role("link", name=re.compile("^Queue")).click()
        table = page.get_by_role("table")
        rows = table.get_by_role("row")
        expect(rows.filter(has_text="default/gated")).to_contain_text(re.compile("Gated.*example.com/quota"))
        expect(rows.filter(has_text="default/huge")).to_contain_text(re.compile("Unschedulable.*Insufficient cpu"))
        page.get_by_role("link", name="default/huge").click()
        expect(page.get_by_role("table", name=re.compile("rejected, by reason"))).to_contain_text("Insufficient cpu")
        help_section = page.locator("section", has=page.get_by_role("heading", name="What would help"))
        expect(help_section.get_by_role("listitem").first).to_contain_text(re.compile("cpu|node"))

        page.get_by_role("link", name=re.compile("^What if")).click()
        form = page.get_by_role("form", name="Drain a node")
        form.get_by_label("Node").fill("od-1")
        form.get_by_role("button", name="Add").click()
        page.get_by_role("button", name="Try it out").click()
        expect(page.get_by_role("heading", name=re.compile("Pods that would be evicted"))).to_be_visible()

        page.get_by_role("link", name=re.compile("^Timeline")).click()
        post(cluster, PODS, pod("late", "100m", nodeName="spot-2"))
        expect(page.get_by_role("table")).to_contain_text("default/late")
        lease = {"metadata": {"name": "moorage"}, "spec": {"holderIdentity": "scheduler-a"}}
        plane_path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        cluster.request("DELETE", f"{plane_path}/moorage")
        post(cluster, plane_path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
        expect(page.get_by_role("table")).to_contain_text("is held by scheduler-a")
        cluster.request("DELETE", f"{plane_path}/moorage")

        page.get_by_role("link", name=re.compile("^Spot")).click()
        expect(page.get_by_role("main")).to_contain_text("No prices are known")
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
        cluster.request("PATCH", "/api/v1/nodes/spot-1", {"spec": {"taints": [taint]}})
        expect(page.get_by_role("table", name=re.compile("about to go"))).to_contain_text("spot-1")
        assert page.evaluate("moorage.loads") == 1


def test_charts_of_the_api_server(cluster: ControlPlane, visit: Visit) -> None:
    """What is there, what waits and why; a bind and a leader show without a reload."""
    with served_cluster(cluster.admin_kubeconfig, CONFIGURATION) as url:
        page = visit(f"{url}")
        page.get_by_role("link", name=re.compile("^Charts")).click()
        expect(page.get_by_role("button", name="Allocatable 12", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Insufficient cpu 1")).to_be_visible()
        expect(page.get_by_role("button", name="scheduling gates 1")).to_be_visible()
        post(cluster, PODS, pod("soon", "100m"))
        expect(page.get_by_role("button", name="not tried yet 1")).to_be_visible()
        for _ in range(2):  # it waits for a whole interval at least, as the value at the end of one is what is kept
            page.wait_for_event("response", lambda answer: "/api/series" in answer.url, timeout=PATIENCE_MS)
        binding = {"metadata": {"name": "soon"}, "target": {"kind": "Node", "name": "spot-2"}}
        post(cluster, f"{PODS}/soon/binding", binding)
        expect(page.get_by_role("button", name="not tried yet 0")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("Half of the pods within [0-9]"))).to_be_visible()


def test_a_strategy_is_written_with_the_users_rights(cluster: ControlPlane, visit: Visit) -> None:
    """Target and actual; what is applied stands on the Deployment, and the page shows the new targets."""
    wanted = f"weight=0,nodeSelector={CAPACITY}:on-demand;weight=1,nodeSelector={CAPACITY}:spot"
    with served_cluster(cluster.admin_kubeconfig, CONFIGURATION) as url:
        page = visit(url)
        page.get_by_role("link", name=re.compile("^Strategies")).click()
        expect(page.get_by_role("table", name="Pods by rule, 3 desired")).to_contain_text(f"{CAPACITY}:spot")
        page.get_by_role("button", name="Edit the strategy of Deployment default/web").click()
        page.get_by_label("Strategy: rules with ; between them").fill(wanted)
        expect(page.get_by_role("table", name="1 pod would move")).to_contain_text("default/web-1-0")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("Applied.")).to_be_visible()
        expect(page.get_by_text("off target")).to_be_visible()
    assert cluster.request("GET", DEPLOYMENT).json()["metadata"]["annotations"][STRATEGY] == wanted


def test_without_rights_and_without_the_token(cluster: ControlPlane, visit: Visit, tmp_path: Path) -> None:
    """The API server's refusal is shown; without --allow-writes nothing can be applied at all."""
    path = "/apis/rbac.authorization.k8s.io/v1"
    viewer = viewer_kubeconfig(cluster, tmp_path)
    try:
        with served_cluster(viewer, CONFIGURATION) as url:
            page = visit(url)
            page.get_by_role("link", name=re.compile("^Strategies")).click()
            page.get_by_role("button", name="Edit the strategy of Deployment default/web").click()
            page.get_by_label("Strategy: rules with ; between them").fill(f"weight=1,nodeSelector={CAPACITY}:spot")
            page.get_by_role("button", name="Apply").click()
            expect(page.get_by_text(re.compile("the API server refused it.*forbidden"))).to_be_visible()
        with served_cluster(cluster.admin_kubeconfig, CONFIGURATION, allow_writes=False) as url:
            assert "#token=" in url
            page = visit(url)
            page.get_by_role("link", name=re.compile("^Strategies")).click()
            page.get_by_role("button", name="Edit the strategy of Deployment default/web").click()
            expect(page.get_by_text(re.compile("Read-only"))).to_be_visible()
            expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    finally:
        cluster.request("DELETE", f"{path}/clusterrolebindings/dashboard-view")
        cluster.request("DELETE", f"{path}/clusterroles/dashboard-view")


def viewer_kubeconfig(cluster: ControlPlane, folder: Path) -> Path:
    """Credentials of somebody who may look at everything and change nothing."""
    group = "rbac.authorization.k8s.io"
    rights = {"apiVersion": f"{group}/v1", "metadata": {"name": "dashboard-view"}}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    binding = {
        **rights,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "dashboard-view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "viewer"}],
    }
    post(cluster, f"/apis/{group}/v1/clusterroles", {**rights, "kind": "ClusterRole", "rules": rules})
    post(cluster, f"/apis/{group}/v1/clusterrolebindings", binding)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.request("POST", accounts, {"metadata": {"name": "viewer"}})
    token = post(cluster, f"{accounts}/viewer/token", {"spec": {}})["status"]["token"]
    document = yaml.safe_load(cluster.admin_kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file
