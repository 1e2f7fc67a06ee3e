"""What tests of `moorage extender` share: workloads on the real API server, and the extender as a process."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import trustme
import yaml

from moorage.bench.controlplane import ControlPlane

PROFILE = "default-scheduler"
DEPLOYMENT_PATH = "/apis/apps/v1/namespaces/default/deployments"


def eventually(condition: Callable[[], Any], what: str, within_s: float) -> Any:
    deadline_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {what}"
        time.sleep(0.1)
    return found


def make_node(plane: ControlPlane, name: str, **labels: str) -> None:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    made = plane.request("POST", "/api/v1/nodes", {"kind": "Node", "metadata": metadata, "status": status})
    assert made.status == 201, made.content
    answer = plane.request("PUT", f"/api/v1/nodes/{name}/status", {**made.json(), "status": status})
    assert answer.status == 200, answer.content
    # The node lifecycle controller takes this off where it runs; here nobody does.
    plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def make_deployment(plane: ControlPlane, name: str, replicas: int, *, cpu: str = "100m", **annotations: str) -> None:
    labels = {"app": name}
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    body = {"kind": "Deployment", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
    answer = plane.request("POST", DEPLOYMENT_PATH, body)
    assert answer.status == 201, answer.content


def placements(plane: ControlPlane) -> dict[str, list[str]]:
    """The nodes of the pods of each app, the empty text for a pod without one."""
    found: dict[str, list[str]] = defaultdict(list)
    for pod in plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]:
        found[pod["metadata"]["labels"]["app"]].append(pod["spec"].get("nodeName") or "")
    return dict(found)


def kube_scheduler_config(url: str, **extender: Any) -> dict[str, Any]:
    """kube-scheduler that fills nodes up one after the other."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    heavy = {"name": "NodeResourcesFit", "weight": 100}
    asked = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": False,
        "ignorable": True,
        **extender,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": PROFILE,
                "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [heavy]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
            }
        ],
        "extenders": [asked],
    }


def extender_config(*plugins: str, elect: bool = False, **fields: Any) -> str:
    enabled = {"multiPoint": {"enabled": [{"name": name} for name in plugins]}}
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": elect},
        "profiles": [{"schedulerName": PROFILE, "plugins": enabled}],
    }
    own = {"apiVersion": "moorage.dev/v1alpha1", "kind": "ExtenderConfiguration", "callerTimeout": "5s", **fields}
    return yaml.safe_dump_all([scheduler, own])


@contextmanager
def extender(
    plane: ControlPlane, folder: Path, config: str, port: int, *more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A running extender; it need not be ready."""
    folder.mkdir(exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(config)
    command = [sys.executable, "-m", "moorage", "extender", "--config", str(file), "--listen", f"127.0.0.1:{port}"]
    command += ["--kubeconfig", str(plane.admin_kubeconfig), *more]
    with (folder / "log").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(frozen=True)
class MutualTls:
    """Files of an authority, of a server at 127.0.0.1 and of a client called kube-scheduler."""

    folder: Path
    trust: ssl.SSLContext
    """Of a client without a certificate."""
    certified: ssl.SSLContext
    """Of kube-scheduler."""

    def flags(self) -> tuple[str, ...]:
        """What the extender is started with."""
        folder = self.folder
        served = ("--tls-cert", f"{folder}/tls.crt", "--tls-key", f"{folder}/tls.key")
        return (*served, "--client-ca-file", f"{folder}/ca.crt", "--client-name", "kube-scheduler")


def mutual_tls(folder: Path) -> MutualTls:
    """New certificates."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    server = authority.issue_cert("127.0.0.1", "localhost")
    client = authority.issue_cert("kube-scheduler.example", common_name="kube-scheduler")
    contexts = []
    for issued, name in ((server, "tls"), (client, "client")):
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        contexts.append(ssl.create_default_context())
        authority.configure_trust(contexts[-1])
    client.configure_cert(contexts[1])
    return MutualTls(folder, *contexts)


def status_of(url: str, trust: ssl.SSLContext | None = None) -> int:
    try:
        with urlopen(url, timeout=5, context=trust) as answer:  # noqa: S310 - our own
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0
