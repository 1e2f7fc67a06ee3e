"""The example controller-spread-scheduler: its files, its rights, and that its sample workloads spread as promised."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.app.sources import watched_kinds
from moorage.bench.controlplane import ControlPlane
from moorage.framework.keeping import keeper_configuration
from moorage.wire.configuration import read_configuration
from tests.controlplane_fixtures import PlaneFactory
from tests.deploy.access import allowed, applied
from tests.deploy.chart import token_kubeconfig
from tests.deploy.kube_scheduler_script import kube_scheduler
from tests.patience import eventually

FOLDER = Path(__file__).parents[2] / "deploy/examples/controller-spread-scheduler"
NAME = "controller-spread-scheduler"
KEEPER = "controller-spread-keeper"
ACCOUNT = f"system:serviceaccount:kube-system:{NAME}"
HOSTS = {"pair": 2, "shop": 3, "cache": 3, "batch": 1, "lonely": 1}
"""Least number of hosts of each sample Deployment; a profile that packs uses no more."""
REPLICAS = {"pair": 2, "shop": 5, "cache": 3, "batch": 4, "lonely": 1}


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def manifest(kind: str, name: str = NAME) -> dict[str, Any]:
    of_kind = (document for document in documents("manifests.yaml") if document["kind"] == kind)
    (found,) = (document for document in of_kind if document["metadata"]["name"] == name)
    return found


def kubectl(plane: ControlPlane, *arguments: str, given: str | None = None) -> str:
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def moorage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def packing(folder: Path) -> Path:
    """The example's configuration, changed so that without its rule everything would pile up on one node."""
    document, keeper = documents("config.yaml")
    (profile,) = document["profiles"]
    profile["plugins"]["score"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    written = folder / "packing.yaml"
    written.write_text(yaml.safe_dump_all([document, keeper]))
    return written


# --- files ---


def test_the_files_are_clean() -> None:
    """`moorage validate` has nothing to say, and the ConfigMap holds the same configuration."""
    files = ("config.yaml", "sample-deployments.yaml", "sample-nodes.yaml")
    done = moorage("validate", *(word for file in files for word in ("-f", FOLDER / file)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok: 13 objects\n", "")
    assert manifest("ConfigMap")["data"] == {f"{NAME}.yaml": (FOLDER / "config.yaml").read_text()}


def test_everything_carries_the_label_and_is_in_kube_system() -> None:
    """`component=controller-spread-scheduler` finds the scheduler and its pods, another name the keeper."""
    found = [document["metadata"] for document in documents("manifests.yaml")]
    pods = [manifest("Deployment", name)["spec"]["template"]["metadata"] for name in (NAME, KEEPER)]
    assert {metadata["name"]: metadata["labels"]["component"] for metadata in found} == {NAME: NAME, KEEPER: KEEPER}
    assert [metadata["labels"]["component"] for metadata in pods] == [NAME, KEEPER]
    assert {metadata["namespace"] for metadata in found if "namespace" in metadata} == {"kube-system"}


def test_the_scheduler_reads_what_is_mounted() -> None:
    """The file that the command names is the one that the ConfigMap puts there."""
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["scheduler", f"--config=/etc/kubernetes/{NAME}.yaml", "--v=2"]
    assert [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config"] == [
        "/etc/kubernetes"
    ]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def test_the_keeper_has_the_rule_and_its_own_lease() -> None:
    """It reads the same file, and repairs what a rollout at the limit of the nodes left on too few hosts."""
    (container,) = manifest("Deployment", KEEPER)["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["keeper", f"--config=/etc/kubernetes/{NAME}.yaml"]
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    assert reading.configuration is not None
    keeper = keeper_configuration(reading.configuration)
    election = keeper.leader_election
    assert (keeper.profile, election and election.resource_name, keeper.repairs_at_once) == (NAME, KEEPER, 2)
    (lease,) = (rule for rule in manifest("Role", KEEPER)["rules"] if "resourceNames" in rule)
    assert lease["resourceNames"] == [KEEPER]


@pytest.mark.parametrize("name", ["ControllerSpread", "ControllerSpreadFilter"])
def test_the_profile_has_the_rule_under_both_names(name: str) -> None:
    """Configurations that know the plugin as ControllerSpreadFilter work as they are."""
    text = (FOLDER / "config.yaml").read_text().replace("name: ControllerSpread", f"name: {name}")
    reading = read_configuration(text.encode(), "config.yaml", find_plugins().registry)
    assert (reading.problems, reading.notices) == ((), ())
    (profile,) = reading.profiles
    assert profile.scheduler_name == NAME
    assert "ControllerSpread" in [plugin.name for plugin in profile.plugins]


def test_it_may_be_named_at_its_one_extension_point(tmp_path: Path) -> None:
    """Pods spread in the same way, and what is wrong with an annotation is said as well."""
    config, pods = tmp_path / "config.yaml", tmp_path / "pods.yaml"
    (shop,) = (each for each in documents("sample-deployments.yaml") if each["metadata"]["name"] == "shop")
    shop["metadata"]["annotations"] = {"controller-spread-scheduler/min-hosts": "three"}
    pods.write_text(yaml.safe_dump(shop))
    files = ("-f", FOLDER / "sample-nodes.yaml", "-f", pods)
    answers = []
    for point in ("multiPoint", "filter"):
        config.write_text((FOLDER / "config.yaml").read_text().replace("multiPoint", point))
        answers.append(moorage("simulate", *files, "--config", config, "-o", "json").stdout)
    assert answers[0] == answers[1]
    answer = json.loads(answers[0])
    assert answer["summary"] == {"scheduled": 5, "pending": 0, "evicted": 0}
    assert any('min-hosts is "three"; write a whole number' in warning for warning in answer["warnings"])


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "packing"])
def test_the_samples_spread_in_a_simulation(tmp_path: Path, packed: bool) -> None:
    """At least the promised number of hosts, and no more than that where everything else says to pack."""
    config = packing(tmp_path) if packed else FOLDER / "config.yaml"
    files = ("-f", FOLDER / "sample-nodes.yaml", "-f", FOLDER / "sample-deployments.yaml")
    done = moorage("simulate", *files, "--config", config, "--fail-on-pending", "-o", "json")
    assert done.returncode == 0, done.stderr
    nodes: dict[str, list[str]] = {}
    for pod in json.loads(done.stdout)["pods"]:
        nodes.setdefault(pod["name"].rpartition("-")[0], []).append(pod["node"])
    assert {name: len(places) for name, places in nodes.items()} == REPLICAS
    for name, places in nodes.items():
        hosts = len(set(places))
        assert hosts == HOSTS[name] if packed else hosts >= HOSTS[name], f"{name}: {places}"


def test_pods_wait_where_hosts_are_missing(tmp_path: Path) -> None:
    """With two nodes a Deployment that wants three hosts has all pods but one, and that one says why it waits."""
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(yaml.safe_dump_all(documents("sample-nodes.yaml")[:2]))
    files = ("-f", nodes, "-f", FOLDER / "sample-deployments.yaml")
    done = moorage("simulate", *files, "--config", FOLDER / "config.yaml", "-o", "json")
    pods = json.loads(done.stdout)["pods"]
    waiting = [pod for pod in pods if pod["node"] is None]
    assert [pod["name"].rpartition("-")[0] for pod in waiting] == ["shop", "cache"]
    text = "0/2 nodes are available: 2 node(s) would leave controller Deployment/shop on too few hosts ("
    assert waiting[0]["message"].startswith(text)


# --- on the real API server ---


@pytest.fixture
def installed(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server on which the manifests were applied."""
    with applied(empty_control_plane, FOLDER / "manifests.yaml") as plane:
        yield plane


@pytest.mark.parametrize("file", ["manifests.yaml", "sample-deployments.yaml"])
def test_the_server_accepts_the_file(control_plane: ControlPlane, file: str) -> None:
    """Every field is known, every value valid."""
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", str(FOLDER / file))


def test_the_pod_is_as_restricted_as_pods_can_be(installed: ControlPlane) -> None:
    """A namespace that enforces the Pod Security level `restricted` lets the scheduler's pod in."""
    namespace = f"locked-{NAME}"
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": label}})
    metadata = {"name": NAME, "namespace": namespace}
    installed.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": metadata})
    spec = manifest("Deployment")["spec"]["template"]["spec"]
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    answer = installed.request("POST", path, {"metadata": metadata, "spec": spec})
    assert answer.status == 201, answer.content


def test_the_rights_to_read_are_those_that_the_profile_needs() -> None:
    """Every kind that the plugins read may be listed and watched, and no other kind."""
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    granted = {
        (group, resource)
        for rule in manifest("ClusterRole")["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {(kind.group, kind.plural) for kind in watched_kinds(reading.profiles)}


NOT_ITS_BUSINESS = {
    "create pods": ("create", "", "pods"),
    "change pods": ("patch", "", "pods"),
    "change nodes": ("patch", "", "nodes"),
    "read secrets": ("list", "", "secrets"),
    "read configuration": ("list", "", "configmaps"),
    "scale": ("patch", "apps", "deployments"),
    "grant rights": ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    "another scheduler's lease": ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
}


def test_the_account_may_do_nothing_else(installed: ControlPlane) -> None:
    """What a scheduler does not need, this one may not do."""
    assert [what for what, right in NOT_ITS_BUSINESS.items() if allowed(installed, ACCOUNT, *right)] == []


def account_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """How the scheduler's pod would reach the API server."""
    return token_kubeconfig(plane, folder, "kube-system", NAME)


def add_nodes(plane: ControlPlane) -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for document in documents("sample-nodes.yaml"):
        answer = plane.request("POST", "/api/v1/nodes", {**document, "status": {}})
        assert answer.status == 201, answer.content
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        name = document["metadata"]["name"]
        answer = plane.request("PUT", f"/api/v1/nodes/{name}/status", {**answer.json(), "status": status})
        assert answer.status == 200, answer.content
        taints: dict[str, Any] = {"spec": {"taints": None}}
        plane.request("PATCH", f"/api/v1/nodes/{name}", taints)


def hosts_of(plane: ControlPlane) -> dict[str, list[str]]:
    """Deployment -> the nodes of its pods that have one."""
    found: dict[str, list[str]] = {}
    for pod in plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]:
        if "nodeName" in pod["spec"]:
            found.setdefault(pod["metadata"]["labels"]["app"], []).append(pod["spec"]["nodeName"])
    return found


def test_the_samples_spread_on_a_cluster_with_the_rights_of_the_account(
    fresh_control_plane: PlaneFactory, tmp_path: Path
) -> None:
    """Pods of real ReplicaSets, created at once, stand on as many hosts as promised though the profile packs.

    The scheduler runs as its service account, and nothing that it wants is forbidden to it.
    """
    plane = fresh_control_plane()
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller")
    kubectl(plane, "apply", "-f", str(FOLDER / "manifests.yaml"))
    add_nodes(plane)
    log = tmp_path / "log"
    arguments = ("--kubeconfig", account_kubeconfig(plane, tmp_path), "--config", packing(tmp_path), "--v=2")
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", *map(str, arguments)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            kubectl(plane, "apply", "-f", str(FOLDER / "sample-deployments.yaml"))
            want = sum(REPLICAS.values())
            eventually(lambda: sum(map(len, hosts_of(plane).values())) == want, 90, lambda: log.read_text()[-2000:])
        finally:
            process.terminate()
            process.wait(20)
    assert {name: len(set(nodes)) for name, nodes in hosts_of(plane).items()} == HOSTS
    assert "orbidden" not in log.read_text()
    assert log.read_text().count("Successfully bound pod to node") == want, "at the verbosity that it is installed with"


BEFORE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: controller-spread-scheduler
    plugins:
      filter: {enabled: [{name: ControllerSpreadFilter}]}
"""
"""A configuration of the Go plugin, which is named at its one extension point."""


def test_a_deployment_of_the_go_plugin_needs_nothing_but_another_image(
    fresh_control_plane: PlaneFactory, tmp_path: Path
) -> None:
    """Its command, flags, file and plugin name work; --v=4 tells what was counted and rejected; annotations are heeded
    and warned of.
    """
    plane = fresh_control_plane()
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller")
    add_nodes(plane)
    config, log = tmp_path / f"{NAME}.yaml", tmp_path / "log"
    config.write_text(BEFORE)
    (malformed,) = (each for each in documents("sample-deployments.yaml") if each["metadata"]["name"] == "pair")
    malformed["metadata"]["annotations"] = {"controller-spread-scheduler/min-hosts": "two"}
    (shop,) = (each for each in documents("sample-deployments.yaml") if each["metadata"]["name"] == "shop")
    flags = (f"--config={config}", "--v=4", "--secure-port=0", f"--kubeconfig={plane.scheduler_kubeconfig}")
    command = [*kube_scheduler(tmp_path), *flags]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            for body in (malformed, shop):
                kubectl(plane, "apply", "-f", "-", given=yaml.safe_dump(body))
            eventually(lambda: sum(map(len, hosts_of(plane).values())) == 7, 90, lambda: log.read_text()[-2000:])
            warned = "/api/v1/namespaces/default/events?fieldSelector=reason%3DMalformedAnnotation"
            eventually(lambda: bool(plane.request("GET", warned).json()["items"]), 30, lambda: "an event")
        finally:
            process.terminate()
            process.wait(20)
    assert {name: len(set(nodes)) for name, nodes in hosts_of(plane).items()}["shop"] >= 3
    text = log.read_text()
    assert "wants 5 pods on at least 3 hosts" in text
    told = r"Nodes rejected +count=\d+ .*plugin=\"ControllerSpread\" .*would leave controller Deployment/"
    assert re.search(told, text)
