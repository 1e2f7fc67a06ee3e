"""The example smart-scheduler: its files fit together, the server accepts them, and its account's rights are enough.

The webhook runs with the example's own configuration as the example's own account, and places the samples.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.webhook.certificates import issue
from moorage.app.plugins import find_plugins
from moorage.bench.apiserver import User
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.core.events import NodeSeen
from moorage.core.strategy import parse_strategy, targets
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.admitting import webhook_configuration
from moorage.framework.keeping import keeper_configuration
from moorage.testing import make_node
from moorage.wire.configuration import Reading, read_configuration
from tests.app.extender_process import eventually
from tests.app.keepers import keeper
from tests.app.webhook_process import KEY, REGISTRATIONS, Running, balancer, webhook_at
from tests.controlplane_fixtures import PlaneFactory
from tests.deploy.chart import token_kubeconfig

FOLDER = Path(__file__).parents[2] / "deploy/examples/smart-scheduler"
NAMESPACE = "smart-scheduler-system"
NAME = "smart-scheduler-controller-manager"
WEBHOOK = "smart-scheduler-mutating-webhook"
SERVICE = "smart-scheduler-webhook-service"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
STRATEGIES = {
    "sample-web-app.yaml": "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot",
    "sample-base-two.yaml": "base=2,weight=1,nodeSelector=node-type:ondemand;weight=3,nodeSelector=node-type:spot",
    "sample-zones.yaml": "base=1,weight=2,nodeSelector=zone:us-west-1a,node-type:ondemand;"
    "weight=1,nodeSelector=zone:us-west-1b,node-type:spot",
    "sample-gpu.yaml": "base=1,weight=1,nodeSelector=accelerator:nvidia-tesla-k80;"
    "weight=2,nodeSelector=accelerator:nvidia-tesla-v100",
}


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def manifest(kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = (
        document
        for document in documents("manifests.yaml")
        if document["kind"] == kind and name in (None, document["metadata"]["name"])
    )
    return found


def certificates() -> dict[tuple[str, str], dict[str, Any]]:
    """What is specified in cert-manager.yaml, by kind and name."""
    found = documents("cert-manager.yaml")
    return {(document["kind"], document["metadata"]["name"]): document["spec"] for document in found}


def reading() -> Reading:
    return read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)


def moorage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- files ---


def test_the_files_are_clean() -> None:
    """`moorage validate` has nothing to say about configuration and workloads, and the ConfigMap is the same file."""
    words = [word for file in ("config.yaml", *STRATEGIES) for word in ("-f", str(FOLDER / file))]
    done = moorage("validate", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert manifest("ConfigMap")["data"]["config.yaml"] == (FOLDER / "config.yaml").read_text()


def test_the_names_are_those_that_users_know() -> None:
    """Namespace, Deployment, webhook configuration, the volume of the Secret, and Certificate."""
    assert manifest("Namespace")["metadata"]["name"] == NAMESPACE
    assert manifest("Deployment", NAME)["spec"]["replicas"] == 2
    assert manifest("MutatingWebhookConfiguration")["metadata"]["name"] == WEBHOOK
    volumes = {volume["name"]: volume for volume in manifest("Deployment", NAME)["spec"]["template"]["spec"]["volumes"]}
    assert volumes["certs"]["secret"] == {"secretName": "smart-scheduler-webhook-certs", "optional": True}
    certificate = certificates()["Certificate", "smart-scheduler-serving-cert"]
    assert certificate["secretName"] == "smart-scheduler-webhook-certs"
    assert f"{SERVICE}.{NAMESPACE}.svc" in certificate["dnsNames"]


def test_cert_managers_authority_outlives_its_certificates() -> None:
    """A serving certificate that signed itself would be another authority with each renewal: handshakes would fail."""
    found = certificates()
    issuer = found["Issuer", found["Certificate", "smart-scheduler-serving-cert"]["issuerRef"]["name"]]
    (authority,) = (spec for spec in found.values() if spec.get("secretName") == issuer["ca"]["secretName"])
    assert (authority["isCA"], bool(authority["commonName"])) == (True, True)
    assert found["Issuer", authority["issuerRef"]["name"]] == {"selfSigned": {}}


@pytest.mark.parametrize("file", STRATEGIES)
def test_the_samples_carry_their_strategies(file: str) -> None:
    """Verbatim, and the comment above each says the split that comes of it."""
    (workload,) = documents(file)
    assert workload["metadata"]["annotations"] == {KEY: STRATEGIES[file]}
    counts = targets(parse_strategy(STRATEGIES[file]), workload["spec"]["replicas"])
    said = f"{counts[0]} and {counts[1]} of {workload['spec']['replicas']}"
    assert said in (FOLDER / file).read_text().splitlines()[0]


def test_the_keeper_takes_node_types_for_capacity_types() -> None:
    """Pods that leave a terminated spot node go to on-demand nodes first, as the example's own labels name them."""
    found = reading()
    assert found.configuration is not None
    settings = keeper_configuration(found.configuration)
    assert settings.profile == "default-scheduler"
    subject = Keeper(found.profiles, settings)
    nodes = [make_node(name, labels={"node-type": name}) for name in ("spot", "ondemand", "other")]
    subject.handle(map(NodeSeen, nodes), 0.0)
    assert [node.name for node in nodes if subject.proofs.is_spot(node.name)] == ["spot"]


