"""The real controllers of JobSet and LeaderWorkerSet: their programs, CRDs and webhooks, on an API server of ours."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.controlplane.others import documents, module_folder, program

SOURCE = "workloads"
_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


@dataclass(frozen=True, slots=True)
class Manager:
    """One controller manager."""

    name: str
    module: str
    package: str
    crds: str
    webhooks: str
    config: str
    """The group and version of its configuration."""
    label: str
    """What its pods have; their webhooks are called for no others."""


JOBSET = Manager(
    "jobset",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/jobset",
    "config/components/crd/bases",
    "config/components/webhook/manifests.yaml",
    "config.jobset.x-k8s.io/v1alpha1",
    "jobset.sigs.k8s.io/jobset-name",
)
LEADER_WORKER_SET = Manager(
    "lws",
    "sigs.k8s.io/lws",
    "sigs.k8s.io/lws/cmd",
    "config/crd/bases",
    "config/webhook/manifests.yaml",
    "config.lws.x-k8s.io/v1alpha1",
    "leaderworkerset.sigs.k8s.io/name",
)


def create(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> None:
    """Make an object, which must succeed."""
    answer = plane.request("POST", path, dict(body))
    assert answer.status == 201, answer.content


@contextmanager
def running(manager: Manager, plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Install what the manager needs, and run it."""
    binary = program(SOURCE, manager.name, manager.package)
    module = module_folder(SOURCE, manager.module)
    for document in documents(*sorted((module / manager.crds).glob("*.yaml"))):
        create(plane, _PATHS[document["kind"]], document)
    port, health = free_ports(2)
    authority, certificates = trustme.CA(), folder / f"{manager.name}-certificates"
    certificates.mkdir()
    pair = authority.issue_cert("127.0.0.1")
    pair.private_key_pem.write_to_path(certificates / "tls.key")
    (certificates / "tls.crt").write_bytes(b"".join(each.bytes() for each in pair.cert_chain_pems))
    configuration = {
        "apiVersion": manager.config,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }
    file = folder / f"{manager.name}.yaml"
    file.write_text(json.dumps(configuration))
    environ = {**os.environ, "KUBECONFIG": str(plane.admin_kubeconfig)}
    log = folder / f"{manager.name}.log"
    with log.open("ab") as output:
        command = [str(binary), "--config", str(file)]
        with subprocess.Popen(command, env=environ, stdout=output, stderr=output) as child:
            try:
                for document in documents(module / manager.webhooks):
                    create(plane, _PATHS[document["kind"]], _reached_at(document, manager, port, authority))
                yield
            finally:
                child.terminate()
                child.wait(30)


def _reached_at(document: dict[str, Any], manager: Manager, port: int, authority: trustme.CA) -> dict[str, Any]:
    """A webhook configuration as the manager's kustomization would have it, for a manager on this machine."""
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    for hook in document["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
        if "pods" in hook["rules"][0]["resources"]:
            hook["objectSelector"] = {"matchExpressions": [{"key": manager.label, "operator": "Exists"}]}
    return {**document, "metadata": {"name": f"{manager.name}-{document['kind'].lower()}"}}
