"""What tests of `moorage webhook` share: the webhook as a process, and questions as an API server asks them."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.extender_process import eventually, status_of

KEY = "smart-scheduler.io/schedule-strategy"
SPLIT = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "moorage-webhook"


@dataclass(frozen=True, slots=True)
class Running:
    """A webhook that runs."""

    process: subprocess.Popen[bytes]
    port: int
    metrics_url: str
    health_url: str
    log: Path

    def metric(self, name: str) -> float:
        """The sum over all series of a metric."""
        with urlopen(self.metrics_url, timeout=5) as answer:  # noqa: S310 - our own
            page = answer.read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, found))

    def stop(self) -> int:
        """End it as a kubelet does, but in a hurry."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=20)


def webhook_config(**fields: Any) -> str:
    return yaml.safe_dump({"apiVersion": "moorage.dev/v1alpha1", "kind": "WebhookConfiguration", **fields})


@contextmanager
def webhook(
    plane: ControlPlane,
    folder: Path,
    *more: str,
    port: int | None = None,
    environ: Mapping[str, str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Iterator[Running]:
    """A ready webhook; without other words it registers itself under its own address."""
    folder.mkdir(exist_ok=True)
    port = port or free_ports(1)[0]
    file = folder / "config.yaml"
    file.write_text(webhook_config(**{"url": f"https://127.0.0.1:{port}/mutate", **(fields or {})}))
    with webhook_at(folder, plane.admin_kubeconfig, file, *more, port=port, environ=environ) as running:
        yield running


@contextmanager
def webhook_at(
    folder: Path,
    kubeconfig: Path,
    config: Path,
    *more: str,
    port: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A ready webhook with this configuration file."""
    given, metrics, health = free_ports(3)
    port = port or given
    command = [sys.executable, "-m", "moorage", "webhook", "--config", str(config), "--listen", f"127.0.0.1:{port}"]
    command += ["--metrics-listen", f"127.0.0.1:{metrics}", "--health-listen", f"127.0.0.1:{health}"]
    command += ["--kubeconfig", str(kubeconfig), *more]
    log = folder / "log"
    variables = {**os.environ, **(environ or {})}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process,
    ):
        running = Running(process, port, f"http://127.0.0.1:{metrics}/metrics", f"http://127.0.0.1:{health}", log)
        ready = f"{running.health_url}/readyz"
        try:
            eventually(lambda: process.poll() is not None or status_of(ready) == 200, "the webhook is ready", 60)
            assert process.poll() is None, log.read_text()
            yield running
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # so that no Lease stays behind
                process.wait(timeout=20)
        finally:
            process.kill()


def review(pod: dict[str, Any], *, uid: str = "q-1", dry_run: bool = False, **request: Any) -> dict[str, Any]:
    """The question about the creation of a pod."""
    asked = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": dry_run,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def bare_pod(text: str | None = SPLIT, **fields: Any) -> dict[str, Any]:
    """A pod that brings its strategy along."""
    metadata: dict[str, Any] = {"generateName": "web-", "namespace": "default"}
    if text is not None:
        metadata["annotations"] = {KEY: text}
    spec = {"containers": [{"name": "c", "image": "nginx:1.21", "resources": {}}], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def patch_of(answer: bytes) -> list[dict[str, Any]]:
    """The JSON patch of an answer."""
    response = json.loads(answer)["response"]
    assert response["allowed"] is True
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else []


@contextmanager
def balancer(ports: list[int]) -> Iterator[int]:
    """A port whose connections go to these ports in turn, as those of a Service do."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Relay) as server:
        server.daemon_threads = True
        server.turns = itertools.cycle(ports)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Relay(socketserver.BaseRequestHandler):
    """One connection, carried on byte by byte."""

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", next(self.server.turns))) as there:  # type: ignore[attr-defined]
            back = threading.Thread(target=_carry, args=(there, self.request), daemon=True)
            back.start()
            _carry(self.request, there)
            back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