def test_the_web_app() -> None:
    """Six replicas of nginx."""
    (workload,) = documents("sample-web-app.yaml")
    assert (workload["metadata"]["name"], workload["spec"]["replicas"]) == ("web-app", 6)
    assert workload["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.21"


def test_everything_leads_to_the_webhook() -> None:
    """The API server finds the Service, the Service the port, and the webhook its registration."""
    configuration = reading().configuration
    assert configuration is not None
    settings = webhook_configuration(configuration)
    (entry,) = manifest("MutatingWebhookConfiguration")["webhooks"]
    assert entry["clientConfig"]["service"] == {"namespace": NAMESPACE, "name": SERVICE, "path": "/mutate", "port": 443}
    assert (settings.webhook_name, settings.service_name, settings.service_namespace) == (WEBHOOK, SERVICE, NAMESPACE)
    assert (entry["failurePolicy"], entry["timeoutSeconds"], entry["sideEffects"]) == ("Ignore", 2, "None")
    excluded = entry["namespaceSelector"]["matchExpressions"][0]
    assert (excluded["operator"], excluded["values"]) == ("NotIn", ["kube-system", NAMESPACE])
    deployment, service = manifest("Deployment", NAME), manifest("Service", SERVICE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"webhook": 9443, "metrics": 8080, "health": 8081}
    assert service["spec"]["ports"][0]["targetPort"] == "webhook"
    assert settings.listen.endswith(":9443")
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.certificate_file.startswith(mounts["certs"])


def test_the_simulator_agrees(tmp_path: Path) -> None:
    """The same file and the web app, placed by the plugin instead of the webhook."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{kind}-{number}", "labels": {"node-type": kind}},
            "status": {"allocatable": amounts},
        }
        for kind in ("spot", "ondemand")
        for number in range(3)
    ]
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    files = ["-f", str(tmp_path / "nodes.yaml"), "-f", str(FOLDER / "sample-web-app.yaml")]
    done = moorage("simulate", *files, "--config", str(FOLDER / "config.yaml"), "-o", "json")
    assert done.returncode == 0, done.stderr
    found = Counter(pod["node"].rpartition("-")[0] for pod in json.loads(done.stdout)["pods"])
    assert found == {"ondemand": 3, "spot": 3}


# --- on the real API server ---


@pytest.mark.parametrize("file", STRATEGIES)
def test_the_server_accepts_the_sample(control_plane: ControlPlane, file: str) -> None:
    """Every field is known, every value valid."""
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", str(FOLDER / file))


@pytest.fixture
def installed(fresh_control_plane: PlaneFactory) -> Iterator[ControlPlane]:
    """A control plane with the manifests applied, Deployments that become pods, and a login for the account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
    plane = fresh_control_plane(users=(User(ACCOUNT, groups),))
    kubectl(plane, "apply", "--validate=strict", "-f", str(FOLDER / "manifests.yaml"))
    manager = plane.start_controller_manager("--controllers=deployment,replicaset", "--kube-api-qps=1000")
    try:
        yield plane
    finally:
        manager.kill()


def stamps(plane: ControlPlane, app: str) -> Counter[str]:
    pods = plane.request("GET", f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}").json()["items"]
    return Counter((pod["metadata"].get("annotations") or {}).get("moorage.dev/strategy-rule", "") for pod in pods)


@contextmanager
def two_replicas(plane: ControlPlane, folder: Path, config: Path) -> Iterator[list[Running]]:
    """The webhook as its Deployment runs it, and API servers that call the replicas in turn."""
    ports = free_ports(2)
    with ExitStack() as stack:
        door = stack.enter_context(balancer(ports))
        running = []
        for port in ports:
            (folder / str(port)).mkdir()
            replica = webhook_at(
                folder / str(port),
                plane.kubeconfig_for(ACCOUNT),
                config,
                port=port,
                environ={"POD_NAMESPACE": NAMESPACE},
            )
            running.append(stack.enter_context(replica))
        registration = plane.request("GET", f"{REGISTRATIONS}/{WEBHOOK}").json()
        (entry,) = registration["webhooks"]
        assert entry["clientConfig"]["caBundle"]
        assert entry["namespaceSelector"] == manifest(registration["kind"])["webhooks"][0]["namespaceSelector"]
        # There is no network of Services here.
        entry["clientConfig"] = {
            "url": f"https://127.0.0.1:{door}/mutate",
            "caBundle": entry["clientConfig"]["caBundle"],
        }
        assert plane.request("PUT", f"{REGISTRATIONS}/{WEBHOOK}", registration).status == 200
        yield running
        assert [each.log for each in running if "orbidden" in each.log.read_text()] == []


def test_the_account_runs_the_webhook_and_the_samples_are_split(installed: ControlPlane, tmp_path: Path) -> None:
    """With the example's configuration and rights, and with two replicas, all samples are split exactly: 3 + 3 of 6."""
    with two_replicas(installed, tmp_path, FOLDER / "config.yaml") as running:
        kubectl(installed, *[word for file in STRATEGIES for word in ("-f", str(FOLDER / file))], "apply")
        for file, strategy in STRATEGIES.items():
            (workload,) = documents(file)
            app, replicas = workload["metadata"]["name"], workload["spec"]["replicas"]
            counts = targets(parse_strategy(strategy), replicas)
            want = {str(rule): count for rule, count in enumerate(counts, start=1)}
            eventually(lambda app=app, replicas=replicas: stamps(installed, app).total() == replicas, app, within_s=60)  # type: ignore[misc]
            assert stamps(installed, app) == want
        assert stamps(installed, "web-app") == {"1": 3, "2": 3}
        assert running[1].metric("smart_scheduler_pods_placed_total") == 0


def test_rules_that_no_node_matches_fall_back(installed: ControlPlane, tmp_path: Path) -> None:
    """After the configured time pods are created unchanged, with an event; the keeper replaces those that wait."""
    config = tmp_path / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text().replace("fallbackAfter: 60s", "fallbackAfter: 2s"))
    account = token_kubeconfig(installed, tmp_path, NAMESPACE, "smart-scheduler-keeper")
    arguments = ("--kubeconfig", str(account), "--config", str(config))
    with two_replicas(installed, tmp_path, config), keeper(installed, tmp_path / "keeper", *arguments):
        kubectl(installed, "apply", "-f", str(FOLDER / "sample-gpu.yaml"))
        (workload,) = documents("sample-gpu.yaml")
        app, replicas = workload["metadata"]["name"], workload["spec"]["replicas"]
        eventually(lambda: stamps(installed, app) == {"": replicas}, "all pods are left to default scheduling", 90)
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        found = installed.request("GET", path).json()["items"]
        reporters = {event["reportingController"] for event in found if event["reason"] == "StrategyFallback"}
        assert reporters == {"moorage-webhook", "moorage-keeper"}
    assert "orbidden" not in (tmp_path / "keeper").read_text()


