"""The chart as tests use it: rendered by the real helm, installed on a real API server."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.assets import find_assets, kubernetes_version
from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import serves
from tests.patience import eventually

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/moorage"
RELEASE, NAMESPACE = "moorage", "moorage-system"
COMPONENTS = ("scheduler", "extender", "webhook", "keeper", "dashboard", "shadow")
EVERYTHING = (
    *(f"{component}.enabled=true" for component in COMPONENTS),
    "fence.enabled=true",
    "networkPolicy.enabled=true",
    "priorityClass.create=true",
    "metrics.serviceMonitor.enabled=true",
    "metrics.prometheusRule.enabled=true",
    "webhook.certManager.enabled=true",
    "grafanaDashboard.enabled=true",
)
PRICES = (
    "config.scheduler.profiles[0].schedulerName=cheap",
    "config.scheduler.profiles[0].pluginConfig[0].name=CostAware",
    "config.scheduler.profiles[0].pluginConfig[0].args.source.configMap.namespace=costs",
    "config.scheduler.profiles[0].pluginConfig[0].args.source.configMap.name=prices",
)
STRANGERS = {
    "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors"),
    "PrometheusRule": ("monitoring.coreos.com", "prometheusrules"),
    "Certificate": ("cert-manager.io", "certificates"),
    "Issuer": ("cert-manager.io", "issuers"),
}
"""Kinds of other projects that the chart can use: kind -> group and plural."""
ALL_KINDS = tuple(f"--api-versions={group}/v1/{kind}" for kind, (group, _) in STRANGERS.items())

VOLUMES = {("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")}
"""What Kubernetes' own system:volume-scheduler lets the scheduler do."""

Document = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


