"""What nodes that are gone have left, on the real API server: deleted at once, and only if the node is really gone."""

from __future__ import annotations

import asyncio

import pytest

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.disruptions import Disruptions
from moorage.bench.controlplane import ControlPlane
from moorage.core.commands import ClearNode, PodRef

POD = "/api/v1/namespaces/default/pods/p"


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> ControlPlane:
    """A node with a pod that would take its time."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert empty_control_plane.request("POST", "/api/v1/nodes", node).status == 201
    container = {"name": "c", "image": "registry.example/app:v1"}
    spec = {"nodeName": "n1", "containers": [container], "terminationGracePeriodSeconds": 300}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert empty_control_plane.request("POST", POD.rpartition("/")[0], pod).status == 201
    return empty_control_plane


def cleared(plane: ControlPlane, *uids: str) -> int:
    """How many pods were deleted."""

    async def run() -> int:
        async with KubeClient(load_credentials(str(plane.admin_kubeconfig))) as client:
            pods = tuple(PodRef("default", "p", uid) for uid in uids)
            return await Disruptions(client, lambda _: None).clear(ClearNode("n1", pods))

    return asyncio.run(run())


def uid_of(plane: ControlPlane) -> str:
    return str(plane.request("GET", POD).json()["metadata"]["uid"])


def test_a_pod_of_a_node_that_is_there_stays(plane: ControlPlane) -> None:
    """Whatever the keeper believes."""
    assert cleared(plane, uid_of(plane)) == 0
    assert "deletionTimestamp" not in plane.request("GET", POD).json()["metadata"]


def test_a_pod_of_a_node_that_is_gone_goes_at_once(plane: ControlPlane) -> None:
    """Without its grace period, but never another pod of the same name."""
    uid = uid_of(plane)
    assert plane.request("DELETE", "/api/v1/nodes/n1").status == 200
    assert cleared(plane, "another") == 0
    assert plane.request("GET", POD).status == 200
    assert cleared(plane, uid, "another") == 1
    assert plane.request("GET", POD).status == 404
    assert cleared(plane, uid) == 0
