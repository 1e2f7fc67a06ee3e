"""The example spot-extender: its files fit together, the server accepts them, and its account has the rights it needs.

That the rule acts through a real kube-scheduler is in tests/app/test_extender_cluster.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.app.sources import watched_kinds
from moorage.bench.controlplane import ControlPlane
from moorage.engine.extending import extender_profile
from moorage.framework.extending import extender_configuration
from moorage.framework.keeping import keeper_configuration
from moorage.wire.configuration import Reading, read_configuration
from tests.app.keepers import NOTICE, keeper, make_member, pods_left
from tests.app.scheduling import make_node
from tests.controlplane_fixtures import PlaneFactory
from tests.deploy.access import allowed, applied
from tests.deploy.chart import kubectl, served_part, token_kubeconfig
from tests.patience import eventually

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/examples/spot-extender"
NAME = "spot-scheduler-extender"
ACCOUNT = f"system:serviceaccount:kube-system:{NAME}"
SAMPLES = ("sample-single.yaml", "sample-several.yaml", "sample-labels.yaml")
KEEPER = "spot-scheduler-keeper"
KEEPERS = {
    "of the example": (FOLDER / "manifests.yaml", "kube-system", KEEPER, NAME),
    "deploy/manifests": (ROOT / "deploy/manifests/keeper.yaml", "moorage-system", "moorage-keeper", "moorage-keeper"),
}
"""Manifests with a keeper; its namespace, its account, its ConfigMap."""


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def manifest(kind: str, name: str = NAME) -> dict[str, Any]:
    wanted = (kind, name)
    (found,) = (each for each in documents("manifests.yaml") if (each["kind"], each["metadata"]["name"]) == wanted)
    return found


def reading() -> Reading:
    return read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)


def moorage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


# --- files ---


def test_the_files_are_clean() -> None:
    """`moorage validate` has nothing to say about configuration and workloads, and the ConfigMap is the same file."""
    words = [word for file in ("config.yaml", *SAMPLES) for word in ("-f", str(FOLDER / file))]
    done = moorage("validate", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert manifest("ConfigMap")["data"]["config.yaml"] == (FOLDER / "config.yaml").read_text()


def test_the_configuration_is_that_of_the_rule() -> None:
    """Both scheduler names have the rule, and nothing but it is left for the extender."""
    found = reading()
    assert found.configuration is not None
    assert [profile.scheduler_name for profile in found.profiles] == ["default-scheduler", "moorage"]
    for profile in found.profiles:
        assert [plugin.name for plugin in extender_profile(profile).plugins] == ["SpotPlacement"]
    settings = extender_configuration(found.configuration)
    assert settings.profile == "default-scheduler"
    assert settings.leader_election is not None
    assert settings.leader_election.resource_name == NAME
    keeper = keeper_configuration(found.configuration)
    assert (keeper.profile, keeper.leader_election and keeper.leader_election.resource_name) == (
        settings.profile,
        KEEPER,
    )


def test_the_service_leads_to_the_extender() -> None:
    """Port 80 of the Service is the port that the extender listens on; everything is in kube-system."""
    deployment, service = manifest("Deployment"), manifest("Service")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = service["spec"]["ports"]
    assert (service["metadata"]["name"], deployment["metadata"]["name"]) == (NAME, NAME)
    assert (port["port"], port["targetPort"]) == (80, container["ports"][0]["name"])
    configuration = reading().configuration
    assert configuration is not None
    listen = extender_configuration(configuration).listen
    assert listen.rpartition(":")[2] == str(container["ports"][0]["containerPort"])
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    namespaces = {document["metadata"].get("namespace") for document in documents("manifests.yaml")}
    assert namespaces == {"kube-system", None}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "mutual TLS"])
def test_kube_scheduler_is_told_to_ask(tls: bool) -> None:
    """By name, since whole nodes come back without their pods; loudly enough for the rule to win over spread."""
    (config,) = documents(f"kube-scheduler-config{'-mutual-tls' if tls else ''}.yaml")
    assert config["clientConnection"]["kubeconfig"] == "/etc/kubernetes/scheduler.conf"
    assert "profiles" not in config
    (asked,) = config["extenders"]
    assert asked.pop("tlsConfig", None) is not None if tls else "tlsConfig" not in asked
    assert asked == {
        "urlPrefix": f"http{'s' if tls else ''}://{NAME}.kube-system.svc.cluster.local",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 10,
        "enableHTTPS": tls,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": "1s",
    }


def test_no_shipped_file_has_kube_scheduler_send_whole_nodes() -> None:
    """They would come back without their pods, and be scored as if they were empty."""
    shipped = [
        *(ROOT / "deploy").rglob("*.yaml"),
        *(ROOT / "deploy").rglob("*.tpl"),
        *(ROOT / "examples").rglob("*.yaml"),
    ]
    said = {str(path): path.read_text().count("nodeCacheCapable") for path in shipped}
    assert sum(said.values()) >= 2
    assert [path for path in said if "nodeCacheCapable: false" in Path(path).read_text()] == []


def test_the_timeouts_agree() -> None:
    """The extender waits for other pods no longer than half of what kube-scheduler waits for it."""
    configuration = reading().configuration
    assert configuration is not None
    settings = extender_configuration(configuration)
    for name in ("kube-scheduler-config.yaml", "kube-scheduler-config-mutual-tls.yaml"):
        (config,) = documents(name)
        assert [f"{settings.caller_timeout_s:g}s"] == [asked["httpTimeout"] for asked in config["extenders"]] == ["1s"]


def test_the_static_pod_reads_that_file() -> None:
    """And can resolve the extender's name."""
    (pod,) = documents("kube-scheduler.yaml")
    spec = pod["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (container,) = spec["containers"]
    file = "/etc/kubernetes/kube-scheduler-config.yaml"
    assert f"--config={file}" in container["command"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    on_host = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    assert mounted == on_host
    assert set(mounted.values()) == {file, "/etc/kubernetes/scheduler.conf"}


def test_replicas_stay_on_spot_while_it_has_room(tmp_path: Path) -> None:
    """Spread and balance choose among spot nodes only; what does not fit there goes to on-demand nodes."""
    for replicas, want in ((12, {"spot": 12}), (24, {"spot": 24}), (50, {"spot": 45, "steady": 5})):
        found = simulated_pools(tmp_path, deployment("web", replicas))
        assert dict(Counter(found["web"])) == want


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """Of pods of which a node takes fifteen."""
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_the_simulator_agrees(tmp_path: Path) -> None:
    """The same file and the sample workloads, on three spot and three on-demand nodes."""
    found = simulated_pools(tmp_path, *(each for sample in SAMPLES for each in documents(sample)))
    assert found == {
        "single-replica": ["steady"],
        "several-replicas": ["spot"] * 4,
        "several-with-base": ["spot", "spot", "steady"],
        "labelled-single": ["steady"] * 2,
        "labelled-multiple": ["spot"],
    }


def simulated_pools(folder: Path, *workloads: Mapping[str, Any]) -> dict[str, list[str]]:
    """Workload -> the pools of its pods by the configuration of the example."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "15"}
    pools = {"spot": "spot", "steady": "on-demand"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{pool}-{number}", "labels": {"node.kubernetes.io/capacity": capacity}},
            "status": {"allocatable": amounts},
        }
        for pool, capacity in pools.items()
        for number in range(3)
    ]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([*nodes, *workloads]))
    words = ("-f", str(folder / "cluster.yaml"), "--config", str(FOLDER / "config.yaml"), "-o", "json")
    done = moorage("simulate", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for pod in json.loads(done.stdout)["pods"]:
        found.setdefault(pod["name"].rpartition("-")[0], []).append(pod["node"].rpartition("-")[0])
    return {name: sorted(where) for name, where in found.items()}


# --- on the real API server ---


@pytest.fixture
def installed(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server on which the manifests were applied, and nothing else."""
    with applied(empty_control_plane, FOLDER / "manifests.yaml") as plane:
        yield plane


@pytest.mark.parametrize("file", ["manifests.yaml", "kube-scheduler.yaml", *SAMPLES])
def test_the_server_accepts_the_file(control_plane: ControlPlane, file: str) -> None:
    """Every field is known, every value valid."""
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", str(FOLDER / file))


def test_mutual_tls_is_a_patch_away(installed: ControlPlane) -> None:
    """The Deployment takes the flags, the certificates and probes over HTTPS, and keeps the rest."""
    patch = ("patch", "deployment", ACCOUNT.rpartition(":")[2], "-n", "kube-system")
    kubectl(installed, *patch, "--patch-file", str(FOLDER / "mutual-tls.yaml"))
    path = "/apis/apps/v1/namespaces/kube-system/deployments/spot-scheduler-extender"
    (container,) = installed.request("GET", path).json()["spec"]["template"]["spec"]["containers"]
    assert {"--client-ca-file=/etc/moorage-tls/ca.crt", "--client-name=kube-scheduler"} <= set(container["args"])
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/etc/moorage", "/etc/moorage-tls"}


@pytest.mark.parametrize("case", KEEPERS)
def test_pods_leave_a_spot_node_that_is_terminated(
    case: str, fresh_control_plane: PlaneFactory, tmp_path: Path
) -> None:
    """The keeper, with its own account and configuration, moves a pod of kube-scheduler to an on-demand node."""
    file, namespace, account, config_map = KEEPERS[case]
    plane = fresh_control_plane()
    kubectl(plane, "apply", "-f", "-", given=yaml.safe_dump_all(served_part(file)))
    config = tmp_path / "config.yaml"
    found = plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{config_map}").json()
    config.write_text(found["data"]["config.yaml"])
    for node, capacity in (("goes", "spot"), ("other", "spot"), ("steady", "on-demand")):
        make_node(plane, node, **{"node.kubernetes.io/capacity": capacity})
    make_member(plane, "web-1", "goes")
    log = tmp_path / "log"
    credentials = str(token_kubeconfig(plane, tmp_path, namespace, account))
    with keeper(plane, log, "--kubeconfig", credentials, "--config", str(config), "--v=2"):
        assert plane.request("PATCH", "/api/v1/nodes/goes", NOTICE).status == 200
        eventually(lambda: pods_left(plane) == [], 60, "the pod is evicted")
    notes = [event["note"] for event in plane.request("GET", "/apis/events.k8s.io/v1/events").json()["items"]]
    assert any("there is room on node steady" in note for note in notes), notes
    assert "orbidden" not in log.read_text()


def test_the_account_may_do_what_the_extender_does_and_nothing_else(installed: ControlPlane) -> None:
    """Read what the rule reads, hold its lease, write events; no pod is touched."""
    kinds = watched_kinds([extender_profile(reading().profiles[0])])
    needs = [(verb, kind.group, kind.plural) for kind in kinds for verb in ("list", "watch")]
    needs += [("create", "events.k8s.io", "events"), ("patch", "events.k8s.io", "events")]
    assert [right for right in needs if not allowed(installed, ACCOUNT, *right)] == []
    leases = ("coordination.k8s.io", "leases", "kube-system")
    assert allowed(installed, ACCOUNT, "create", *leases)
    assert all(allowed(installed, ACCOUNT, verb, *leases, NAME) for verb in ("get", "update", "watch"))
    forbidden = [
        ("update", *leases, "kube-scheduler"),
        ("create", "", "pods/binding"),
        ("delete", "", "pods"),
        ("patch", "", "nodes"),
        ("list", "", "secrets"),
    ]
    assert [right for right in forbidden if allowed(installed, ACCOUNT, *right)] == []


def test_the_pods_are_as_restricted_as_pods_can_be(installed: ControlPlane) -> None:
    """A namespace that enforces the Pod Security level `restricted` lets the pods in."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": "locked-extender", "labels": label}})
    for name in (NAME, KEEPER):
        metadata = {"name": name, "namespace": "locked-extender"}
        installed.request("POST", "/api/v1/namespaces/locked-extender/serviceaccounts", {"metadata": metadata})
        body = {"metadata": metadata, "spec": manifest("Deployment", name)["spec"]["template"]["spec"]}
        answer = installed.request("POST", "/api/v1/namespaces/locked-extender/pods?dryRun=All", body)
        assert answer.status == 201, answer.content