def helm(*arguments: str | Path, good: bool = True) -> str:
    """What helm prints; an error's text if it is expected to fail."""
    command = [str(find_assets() / "helm"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == good, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout if good else done.stderr


def settings(values: Sequence[str]) -> list[str]:
    """As arguments of helm."""
    return [word for value in values for word in ("--set", value)]


@functools.cache
def rendered(*values: str, more: tuple[str, ...] = (), name: str = RELEASE) -> list[Document]:
    """The objects that the chart makes of these values; `more` are other arguments of helm template."""
    version = ".".join(map(str, kubernetes_version(find_assets())))
    where = ("--namespace", NAMESPACE, "--kube-version", version)
    text = helm("template", name, CHART, *where, *settings(values), *more)
    return [document for document in yaml.safe_load_all(text) if document]


def switches() -> tuple[str, ...]:
    """Everything that this release of Kubernetes has."""
    return tuple(value for value in EVERYTHING if value != "fence.enabled=true" or serves(1, 30))


def served_part(file: Path) -> list[Document]:
    """The objects of a file that this release of Kubernetes has kinds for; kubectl refuses the others by their name."""
    newer = {"FlowSchema": (1, 29), "ValidatingAdmissionPolicy": (1, 30), "ValidatingAdmissionPolicyBinding": (1, 30)}
    found = [document for document in yaml.safe_load_all(file.read_text()) if document]
    return [document for document in found if serves(*newer.get(document["kind"], (1, 28)))]


def of_kind(documents: Sequence[Document], kind: str) -> dict[str, Document]:
    """Objects of a kind, by name."""
    return {found["metadata"]["name"]: found for found in documents if found["kind"] == kind}


def granted(component: str, *values: str) -> set[Right]:
    """The rights of the component's own roles."""
    documents = rendered(f"{component}.enabled=true", *values)
    name = f"{RELEASE}-{component}"
    roles = [role for kind in ("ClusterRole", "Role") for role in of_kind(documents, kind).values()]
    rules = [rule for role in roles if role["metadata"]["name"].startswith(name) for rule in role["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def kubectl(plane: ControlPlane, *arguments: str | Path, given: str = "", good: bool | None = True) -> str:
    """What kubectl prints, as admin; `given` is its standard input. `good` None: it may end as it likes."""
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    assert good is None or (done.returncode == 0) == good, done.stderr
    return done.stdout


def make(plane: ControlPlane, path: str, body: Document) -> Document:
    """Create an object, its status too if it has one."""
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content
    made: Document = answer.json()
    if "status" in body:
        where = f"{path}/{made['metadata']['name']}/status"
        answer = plane.request("PUT", where, {**made, "status": body["status"]})
        assert answer.status == 200, answer.content
    return made


def make_namespace(plane: ControlPlane, name: str = NAMESPACE) -> None:
    """One that enforces the Pod Security level `restricted`, if it is not there yet."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    answer = plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    assert answer.status in {201, 409}, answer.content


def add_kinds(plane: ControlPlane) -> None:
    """Stand-ins for the kinds of the Prometheus operator and cert-manager: they take any content."""
    for kind, (group, plural) in STRANGERS.items():
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
        }
        make(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    for group, plural in STRANGERS.values():
        path = f"/apis/{group}/v1/{plural}"
        eventually(lambda path=path: plane.request("GET", path).status == 200, 30, lambda path=path: path)  # type: ignore[misc]


def install(plane: ControlPlane, *values: str, verb: str = "install", name: str = RELEASE) -> str:
    """Install or upgrade the release; what helm says about it."""
    make_namespace(plane)
    where = ("--namespace", NAMESPACE, "--kubeconfig", plane.admin_kubeconfig)
    fresh = ("--reset-values",) if verb == "upgrade" else ()
    return helm(verb, name, CHART, *where, *fresh, *settings(values))


@contextmanager
def released(plane: ControlPlane, *values: str, name: str = RELEASE) -> Iterator[str]:
    """The release for as long as the block runs, which gets what helm said."""
    notes = install(plane, *values, name=name)
    try:
        yield notes
    finally:
        uninstall(plane, name)


def uninstall(plane: ControlPlane, name: str = RELEASE) -> None:
    """Remove the release."""
    helm("uninstall", name, "--namespace", NAMESPACE, "--kubeconfig", plane.admin_kubeconfig)


def account_kubeconfig(plane: ControlPlane, folder: Path, component: str) -> Path:
    """How the component's pod would reach the API server."""
    return token_kubeconfig(plane, folder, NAMESPACE, f"{RELEASE}-{component}")


def token_kubeconfig(plane: ControlPlane, folder: Path, namespace: str, account: str) -> Path:
    """How a pod with this service account would."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = plane.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    assert answer.status == 201, answer.content
    document = yaml.safe_load(plane.admin_kubeconfig.read_text())
    document["users"][0]["user"] = {"token": answer.json()["status"]["token"]}
    written = folder / f"{account}.kubeconfig"
    written.write_text(yaml.safe_dump(document))
    return written


def installed_configuration(plane: ControlPlane, folder: Path) -> Path:
    """The configuration file that the release mounts."""
    answer = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}")
    assert answer.status == 200, answer.content
    written = folder / "config.yaml"
    written.write_text(answer.json()["data"]["config.yaml"])
    return written


@contextmanager
def component_process(
    plane: ControlPlane, folder: Path, component: str, *arguments: str, says: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The component on the installed configuration, with the rights of its account, from when it `says` so on."""
    log = folder / f"{component}.log"
    credentials, configuration = account_kubeconfig(plane, folder, component), installed_configuration(plane, folder)
    given = [f"--kubeconfig={credentials}", f"--config={configuration}", *arguments]
    command = [sys.executable, "-m", "moorage", component, *given]
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(
                lambda: process.poll() is not None or says in log.read_text(), 60, lambda: log.read_text()[-2000:]
            )
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()
            process.wait(20)


def audited(plane: ControlPlane, user: str) -> list[Document]:
    """What this user has asked the API server, as the audit log says it."""
    lines = plane.audit_log.read_text().splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in events if event["user"]["username"] == user]
