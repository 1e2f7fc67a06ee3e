"""The page of a node shows its devices and who has them, in a real Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from moorage.bench.controlplane import ControlPlane
from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.testing.builders import make_node, make_pod
from moorage.testing.devices import make_allocation, make_device, make_resource_claim, make_slice
from moorage.views.world import Told
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_cluster, served_world
from tests.devicecluster import NEEDS_DEVICES, devices_on

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)


@NEEDS_DEVICES
def test_devices_of_a_live_cluster(empty_control_plane: ControlPlane, visit: Visit) -> None:
    """Claims, pods and counters; a slice that goes away shows without a reload."""
    with devices_on(empty_control_plane), served_cluster(empty_control_plane.admin_kubeconfig) as url:
        page = visit(url)
        page.get_by_role("button", name="Table").click()
        page.get_by_role("link", name="n2", exact=True).click()
        rows = page.get_by_role("table", name="4 devices").get_by_role("row")
        half = rows.filter(has_text="gpu.example.com/n2/gpu-0-half-0")
        expect(half).to_contain_text(re.compile("in use.*default/notebook.*gpu-0/memory 40Gi"))
        expect(rows.filter(has_text="card-0")).to_contain_text(re.compile("shared.*bandwidth 4G of 10G"))
        expect(page.get_by_text("gpu.example.com/n2: gpu-0/memory, 40Gi of 80Gi free")).to_be_visible()
        empty_control_plane.request("DELETE", "/apis/resource.k8s.io/v1/resourceslices/network")
        empty_control_plane.request("DELETE", "/apis/resource.k8s.io/v1/resourceslices/n2-gpus")
        expect(half).to_have_count(0)
        lost = page.get_by_role("table", name="1 device").get_by_role("row").filter(has_text="gpu-0-half-0")
        expect(lost).to_contain_text(re.compile("missing.*its pool is incomplete"))
        lost.get_by_role("link", name="default/notebook").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("default/notebook")
        assert page.evaluate("moorage.loads") == 1


def test_shared_devices_on_the_map_and_on_a_page(visit: Visit) -> None:
    """Shares of devices without a driver: how much is left of each, and who has it."""
    node = make_node("gpus", resources={"nvidia.com/gpu": 2}, labels={"nvidia.com/gpu.memory": "16000"})
    pod = make_pod("half", node="gpus", annotations={"gpu-fraction": "0.5"})
    with served_world([NodeSeen(node), NodeSeen(make_node("none")), PodSeen(pod)]) as url:
        page = visit(url)
        page.get_by_role("button", name="Table").click()
        row = page.get_by_role("row").filter(has_text="gpus")
        expect(row.get_by_title("0.5 of 2")).to_be_visible()
        page.get_by_role("link", name="gpus", exact=True).click()
        first = page.get_by_role("table", name="2 devices").get_by_role("row").filter(has_text="default/half")
        expect(first).to_contain_text(re.compile("shared.*500 of 1,000m.*8,000 of 16,000Mi.*default/half"))
        first.get_by_role("link", name="default/half").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("default/half")
    with served_world([NodeSeen(make_node("none"))]) as url:
        page = visit(f"{url}#/node/none")
        expect(page.get_by_role("heading", name="Pods")).to_be_visible()
        expect(page.get_by_role("heading", name="Shared devices")).to_be_hidden()


def test_hostile_devices_show_as_text_and_nodes_without_any_say_nothing(visit: Visit) -> None:
    """Drivers and claims are written by strangers."""
    script = "<img src=x onerror=window.hacked=1>"
    part = make_slice(script, node="n1", driver=script, pool=script, devices=[make_device(script, model=script)])
    claim = make_resource_claim(script, allocation=make_allocation("p/d"))
    nodes: list[Told] = [NodeSeen(make_node(name)) for name in ("n1", "n2")]
    objects: list[Told] = [ObjectSeen("ResourceSlice", part.key, part), ObjectSeen("ResourceClaim", claim.key, claim)]
    with served_world([*nodes, *objects]) as url:
        page = visit(f"{url}#/node/n1")
        expect(page.get_by_role("table", name="2 devices")).to_contain_text(f"{script}/{script}/{script}")
        assert page.evaluate("window.hacked") is None
    with served_world(nodes) as url:
        page = visit(f"{url}#/node/n2")
        expect(page.get_by_role("heading", name="Pods")).to_be_visible()
        expect(page.get_by_role("heading", name="Devices")).to_be_hidden()
