"""`moorage snapshot`: a live cluster in a file, fit for simulations and for strangers' eyes."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.app.snapshot import slimmed
from moorage.bench.controlplane import ControlPlane
from moorage.cli.main import run

SECRET = "hunter2"


def talkative(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod's spec that holds a secret wherever people put theirs."""
    container = spec["containers"][0]
    container["env"] = [
        {"name": "PASSWORD", "value": SECRET},
        {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ]
    container["command"] = ["sh", "-c", f"login {SECRET}"]
    container["args"] = [SECRET]
    container["livenessProbe"] = {"httpGet": {"port": 80, "httpHeaders": [{"name": "Token", "value": SECRET}]}}
    container["lifecycle"] = {"preStop": {"exec": {"command": ["logout", SECRET]}}}
    return spec


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "Job", "CronJob"])
def test_what_is_nobodys_business_is_left_out(kind: str) -> None:
    """Secrets go, names and whatever placement reads stay."""
    body = pod_manifest("a") if kind == "Pod" else workload_manifest(kind, "a")
    metadata = body["metadata"]
    metadata["managedFields"] = [{"manager": SECRET}]
    metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "kept": "yes"}
    spec = body["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else body["spec"]
    talkative(spec if kind == "Pod" else spec["template"]["spec"])
    text = json.dumps(slimmed(body))
    assert SECRET not in text
    assert "managedFields" not in text
    for word in ("PASSWORD", "secretKeyRef", "requests", "kept"):
        assert word in text


@pytest.fixture
def cluster(empty_control_plane: ControlPlane) -> ControlPlane:
    """Two nodes, a Deployment without its controller, a pod that stands, one that waits, a budget and a Secret."""
    plane = empty_control_plane
    plane.request("DELETE", "/api/v1/namespaces/default/secrets/quiet")
    deployment = workload_manifest("Deployment", "web", own={"replicas": 2}, cpu="1")
    talkative(deployment["spec"]["template"]["spec"])
    standing = pod_manifest("standing", nodeName="n1", labels={"app": "db"})
    talkative(standing["spec"])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "quiet"}, "stringData": {"p": SECRET}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }
    for path, body in (
        ("/api/v1/nodes", node_manifest("n1")),
        ("/api/v1/nodes", node_manifest("n2")),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
        ("/api/v1/namespaces/default/pods", standing),
        ("/api/v1/namespaces/default/pods", pod_manifest("huge", cpu="64")),
        ("/api/v1/namespaces/default/secrets", secret),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget),
    ):
        answer = plane.request("POST", path, body)
        assert answer.status == 201, answer.content
    return plane


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.json"])
def test_a_saved_cluster_is_simulated_like_the_live_one(
    name: str, cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There and back: same placements, messages and difference; no secret is in the file, and only we can read it."""
    file = tmp_path / name
    asked = ["--kubeconfig", str(cluster.admin_kubeconfig)]
    assert run(["snapshot", *asked, "-o", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "2 Node" in said.err
    assert "left out: Secrets" in said.err
    assert SECRET not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [name]
    for changes in ([], ["--drain", "n1"], ["--scale", "deploy/web=1"], ["--add-nodes", "1", "--like", "n1"]):
        live, saved = document(capsys, *asked, *changes), document(capsys, "-f", str(file), *changes)
        assert live == saved
    assert live["summary"] == {"scheduled": 2, "pending": 1, "evicted": 0}


def test_a_link_stays_a_link(cluster: ControlPlane, tmp_path: Path) -> None:
    """What it points to gets the snapshot: a link may be one of the system's."""
    file, link = tmp_path / "saved.json", tmp_path / "link.json"
    file.write_text("older")
    link.symlink_to(file)
    assert run(["snapshot", "--kubeconfig", str(cluster.admin_kubeconfig), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(file.read_text())["kind"] == "List"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_files_stand_on_top_of_a_live_cluster(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Objects of the same name are replaced, others are added; nothing is written to the cluster."""
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump_all([node_manifest("n2", cpu="96"), pod_manifest("late", cpu="100m")]))
    before = cluster.request("GET", "/api/v1/nodes").json()["items"]
    found = document(capsys, "--kubeconfig", str(cluster.admin_kubeconfig), "-f", str(file))
    nodes = {pod["name"]: pod["node"] for pod in found["pods"]}
    assert nodes["huge"] == "n2"
    assert nodes["late"] is not None
    assert found["warnings"] == []
    assert "difference" not in found
    assert cluster.request("GET", "/api/v1/nodes").json()["items"] == before


def test_a_configuration_is_a_change_of_a_live_cluster(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone it is compared with the default profile."""
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    found = document(capsys, "--kubeconfig", str(cluster.admin_kubeconfig), "--config", str(config))
    assert found["difference"]["changes"] == ["another configuration"]


PRICED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: CostAware}]}}
    pluginConfig:
      - {name: CostAware, args: {source: {configMap: {namespace: default, name: snapshot-prices}}}}
