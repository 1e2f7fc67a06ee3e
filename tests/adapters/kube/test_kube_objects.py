"""Writes to other objects on the real API server: preconditions hold, and every write is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.adapters.kube.objects import patch_object
from moorage.bench.controlplane import ControlPlane
from moorage.core.commands import PatchObject, PodRef
from moorage.core.events import PatchDone
from moorage.core.frozen import FrozenDict

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PATCH = FrozenDict({"metadata": FrozenDict({"annotations": FrozenDict({"a": "b"})})})


@pytest.fixture
def claim(control_plane: ControlPlane) -> Iterator[dict[str, Any]]:
    """A claim, removed afterwards."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"kind": "PersistentVolumeClaim", "metadata": {"name": "written"}, "spec": spec}
    made: dict[str, Any] = control_plane.request("POST", CLAIMS, body).json()
    yield made["metadata"]
    control_plane.request("PATCH", f"{CLAIMS}/written", {"metadata": {"finalizers": None}})
    control_plane.request("DELETE", f"{CLAIMS}/written")


def write(plane: ControlPlane, name: str, uid: str, resource_version: str) -> PatchDone:
    pod = PodRef("default", "p", "u")
    command = PatchObject(pod, "PersistentVolumeClaim", "default", name, PATCH, uid, resource_version)

    async def pause(_: int) -> None:
        pytest.fail("nothing here is worth another attempt")

    async def run() -> PatchDone:
        async with KubeClient(from_kubeconfig([plane.scheduler_kubeconfig])) as client:
            return await patch_object(client, command, pause)

    return asyncio.run(run())


def test_a_write_to_the_expected_version(control_plane: ControlPlane, claim: dict[str, Any]) -> None:
    """The scheduler's own rights suffice, and other annotations stay."""
    assert write(control_plane, "written", claim["uid"], claim["resourceVersion"]).ok
    assert control_plane.request("GET", f"{CLAIMS}/written").json()["metadata"]["annotations"]["a"] == "b"


@pytest.mark.parametrize(
    ("name", "uid", "version"),
    [
        pytest.param("written", "", "1", id="changed since"),
        pytest.param("written", "another", "", id="made anew"),
        pytest.param("missing", "", "", id="gone"),
    ],
)
def test_a_write_that_must_not_happen(
    control_plane: ControlPlane,
    claim: dict[str, Any],  # noqa: ARG001 - it has to be there
    name: str,
    uid: str,
    version: str,
) -> None:
    """It is answered with no and a line that names the object."""
    answer = write(control_plane, name, uid, version)
    assert not answer.ok
    assert f"PersistentVolumeClaim default/{name}" in answer.message
    assert "a" not in control_plane.request("GET", f"{CLAIMS}/written").json()["metadata"].get("annotations", {})
