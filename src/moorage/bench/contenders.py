"""What is measured: kube-scheduler, Moorage and the limit client, each a process with the same permissions and no rate
limit.

Both schedulers run with their default profile under the name that the pods ask for. kube-scheduler's gates are its
defaults, except that gangs need theirs.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum

import yaml

from moorage.bench.clusterload import SCHEDULER_NAME
from moorage.bench.controlplane import ControlPlane, Options
from moorage.bench.processes import Child, free_ports

GATES = {"GenericWorkload": True}
QPS = 100_000
"""Far more than the API server can do, so that no client waits for its own rate limit."""


class Contender(StrEnum):
    """A process that binds pods."""

    KUBE_SCHEDULER = "kube-scheduler"
    MOORAGE = "moorage"
    LIMIT = "limit"


def plane_options(*, gangs: bool) -> Options:
    """The control plane; with the gates of native PodGroups where gangs need them."""
    if not gangs:
        return Options()
    return Options(feature_gates=GATES, runtime_config={"scheduling.k8s.io/v1beta1": True})


def start(contender: Contender, plane: ControlPlane, *, gangs: bool, python: str = sys.executable) -> Child:
    """Start the process, without waiting until it is ready; `python` has the Moorage that is measured."""
    log = plane.logs / f"{contender}.log"
    # As when installed, Python code is compiled once and kept, not at every start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return Child.start(str(contender), _command(contender, plane, gangs=gangs, python=python), log=log, env=environment)


def _command(contender: Contender, plane: ControlPlane, *, gangs: bool, python: str) -> list[str]:
    me = str(plane.scheduler_kubeconfig)
    if contender is Contender.LIMIT:
        return [sys.executable, "-m", "moorage.bench.limitclient", me]
    config = plane.folder / f"{contender}.yaml"
    config.write_text(yaml.safe_dump(_configuration(me)))
    port = free_ports(1)[0]
    serving = [f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    if contender is Contender.MOORAGE:
        return [python, "-m", "moorage", "scheduler", *serving]
    gates = [f"--feature-gates={','.join(f'{name}=true' for name in GATES)}"] if gangs else []
    return [
        str(plane.binary("kube-scheduler")),
        *serving,
        f"--cert-dir={plane.folder / 'certificates'}",
        f"--authentication-kubeconfig={me}",
        f"--authorization-kubeconfig={me}",
        *gates,
    ]


def _configuration(kubeconfig: str) -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER_NAME}],
    }
