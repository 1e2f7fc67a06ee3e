"""What kube-scheduler 1.37.1 does not manage with devices, on the real API server: here such pods are bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, pods_of, scheduler
from tests.patience import eventually

pytestmark = pytest.mark.since(1, 37, "devices as kube-scheduler 1.37 allocates them")
DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}}


@pytest.fixture(scope="module")
def plane(module_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A node with four devices, a device plugin beside them, and a scheduler."""
    plane = module_control_plane
    make_node(plane, "n1")
    offered = {"capacity": {"example.com/gpu": "2"}, "allocatable": {"example.com/gpu": "2"}}
    assert plane.request("PATCH", "/api/v1/nodes/n1/status", {"status": offered}).status == 200
    # The driver's configuration is stored as it is written here: with blanks, and keys out of order.
    config = [{"opaque": {"driver": DRIVER, "parameters": {"b": 1, "a": {"d": 2, "c": 3}}}}]
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], "config": config}
    create(plane, f"{DEVICES}/deviceclasses", "gpus", {**spec, "extendedResourceName": "example.com/gpu"})
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    found = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": [{"name": f"g{n}"} for n in range(4)]}
    create(plane, f"{DEVICES}/resourceslices", "n1", found)
    with scheduler(plane, tmp_path_factory.mktemp("oddities") / "log"):
        yield plane


@pytest.fixture(scope="module")
def module_control_plane(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    with ControlPlane.start() as plane:
        yield plane


def create(plane: ControlPlane, path: str, name: str, spec: Any) -> dict[str, Any]:
    answer = plane.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def bound(plane: ControlPlane, name: str, claim: str, **resources: Any) -> dict[str, Any]:
    """Create a pod with a claim, and wait until it is bound; returns the claim's status."""
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "d"}], **resources}}
    claims = [{"name": "d", "resourceClaimName": claim}]
    pod = {"schedulerName": "moorage", "containers": [container], "resourceClaims": claims}
    create(plane, "/api/v1/namespaces/default/pods", name, pod)

    def mine() -> dict[str, Any]:
        return next(each for each in pods_of(plane) if each["metadata"]["name"] == name)

    eventually(lambda: bool(mine()["spec"].get("nodeName")), 60, f"{name} is bound: {mine()['status']}")
    status: dict[str, Any] = plane.request("GET", f"{CLAIMS}/{claim}").json()["status"]
    return status


def test_a_claim_beside_a_resource_of_a_device_plugin(plane: ControlPlane) -> None:
    """The plugin of the node serves the resource, the scheduler the claim; no special claim is made."""
    create(plane, CLAIMS, "own", SPEC)
    status = bound(plane, "both", "own", limits={"example.com/gpu": "1"})
    assert [each["driver"] for each in status["allocation"]["devices"]["results"]] == [DRIVER]
    names = [each["metadata"]["name"] for each in plane.request("GET", CLAIMS).json()["items"]]
    assert not [name for name in names if name.startswith("both-")]


def test_a_second_consumer_of_an_allocation_without_a_time(plane: ControlPlane) -> None:
    """Made before 1.36: the time is not added, as an allocation cannot be changed."""
    create(plane, CLAIMS, "old", SPEC)
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "g3"}
    consumer = {"resource": "pods", "name": "another", "uid": "another"}
    told = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    assert plane.request("PATCH", f"{CLAIMS}/old/status", {"status": told}).status == 200
    status = bound(plane, "second", "old")
    assert {each["name"] for each in status["reservedFor"]} == {"another", "second"}
    assert "allocationTimestamp" not in status["allocation"]


def test_a_second_consumer_of_devices_with_configuration(plane: ControlPlane) -> None:
    """Parameters are written in the form that the API server finds equal when the status is patched again."""
    create(plane, CLAIMS, "shared", SPEC)
    bound(plane, "first", "shared")
    status = bound(plane, "other", "shared")
    assert {each["name"] for each in status["reservedFor"]} == {"first", "other"}
    (config,) = status["allocation"]["devices"]["config"]
    assert config["opaque"]["parameters"] == {"a": {"c": 3, "d": 2}, "b": 1}
