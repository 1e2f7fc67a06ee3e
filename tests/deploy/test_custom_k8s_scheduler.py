"""The example custom-k8s-scheduler: its files, its rights, that it packs, and that one of two replicas leads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.app.sources import watched_kinds
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.wire.configuration import read_configuration
from tests.app.serving import ask
from tests.contract.manifests import a_node
from tests.controlplane_fixtures import PlaneFactory
from tests.deploy.chart import kubectl, make, of_kind
from tests.deploy.custom_k8s_memory import FOLDER, LIMIT_MIB, NAME, account_kubeconfig, measure
from tests.deploy.kube_scheduler_script import kube_scheduler
from tests.patience import eventually

Document = dict[str, Any]
LABELS = {"tier": "control-plane", "component": "scheduler"}
VOLUMES = {("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")}
LIFE = (
    "Add event for unscheduled pod",
    "Pod moved to an internal scheduling queue",
    "About to try and schedule pod",
    "Attempting to schedule pod",
    "Attempting to bind pod to node",
    "Add event for scheduled pod",
    "Delete event for unscheduled pod",
    "Finished binding for pod, can be expired",
    "Successfully bound pod to node",
)
"""What the log of the leader says about a pod at --v=5."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}"


def documents(name: str = "manifests.yaml") -> list[Document]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def manifest(kind: str) -> Document:
    (found,) = of_kind(documents(), kind).values()
    return found


def pod_spec() -> Document:
    spec: Document = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def moorage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moorage", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


# --- files ---


def test_the_files_are_clean() -> None:
    """`moorage validate` has nothing to say, and the ConfigMap holds the same configuration."""
    files = ("config.yaml", "sample.yaml", "sample-deployment.yaml", "sample-nodes.yaml")
    done = moorage("validate", *(word for file in files for word in ("-f", FOLDER / file)))
    assert (done.returncode, done.stdout) == (0, "ok: 7 objects\n"), done.stdout
    data = of_kind(documents(), "ConfigMap")[f"{NAME}-config"]["data"]
    assert data == {f"{NAME}-config.yaml": (FOLDER / "config.yaml").read_text()}


def test_the_objects_are_where_their_users_look_for_them() -> None:
    """Names, namespace and labels."""
    found = documents()
    assert all(document["metadata"]["labels"] == LABELS for document in found)
    assert {document["metadata"].get("namespace", "kube-system") for document in found} == {"kube-system"}
    for kind in ("ServiceAccount", "ClusterRole", "Deployment"):
        assert manifest(kind)["metadata"]["name"] == NAME
    bindings = of_kind(found, "ClusterRoleBinding")
    assert {name: binding["roleRef"]["name"] for name, binding in bindings.items()} == {
        f"{NAME}-as-kube-scheduler": NAME,
        f"{NAME}-as-volume-scheduler": "system:volume-scheduler",
    }
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}
    assert all(binding["subjects"] == [account] for binding in bindings.values())


