"""Objects that an API server takes and that no recursive decoder reads, in the cluster of a running process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.app.endings import COMMANDS, PODS, started
from tests.app.extender_process import eventually
from tests.app.posting import make_pod, node_with_room, post

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def claim(name: str, levels: int) -> dict[str, Any]:
    """2.4 KB of opaque parameters."""
    nested: Any = {}
    for _ in range(levels):
        nested = [nested]
    config = [{"opaque": {"driver": "d.example", "parameters": {"x": nested}}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    metadata = {"name": name, "labels": {"levels": str(levels)}}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests, "config": config}}}


def bound(plane: ControlPlane, name: str) -> bool:
    return bool(plane.request("GET", f"{PODS}/{name}").json()["spec"].get("nodeName"))


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A node, and a claim that is nested 1,100 levels deep."""
    node_with_room(empty_control_plane)
    post(empty_control_plane, CLAIMS, claim("deep", 1100))
    yield empty_control_plane
    assert empty_control_plane.request("DELETE", CLAIMS).status == 200


def test_a_scheduler_goes_on(plane: ControlPlane, tmp_path: Path) -> None:
    """A deep claim that is there, comes or goes delays nobody's pod."""
    given = ["--kubeconfig", str(plane.admin_kubeconfig), *COMMANDS["scheduler"][0]]
    with started([sys.executable, "-m", "moorage", "scheduler", *given], tmp_path) as running:
        running.says("scheduling")
        make_pod(plane, "first")
        eventually(lambda: bound(plane, "first"), "a pod is bound beside the claim", 60)
        post(plane, CLAIMS, claim("deeper", 2000))
        assert plane.request("DELETE", f"{CLAIMS}/deep").status == 200
        make_pod(plane, "second")
        eventually(lambda: bound(plane, "second"), "a pod is bound after it has changed", 60)
        running.process.send_signal(signal.SIGINT)
        assert running.end() == 0, running.said
        assert "interrupted" not in running.said
        assert "left out" not in running.said


@pytest.mark.parametrize("output", ["picture.yaml", "picture.json"])
def test_a_snapshot_holds_the_rest(plane: ControlPlane, tmp_path: Path, output: str) -> None:
    """What lies too deep is replaced; everything else is there."""
    file = tmp_path / output
    command = [sys.executable, "-m", "moorage", "snapshot", "--kubeconfig", str(plane.admin_kubeconfig)]
    with started([*command, "-o", str(file)], tmp_path) as running:
        assert running.end() == 0, running.said
    assert "d.example" in file.read_text()
