"""The cluster of `examples/devices.yaml` on the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import clear, serves
from tests.docs.fences import ROOT

NEEDS_DEVICES = pytest.mark.skipif(not serves(1, 37), reason="older servers have no DeviceTaintRule v1")
EXAMPLE = ROOT / "examples/devices.yaml"
_RESOURCES = {
    "Node": "nodes",
    "Pod": "pods",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "DeviceTaintRule": "devicetaintrules",
}


def create(plane: ControlPlane, body: dict[str, object]) -> str:
    """Create an object, with its status; returns its path."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    namespace = metadata.get("namespace")
    prefix = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
    where = f"{prefix}/namespaces/{namespace}" if namespace else prefix
    path = f"{where}/{_RESOURCES[str(body['kind'])]}"
    answer = plane.request("POST", path, {**body, "metadata": {**metadata, "uid": None}})
    assert answer.status == 201, answer.content
    found = f"{path}/{metadata['name']}"
    if "status" in body:
        answer = plane.request("PATCH", f"{found}/status", {"status": body["status"]})
        assert answer.status == 200, answer.content
    return found


@contextmanager
def devices_on(plane: ControlPlane) -> Iterator[list[str]]:
    """The example; gives the paths of its objects, and removes all of them."""
    paths: list[str] = []
    try:
        paths += [create(plane, body) for body in yaml.safe_load_all(EXAMPLE.read_text())]
        yield paths
    finally:
        clear(plane)
        for path in paths:
            plane.request("DELETE", path)
