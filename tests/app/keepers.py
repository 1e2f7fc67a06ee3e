"""A keeper on the real API server, for tests."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.patience import eventually

NOTICE = {"spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]}}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}


@contextmanager
def keeper(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[str]:
    """A keeper on ports of its own; the block gets the address of its metrics, health is one port on."""
    metrics, health = free_ports(2)
    command = [sys.executable, "-m", "moorage", "keeper", "--kubeconfig", str(plane.admin_kubeconfig)]
    command += ["--metrics-listen", f"127.0.0.1:{metrics}", "--health-listen", f"127.0.0.1:{health}", *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(lambda: get(f"http://127.0.0.1:{health}/readyz")[0] == 200, 60, "the keeper is ready")
            yield f"http://127.0.0.1:{metrics}/metrics"
        finally:
            process.terminate()
            assert process.wait(20) == 0, log.read_text()


def get(url: str) -> tuple[int, str]:
    """Status and body; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own process
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def make_member(plane: ControlPlane, name: str, node: str) -> None:
    """A running pod of a controller."""
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": "100m"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [OWNER]},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", pod)
    assert answer.status == 201, answer.content
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    assert plane.request("PATCH", path, {"status": {"phase": "Running"}}).status == 200


def pods_left(plane: ControlPlane) -> list[str]:
    """Names of the pods that are not on their way out."""
    items = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
    return [pod["metadata"]["name"] for pod in items if "deletionTimestamp" not in pod["metadata"]]
