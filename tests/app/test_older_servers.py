"""Servers that lack what newer ones have: told once, and everything else works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, make_pod, pods_of, scheduler
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually


@pytest.mark.since(1, 34, "ResourceClaims that can be turned off")
def test_what_a_server_does_not_serve_is_told_once(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """Neither streaming lists nor claims nor native PodGroups: a line for the lists, a line for the kinds."""
    plane = fresh_control_plane(runtime_config={"resource.k8s.io/v1": False}, feature_gates={"WatchList": False})
    make_node(plane, "n1")
    make_pod(plane, "p1")
    log = tmp_path / "log"
    with scheduler(plane, log, "--log-format=text"):
        eventually(lambda: bool(pods_of(plane)[0]["spec"].get("nodeName")), 60, "the pod is bound")
    lines = log.read_text().splitlines()
    assert len([line for line in lines if "streaming lists are not served" in line]) == 1, lines
    (told,) = (line for line in lines if "not served, looking again later" in line)
    assert "resourceclaims.v1.resource.k8s.io" in told
    assert "podgroups.v1beta1.scheduling.k8s.io" in told


DRIVER = "gpu.example.com"


def devices(version: str) -> list[tuple[str, dict[str, Any]]]:
    """A slice, a class, a claim and a pod that also wants an extended resource, as a version of the API has them."""
    older = version == "v1beta1"
    attributes = {"attributes": {"model": {"string": "a"}}}
    device = {"basic": attributes} if older else attributes
    wanted = {"deviceClassName": "gpus"}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    group = f"/apis/resource.k8s.io/{version}"
    container: dict[str, Any] = {"name": "c", "image": "x"}
    container["resources"] = {"limits": {"example.com/gpu": "1"}, "claims": [{"name": "own"}]}
    pod = {
        "schedulerName": "moorage",
        "containers": [container],
        "resourceClaims": [{"name": "own", "resourceClaimName": "claim"}],
    }
    return [
        (
            f"{group}/resourceslices",
            {
                "metadata": {"name": "slice"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": "n1",
                    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"gpu-{number}", **device} for number in range(2)],
                },
            },
        ),
        (
            f"{group}/deviceclasses",
            {
                "metadata": {"name": "gpus"},
                "spec": {"selectors": [selector], "extendedResourceName": "example.com/gpu"},
            },
        ),
        (
            f"{group}/namespaces/default/resourceclaims",
            {
                "metadata": {"name": "claim"},
                "spec": {"devices": {"requests": [{"name": "r", **(wanted if older else {"exactly": wanted})}]}},
            },
        ),
        ("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": pod}),
    ]


@pytest.mark.since(1, 37, "devices in all three versions")
@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_devices_in_an_older_version(fresh_control_plane: PlaneFactory, tmp_path: Path, version: str) -> None:
    """Where a server has devices in an older version only, they are read and written in that version."""
    served = {"resource.k8s.io/v1": False, f"resource.k8s.io/{version}": True}
    plane = fresh_control_plane(runtime_config=served)
    make_node(plane, "n1")
    for path, body in devices(version):
        answer = plane.request("POST", path, body)
        assert answer.status == 201, answer.content
    log = tmp_path / "log"
    with scheduler(plane, log, "--log-format=text"):
        eventually(lambda: bool(pods_of(plane)[0]["spec"].get("nodeName")), 60, f"{pods_of(plane)} {log.read_text()}")
    assert held(plane, version) == {"gpu-0", "gpu-1"}
    special = pods_of(plane)[0]["status"]["extendedResourceClaimStatus"]
    assert special["requestMappings"][0]["requestName"] == "container-0-request-0"


def held(plane: ControlPlane, version: str) -> set[str]:
    """The devices that claims hold for the pod."""
    claims = plane.request("GET", f"/apis/resource.k8s.io/{version}/resourceclaims").json()["items"]
    assert all(len(claim["status"]["reservedFor"]) == 1 for claim in claims)
    results = [result for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]]
    return {result["device"] for result in results}
