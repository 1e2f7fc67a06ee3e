"""The real descheduler: built once from the module proxy, as the control plane is, and started with a policy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.controlplane.others import program
from tests.repack.leftover import GPU

PACKAGE = "sigs.k8s.io/descheduler/cmd/descheduler"
INTERVAL = "15s"


def policy(threshold: int) -> dict[str, Any]:
    """HighNodeUtilization: nodes below the threshold in every resource are emptied."""
    thresholds = {"cpu": threshold, "memory": threshold, "pods": 100, GPU: threshold}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "pack",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                    {"name": "HighNodeUtilization", "args": {"thresholds": thresholds}},
                ],
                "plugins": {"balance": {"enabled": ["HighNodeUtilization"]}},
            }
        ],
    }


@contextmanager
def descheduler(plane: ControlPlane, folder: Path, threshold: int) -> Iterator[None]:
    """In a process of its own, again and again."""
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(policy(threshold)))
    command = [
        str(program("descheduler", "descheduler", PACKAGE)),
        "--kubeconfig",
        str(plane.admin_kubeconfig),
        "--policy-config-file",
        str(path),
    ]
    command += ["--descheduling-interval", INTERVAL, "--secure-port", str(free_ports(1)[0]), "--v", "2"]
    command += ["--cert-dir", str(folder / "certificates"), "--bind-address", "127.0.0.1"]
    with (folder / "descheduler.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
        try:
            yield
        finally:
            child.terminate()
            child.wait(20)
