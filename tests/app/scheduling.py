"""A scheduler on the real API server, for tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.bench.controlplane import ControlPlane


def make_node(plane: ControlPlane, name: str, cpu: str = "4", **labels: str) -> None:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    answer = plane.request("POST", "/api/v1/nodes", node)
    assert answer.status == 201, answer.content
    answer = plane.request("PUT", f"/api/v1/nodes/{name}/status", {**answer.json(), "status": node["status"]})
    assert answer.status == 200, answer.content


def make_pod(plane: ControlPlane, name: str, cpu: str = "100m") -> None:
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "moorage", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", pod)
    assert answer.status == 201, answer.content


def pods_of(plane: ControlPlane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
    return found


@contextmanager
def scheduler(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "moorage",
        "scheduler",
        "--kubeconfig",
        str(plane.scheduler_kubeconfig),
        "--secure-port=0",
        *arguments,
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)