def test_the_deployment_is_as_its_users_know_it() -> None:
    """Two replicas apart, away from Karpenter's nodes, with limits, probes, flags and no host namespaces."""
    found, spec = manifest("Deployment"), pod_spec()
    (container,) = spec["containers"]
    assert found["spec"]["replicas"] == 2
    assert found["spec"]["template"]["metadata"]["labels"] == LABELS
    assert (spec["hostNetwork"], spec["hostPID"]) == (False, False)
    amounts = {"cpu": "500m", "memory": "512Mi"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    paths = {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
    assert paths == {"/healthz"}
    file = f"--config=/etc/kubernetes/{NAME}/{NAME}-config.yaml"
    assert {"--bind-address=0.0.0.0", "--v=5", file} < set(container["args"])
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "config")
    assert mount["mountPath"] == f"/etc/kubernetes/{NAME}"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (apart["topologyKey"], apart["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", LABELS)


def test_the_configuration_says_what_was_promised() -> None:
    """Lease, limits of the client, and the scoring."""
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    assert (reading.problems, reading.notices) == ((), ())
    configuration = reading.configuration
    assert configuration is not None
    election = configuration.leader_election
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (True, "kube-system", NAME)
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (100, 200)
    assert [profile.scheduler_name for profile in reading.profiles] == [NAME]


def test_the_rights_to_read_are_those_that_the_profile_needs() -> None:
    """Every kind that the plugins read may be listed and watched, by the own role or Kubernetes' one for volumes."""
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    granted = {
        (group, resource)
        for rule in manifest("ClusterRole")["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted | VOLUMES == {(kind.group, kind.plural) for kind in watched_kinds(reading.profiles)}


def test_events_of_both_groups_may_be_written() -> None:
    """Moorage writes those of events.k8s.io; what counts events of the core group finds its rights as they were."""
    (rule,) = (rule for rule in manifest("ClusterRole")["rules"] if rule["resources"] == ["events"])
    assert (sorted(rule["apiGroups"]), sorted(rule["verbs"])) == (["", "events.k8s.io"], ["create", "patch"])


@pytest.mark.parametrize(
    ("config", "want_packed"),
    [pytest.param("config.yaml", [2, 3, 3], id="spread"), pytest.param("packing.yaml", [0, 2, 6], id="packed")],
)
def test_the_sample_deployment_in_a_simulation(config: str, want_packed: list[int]) -> None:
    """The spread by default wins over packing, as it does live; without it one node is filled after the other."""
    files = ("-f", FOLDER / "sample-nodes.yaml", "-f", FOLDER / "sample-deployment.yaml")
    done = moorage("simulate", *files, "--config", FOLDER / config, "--fail-on-pending", "-o", "json")
    assert done.returncode == 0, done.stderr
    nodes = [pod["node"] for pod in json.loads(done.stdout)["pods"]]
    counts = {name: nodes.count(name) for name in ("node-a", "node-b", "node-c")}
    assert sorted(counts.values()) == want_packed
    assert counts["node-b"] == want_packed[-1]


def test_more_replicas_are_spread_in_a_what_if() -> None:
    """Six more pods beside eight that are placed: as live, not on the fullest node."""
    files = ("-f", FOLDER / "sample-nodes.yaml", "-f", FOLDER / "sample-deployment.yaml")
    scaled = ("--config", FOLDER / "config.yaml", "--scale", "deployment/packed=14", "-o", "json")
    answer = json.loads(moorage("simulate", *files, *scaled).stdout)
    resident = [int(name == "node-b") for name in answer["nodes"]]
    pods = [node["pods"] for node in answer["nodes"].values()]
    assert sorted(count - one for count, one in zip(pods, resident, strict=True)) == [4, 5, 5]
    assert len(answer["difference"]["added"]) == 6


def test_a_single_pod_goes_to_the_fullest_node_in_a_simulation() -> None:
    """It belongs to nothing that would be spread."""
    files = ("-f", FOLDER / "sample-nodes.yaml", "-f", FOLDER / "sample.yaml")
    done = moorage("simulate", *files, "--config", FOLDER / "config.yaml", "-o", "json")
    assert [pod["node"] for pod in json.loads(done.stdout)["pods"]] == ["node-b"]


def test_the_packing_file_differs_in_what_spreads() -> None:
    """Everything else is that of the shipped configuration, so that either can be the content of the ConfigMap."""
    plain, packing = (yaml.safe_load((FOLDER / name).read_text()) for name in ("config.yaml", "packing.yaml"))
    profile = packing["profiles"][0]
    assert profile["plugins"]["score"].pop("disabled") == [{"name": "NodeResourcesBalancedAllocation"}]
    spread = profile["pluginConfig"].pop()
    assert spread == {
        "name": "PodTopologySpread",
        "args": {"defaultingType": "List", "defaultConstraints": []},
    }
    assert packing == plain


# --- on the real API server ---


@pytest.mark.parametrize("file", ["manifests.yaml", "sample.yaml", "sample-deployment.yaml"])
def test_the_server_accepts_the_file(control_plane: ControlPlane, file: str) -> None:
    """Every field is known, every value valid."""
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", FOLDER / file)


@contextmanager
def replica(plane: ControlPlane, folder: Path, name: str, port: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """One of the pods' processes, with the rights of their account; it writes `name`.log.

    It is started as the container that people know is: `kube-scheduler`, with its flags.
    """
    place = folder / name
    place.mkdir()
    command = [*kube_scheduler(place), "--bind-address=0.0.0.0", f"--secure-port={port}", "--v=5"]
    command += [f"--kubeconfig={account_kubeconfig(plane, folder)}", f"--config={FOLDER / 'config.yaml'}"]
    log = folder / f"{name}.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def test_one_of_two_replicas_packs_and_the_other_takes_over(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """The pod `sample` goes to the fuller node; when the leader ends, the standby places the next one.

    Both run as the service account, nothing is forbidden to them, and their logs say what operators look for.
    """
    plane = fresh_control_plane()
    kubectl(plane, "apply", "-f", FOLDER / "manifests.yaml")
    for name in ("empty", "in-use"):
        make(plane, "/api/v1/nodes", a_node(name))
    resident = {**documents("sample.yaml")[0], "metadata": {"name": "resident"}}
    resident["spec"] = {**resident["spec"], "nodeName": "in-use"}
    make(plane, "/api/v1/namespaces/default/pods", resident)

    def node_of(name: str) -> str:
        return str(plane.request("GET", f"/api/v1/namespaces/default/pods/{name}").json()["spec"].get("nodeName", ""))

    def said(name: str, words: str) -> None:
        log = tmp_path / f"{name}.log"
        eventually(lambda: words in log.read_text(), 60, lambda: f"{words}: {log.read_text()[-3000:]}")

    (port,) = free_ports(1)
    with replica(plane, tmp_path, "first", port) as first:
        for words in (
            "attempting to acquire leader lease",
            "successfully acquired lease",
            "successfully renewed lease",
        ):
            said("first", f"{words} kube-system/{NAME}")
        assert ask(port, "/healthz") == (200, "ok")
        with replica(plane, tmp_path, "second"):
            said("second", "lock is held by")
            said("second", f"failed to acquire lease kube-system/{NAME}")
            kubectl(plane, "apply", "-f", FOLDER / "sample.yaml")
            eventually(lambda: node_of("sample"), 60, lambda: (tmp_path / "first.log").read_text()[-3000:])
            assert node_of("sample") == "in-use"
            for words in LIFE:
                said("first", words)
            lines = [line for line in (tmp_path / "first.log").read_text().splitlines() if "default/sample" in line]
            assert [words for words in LIFE if not any(words in line for line in lines)] == []
            probes = [line for line in (tmp_path / "first.log").read_text().splitlines() if 'URI="/healthz"' in line]
            assert len(probes) == 1
            assert all(
                part in probes[0] for part in ("HTTP", 'verb="GET"', "resp=200", 'srcIP="127.0.0.1"', "latency=")
            )
            holder = plane.request("GET", LEASE).json()["spec"]["holderIdentity"]
            first.send_signal(signal.SIGTERM)
            eventually(
                lambda: plane.request("GET", LEASE).json()["spec"]["holderIdentity"] not in {"", holder}, 30, str
            )
            make(
                plane, "/api/v1/namespaces/default/pods", {**documents("sample.yaml")[0], "metadata": {"name": "next"}}
            )
            eventually(lambda: node_of("next"), 60, lambda: (tmp_path / "second.log").read_text()[-3000:])
            assert node_of("next") == "in-use"
    assert "orbidden" not in (tmp_path / "first.log").read_text() + (tmp_path / "second.log").read_text()


def test_it_lives_within_its_limit(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """A small run of the measurement whose figures the README gives."""
    found = measure(fresh_control_plane(), tmp_path, nodes=20, pods=200)
    assert found.bound == 20
    assert max(found.leader_mib, found.standby_mib) < LIMIT_MIB
