"""Objects that tests make on a real API server, however deep they are nested."""

from __future__ import annotations

import sys
from typing import Any

from moorage.bench.controlplane import ControlPlane
from tests.app.endings import PODS


def post(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # for the encoder of the test
    try:
        answer = plane.request("POST", path, body)
    finally:
        sys.setrecursionlimit(limit)
    assert answer.status == 201, answer.content


def make_pod(plane: ControlPlane, name: str) -> None:
    spec = {"schedulerName": "moorage", "containers": [{"name": "c", "image": "registry.example/app:v1"}]}
    post(plane, PODS, {"metadata": {"name": name}, "spec": spec})


def node_with_room(plane: ControlPlane) -> None:
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}}
    post(plane, "/api/v1/nodes", {"metadata": {"name": "n1"}})
    assert plane.request("PATCH", "/api/v1/nodes/n1/status", {"status": status}).status == 200
    assert plane.request("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}).status == 200
