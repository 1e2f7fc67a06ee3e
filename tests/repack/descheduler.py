"""The real descheduler: built once from the module proxy, as the control plane is, and started with a policy."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.controlplane import build
from tests.repack.leftover import GPU

SOURCE = build.HERE / "descheduler"
PACKAGE = "sigs.k8s.io/descheduler/cmd/descheduler"
INTERVAL = "15s"


def program() -> Path:
    """The program, built first if need be."""
    root = build.cache_folder(os.environ) / "controlplane"
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    folder = root / f"descheduler-{digest[:16]}"
    found = folder / "descheduler"
    if not found.exists():
        root.mkdir(parents=True, exist_ok=True)
        with build.locked(root):
            go, env = build.find_go(root)
            log = root / f"{folder.name}.log"
            with build.becoming(folder) as unfinished:
                flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w"]
                command = [go, "build", *flags, "-o", str(unfinished / "descheduler"), PACKAGE]
                build.run(command, what="descheduler", env=env, log=log, cwd=SOURCE)
    return found


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
    command = [str(program()), "--kubeconfig", str(plane.admin_kubeconfig), "--policy-config-file", str(path)]
    command += ["--descheduling-interval", INTERVAL, "--secure-port", str(free_ports(1)[0]), "--v", "2"]
    command += ["--cert-dir", str(folder / "certificates"), "--bind-address", "127.0.0.1"]
    with (folder / "descheduler.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
        try:
            yield
        finally:
            child.terminate()
            child.wait(20)
