"""`moorage shadow` as a process beside a real kube-scheduler, with the rights to list and watch and no others."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane, Options, User
from moorage.bench.processcost import cpu_s, peak_memory_bytes
from moorage.bench.processes import Child, free_ports
from tests.patience import eventually

READER = User("shadow")
OPTIONS = Options(users=(READER,))
_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_COUNTED = re.compile(r"^moorage_shadow_decisions_total\{.*\} ([0-9.e+]+)$", re.MULTILINE)
_QPS = 100_000


def configuration(**profile: Any) -> dict[str, Any]:
    """What both schedulers run with: all nodes are scored, and no client waits for its own rate limit."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "clientConnection": {"qps": _QPS, "burst": _QPS},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }


UPSIDE_DOWN = configuration(
    pluginConfig=[
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                }
            },
        }
    ]
)
"""Fuller nodes score higher where kube-scheduler lets emptier ones: the opposite sign of one plugin's scores."""


def allow_reading(plane: ControlPlane) -> None:
    """Let the shadow list and watch everything, and nothing else."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]},
            {"nonResourceURLs": ["/version", "/apis", "/apis/*", "/api", "/api/*"], "verbs": ["get"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER.name}],
    }
    for kind, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        answer = plane.request("POST", f"{_ROLES}/{kind}", body)
        assert answer.status == 201, answer.content


def start_kube_scheduler(plane: ControlPlane) -> Child:
    """The stock scheduler."""
    return plane.start_scheduler(config=configuration())


@dataclass(slots=True)
class ShadowRun:
    """A running shadow."""

    process: subprocess.Popen[bytes]
    out: Path
    log: Path
    metrics_url: str
    report: Path
    peak_bytes: int = 0
    used_cpu_s: float = 0.0

    def text(self) -> str:
        """What it logged."""
        return self.log.read_text()

    def page(self) -> str:
        """Its metrics."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:  # noqa: S310 - our own process
            text: str = answer.read().decode()
            return text

    def counted(self) -> int:
        """How many decisions it has compared."""
        return sum(int(float(number)) for number in _COUNTED.findall(self.page()))

    def end(self) -> dict[str, Any]:
        """End it; what it printed."""
        self.peak_bytes, self.used_cpu_s = peak_memory_bytes(self.process.pid), cpu_s(self.process.pid)
        self.process.terminate()
        assert self.process.wait(300) == 0, self.text()
        found: dict[str, Any] = json.loads(self.out.read_text())
        return found


@contextlib.contextmanager
def shadowing(
    plane: ControlPlane, folder: Path, *flags: str, config: Mapping[str, Any] | None = None, name: str = "shadow"
) -> Iterator[ShadowRun]:
    """A shadow that has begun to compare."""
    file, out, log, report = (folder / f"{name}.{kind}" for kind in ("yaml", "json", "log", "html"))
    file.write_text(yaml.safe_dump(dict(config or configuration())))
    (port,) = free_ports(1)
    command = [
        *(sys.executable, "-m", "moorage", "shadow", f"--config={file}"),
        f"--kubeconfig={plane.kubeconfig_for(READER.name)}",
        *("-o", "json", f"--report={report}", f"--metrics-listen=127.0.0.1:{port}", "--health-listen="),
        *flags,
    ]
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    run = ShadowRun(process, out, log, f"http://127.0.0.1:{port}/metrics", report)
    try:
        eventually(lambda: "comparing" in run.text() or process.poll() is not None, 120, run.text)
        assert process.poll() is None, run.text()
        yield run
    finally:
        process.kill()
        process.wait()
