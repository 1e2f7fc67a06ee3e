"""Servers that lack what newer ones have: told once, and everything else works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.scheduling import eventually, make_node, make_pod, pods_of, scheduler
from tests.controlplane_fixtures import PlaneFactory


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