"""
PRICES = """
apiVersion: moorage.dev/v1alpha1
kind: PriceList
currency: EUR
prices:
  - {pricePerHour: "0.25"}
  - {labels: {kubernetes.io/hostname: n2}, capacityType: spot, pricePerHour: "0.000001"}
"""


def test_prices_of_the_configuration_are_saved_too(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From wherever they come; the saved cluster needs nothing but the file."""
    body = {"metadata": {"name": "snapshot-prices"}, "data": {"prices.yaml": PRICES}}
    answer = cluster.request("POST", "/api/v1/namespaces/default/configmaps", body)
    assert answer.status in {201, 409}, answer.content
    config, file = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(PRICED)
    asked = ["--kubeconfig", str(cluster.admin_kubeconfig), "--config", str(config)]
    assert run(["snapshot", *asked, "-o", str(file)]) == 0
    capsys.readouterr()
    changes = ["--drain", "n1", "--config", str(config)]
    saved = document(capsys, "-f", str(file), *changes)
    assert saved["warnings"] == []
    assert saved["difference"]["cost"]["before"]["all"] == "0.5000"
    assert saved["difference"]["cost"]["after"] == {"inUse": "0.2500", "all": "0.2500", "nodesInUse": 1}
    assert document(capsys, "--kubeconfig", str(cluster.admin_kubeconfig), *changes) == saved


def test_what_may_not_be_listed_is_said_and_left_out(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user who may see pods and nodes only gets a snapshot all the same; one who may not see these gets a line."""
    file = tmp_path / "cluster.json"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "snapshot-test"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "snapshot-test"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "snapshot-test"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "looker"}],
    }
    kubeconfig = impersonating(cluster, tmp_path, "looker")
    assert run(["snapshot", "--kubeconfig", kubeconfig, "-o", str(file)]) == 2
    said = capsys.readouterr().err
    assert "cannot list nodes" in said
    assert len(said.splitlines()) == 1
    assert not file.exists()
    for path, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        answer = cluster.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{path}", body)
        assert answer.status in {201, 409}, answer.content
    assert run(["snapshot", "--kubeconfig", kubeconfig, "-o", str(file)]) == 0
    assert "warning: deployments cannot be listed, so they are left out" in capsys.readouterr().err
    kinds = {item["kind"] for item in json.loads(file.read_text())["items"]}
    assert kinds == {"Node", "Pod"}


def impersonating(plane: ControlPlane, folder: Path, user: str) -> str:
    """A kubeconfig of the administrator who acts as somebody else."""
    config = yaml.safe_load(plane.admin_kubeconfig.read_text())
    for each in config["users"]:
        each["user"]["as"] = user
    file = folder / f"{user}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["-o", "x.yaml", "--kubeconfig", "missing"], "missing"),
        ([], "Missing option '-o' / '--output'"),
        (["-o", "x.yaml", "--config", "missing.yaml"], "missing.yaml: no such file"),
    ],
    ids=["kubeconfig", "output", "config"],
)
def test_bad_input_is_one_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a line that says what is wrong."""
    assert run(["snapshot", *arguments]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert want in said


def test_a_folder_that_is_not_there(cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is named, and what to do; nothing is left behind."""
    target = tmp_path / "none" / "cluster.yaml"
    assert run(["snapshot", "--kubeconfig", str(cluster.admin_kubeconfig), "-o", str(target)]) == 2
    assert f"{target}: cannot be written (No such file or directory)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
