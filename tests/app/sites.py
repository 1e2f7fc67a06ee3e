"""Replicas of a scheduler that elect a leader, for tests."""

from __future__ import annotations

import random
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from moorage.bench.processes import free_ports
from tests.contract.manifests import a_pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


RBAC = "/apis/rbac.authorization.k8s.io/v1"


PODS = "/api/v1/namespaces/default/pods"


TERM = "moorage.dev/term"


QUICK = "leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms"


TROUBLED = """
import sys, time
from pathlib import Path
from moorage.cli.main import main
from moorage.engine.engine import Engine

hang, busy = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
handle = Engine.handle

def troubled(*args):
    while hang.exists():
        time.sleep(0.05)
    answer = handle(*args)
    if busy.exists():
        until_s = time.monotonic() + 0.4
        while time.monotonic() < until_s:
            pass
        return answer[0], 0.0
    return answer

Engine.handle = troubled
main()
"""


@dataclass
class Replica:
    """A running scheduler."""

    process: subprocess.Popen[bytes]
    log_file: Path
    port: int

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(30)

    def ask(self, path: str) -> tuple[int, str]:
        """Status and text; 0 while nobody listens."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with opener.open(f"https://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        return self.ask("/readyz") == (200, "ok")

    def leads(self, lease: str) -> float:
        """What the metric says."""
        lines = self.ask("/metrics")[1].splitlines()
        prefix = f'leader_election_master_status{{name="{lease}"}} '
        return next((float(line.removeprefix(prefix)) for line in lines if line.startswith(prefix)), -1.0)


class Site:
    """A control plane, a Lease of our own on it, and the replicas that want it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.lease_name = f"moorage-{random.getrandbits(40):x}"
        self.hang, self.busy = folder / "hang", folder / "busy"
        self.grant()

    def grant(self, namespace: str = "kube-system") -> None:
        """The scheduler may have leases in a namespace."""
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
        verbs = ["create", "get", "update", "list", "watch"]
        role = {"metadata": {"name": "electors"}, "rules": [{**rule, "verbs": verbs}]}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SCHEDULER.name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "electors"}
        binding = {"metadata": {"name": "electors"}, "roleRef": reference, "subjects": [subject]}
        for kind, body in (("roles", role), ("rolebindings", binding)):
            answer = self.plane.request("POST", f"{RBAC}/namespaces/{namespace}/{kind}", body)
            assert answer.status in {201, 409}, answer.content

    def config(self, timing: str, qps: int = 5000) -> Path:
        file = self.folder / "config.yaml"
        file.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"leaderElection: {{resourceName: {self.lease_name}, {timing}}}\n"
            f"clientConnection: {{qps: {qps}, burst: {qps}}}\n"
            "profiles: [{schedulerName: moorage}]\n"
        )
        return file

    @contextmanager
    def replica(self, name: str, *arguments: str, troubled: bool = False) -> Iterator[Replica]:
        (port,) = free_ports(1)
        log = self.folder / f"{name}.log"
        start = ["-c", TROUBLED, str(self.hang), str(self.busy)] if troubled else ["-m", "moorage"]
        serving = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        serving += ["--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"]
        kubeconfig = ["--kubeconfig", str(self.plane.scheduler_kubeconfig)]
        command = [sys.executable, *start, "scheduler", *kubeconfig, *serving, "--v=5", *arguments]
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield Replica(process, log, port)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()

    def lease(self, name: str = "") -> dict[str, Any]:
        """The spec of the Lease; empty when it does not exist."""
        answer = self.plane.request("GET", f"{LEASES}/{name or self.lease_name}")
        spec: dict[str, Any] = answer.json()["spec"] if answer.status == 200 else {}
        return spec

    def add_pods(self, *names: str, cpu: str = "100m") -> None:
        for name in names:
            answer = self.plane.request("POST", PODS, a_pod(name, cpu=cpu))
            assert answer.status == 201, answer.content

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.request("GET", PODS).json()["items"]
        return found

    def term_of(self, name: str) -> str:
        """The term in which a pod was bound; empty while it is not."""
        pod = self.plane.request("GET", f"{PODS}/{name}").json()
        return pod["metadata"].get("annotations", {}).get(TERM, "") if pod["spec"].get("nodeName") else ""

    def settled(self) -> bool:
        """Whether every pod is bound, or was told that it does not fit."""
        reasons = [
            "Bound" if pod["spec"].get("nodeName") else condition.get("reason")
            for pod in self.pods()
            for condition in pod["status"].get("conditions", [{}])
        ]
        return set(reasons) <= {"Bound", "Unschedulable"}

    def terms(self) -> Counter[str]:
        bound = [pod for pod in self.pods() if pod["spec"].get("nodeName")]
        return Counter(pod["metadata"]["annotations"][TERM] for pod in bound)


def eventually(condition: Callable[[], bool], what: str, *replicas: Replica, within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        logs = "\n".join(f"--- {each.log_file.name}\n{each.log[-6000:]}" for each in replicas)
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}\n{logs}"
        time.sleep(0.02)


def error_lines(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("error:")]