def test_a_secret_is_created_as_users_know_it_and_stays(installed: ControlPlane, tmp_path: Path) -> None:
    """`kubectl create secret tls` finds none there, and applying the manifests again does not empty it."""
    pair = issue([f"{SERVICE}.{NAMESPACE}.svc"], 3600.0)
    for name, content in (("server.crt", pair.chain), ("server.key", pair.key)):
        (tmp_path / name).write_bytes(content)
    files = (f"--cert={tmp_path / 'server.crt'}", f"--key={tmp_path / 'server.key'}")
    kubectl(installed, "create", "secret", "tls", "smart-scheduler-webhook-certs", *files, "-n", NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/smart-scheduler-webhook-certs"
    before = installed.request("GET", path).json()["data"]
    kubectl(installed, "apply", "-f", str(FOLDER / "manifests.yaml"))
    assert installed.request("GET", path).json()["data"] == before
    assert base64.b64decode(before["tls.crt"]) == pair.chain


def test_the_account_may_do_nothing_else(installed: ControlPlane) -> None:
    """No pod, node, secret or foreign registration is touched."""
    for verb, group, resource in (
        ("delete", "", "pods"),
        ("create", "", "pods/binding"),
        ("patch", "", "nodes"),
        ("get", "", "secrets"),
        ("update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ):
        name, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource}
        spec = {"user": ACCOUNT, "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = installed.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer.json()["status"]["allowed"] is False, (verb, resource)
