"""Schedulers that the drill kills: how each is started, as a process of its own with a profile of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import Child, free_ports

Subject = Literal["moorage", "kube-scheduler"]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)


def start(
    subject: Subject, plane: ControlPlane, kubeconfig: Path, scheduler_name: str, log: Path, *arguments: dict[str, Any]
) -> Child:
    """Start the scheduler; it answers to this schedulerName only. `arguments`: more entries of pluginConfig."""
    config = kubeconfig.with_suffix(".config.yaml")
    # The drill's gangs without a controller are to be released all the same: nobody but the drill looks at them.
    bare = {"name": "GangScheduling", "args": {"releaseBarePods": True}}
    profile = {"schedulerName": scheduler_name, "pluginConfig": [bare, *arguments] if subject == "moorage" else []}
    config.write_text(
        yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "profiles": [profile],
        })
    )  # fmt: skip
    command = _moorage(config) if subject == "moorage" else _kube_scheduler(plane, config, log)
    return Child.start(f"{subject} of {scheduler_name}", command, log=log)


def _moorage(config: Path) -> list[str]:
    return [sys.executable, "-m", "moorage", "scheduler", "--config", str(config), "--secure-port=0"]


def _kube_scheduler(plane: ControlPlane, config: Path, log: Path) -> list[str]:
    me = plane.scheduler_kubeconfig
    return [
        str(plane.binary("kube-scheduler")),
        f"--config={config}",
        f"--authentication-kubeconfig={me}",
        f"--authorization-kubeconfig={me}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_ports(1)[0]}",
        f"--cert-dir={log.with_suffix('.certificates')}",
        "--feature-gates=GenericWorkload=true",
    ]
