"""`moorage simulate` with changes: the document keeps its shape and gains a difference; bad input is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.cli.main import run

CLUSTER = [
    node_manifest("n1", cpu="4"),
    node_manifest("n2", cpu="4"),
    workload_manifest("Deployment", "web", "shop", own={"replicas": 2}, cpu="1"),
    pod_manifest("bare", nodeName="n1", cpu="1"),
]
PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    plugins:
      multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(CLUSTER))
    return str(file)


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "packing.yaml"
    file.write_text(PACKING)
    return str(file)


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run(["simulate", *arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_without_changes_nothing_is_added(cluster: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a configuration nor anything else that was there before makes a difference."""
    for arguments in ([], ["--config", config], ["--explain"], ["--seed", "7"]):
        found = document(capsys, "-f", cluster, *arguments)
        assert set(found) == {"pods", "evictions", "nodes", "ignored", "warnings", "summary"}


def test_the_document_keeps_its_shape_and_gains_a_difference(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All other fields are those of the changed cluster; YAML says the same."""
    arguments = ["-f", cluster, "--drain", "n2", "--scale", "shop/deploy/web=3"]
    found = document(capsys, *arguments)
    assert list(found)[-1] == "difference"
    assert found["nodes"]["n2"]["pods"] == 0
    assert found["difference"]["changes"] == ["drain n2", "scale Deployment shop/web to 3"]
    assert found["difference"]["summary"] == {
        "moves": 1,
        "waits": 0,
        "starts": 0,
        "evicted": 1,
        "added": 1,
        "removed": 0,
    }
    assert run(["simulate", *arguments, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == found


def test_fields_of_the_difference(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are as documented."""
    found = document(capsys, "-f", cluster, "--drain", "n1", "--drain", "n2")["difference"]
    assert list(found) == [
        "changes", "moves", "waits", "starts", "evicted", "added", "removed", "budgets", "notes", "utilisation", "cost",
        "summary",
    ]  # fmt: skip
    waits = [(wait["namespace"], wait["name"], wait["from"], wait["becomes"]) for wait in found["waits"]]
    assert waits == [("shop", "web-0", "n2", "web-2"), ("shop", "web-1", "n1", "web-3")]
    assert all(wait["message"].startswith("0/2 nodes are available") for wait in found["waits"])
    bare = {"namespace": "default", "name": "bare", "node": "n1", "why": "drain", "by": None, "returns": None}
    assert bare in found["evicted"]
    assert found["cost"] is None


def test_a_pod_that_is_left_waiting_is_a_no(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--fail-on-pending` looks at the changed cluster."""
    both = ["--drain", "n1", "--drain", "n2", "--fail-on-pending"]
    assert document(capsys, "-f", cluster, *both, code=1)["summary"]["pending"] == 2
    document(capsys, "-f", cluster, "--drain", "n1", "--fail-on-pending")


def test_the_namespace_of_scales(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in the text, or it is that of --namespace."""
    for arguments in (["-n", "shop", "--scale", "Deployment/web=4"], ["--scale", "shop/Deployment/web=4"]):
        assert document(capsys, "-f", cluster, *arguments)["difference"]["summary"]["added"] == 2


def test_another_configuration(cluster: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --base-config two configurations are compared; --afresh asks what one would make of all pods."""
    base = Path(cluster).with_name("base.yaml")
    base.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    found = document(capsys, "-f", cluster, "--config", config, "--base-config", str(base))["difference"]
    assert {move["to"] for move in found["moves"]} == {"n1"}
    found = document(capsys, "-f", cluster, "--afresh", "--config", config)
    assert sorted(node["pods"] for node in found["nodes"].values()) == [0, 3]


def test_new_nodes(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Several kinds of nodes may be added at once."""
    found = document(capsys, "-f", cluster, "--add-nodes", "2", "--like", "n1", "--add-nodes", "1", "--like", "n2")
    assert {"n1-new-1", "n1-new-2", "n2-new-1"} < set(found["nodes"])


def test_table_and_explanations(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """People see the difference; with --explain also the pods and why they went where they went."""
    assert run(["simulate", "-f", cluster, "--drain", "n2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["MOVES", "FROM", "TO", "AS", "WHY"]
    assert lines[-1] == "1 moved, 0 waiting, 0 started, 1 evicted, 0 added, 0 removed"
    assert run(["simulate", "-f", cluster, "--drain", "n2", "--explain"]) == 0
    assert "EXPLAIN shop/web-2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["--drain", "n3"], "drain n3: there is no node 'n3'; name one of n1, n2"),
        (["--scale", "web=3"], "scale: 'web=3' is not understood; write KIND/NAME=N"),
        (["--scale", "Deployment/web=3"], "did you mean shop/Deployment/web?"),
        (["--scale", "shop/Deployment/web=x"], "'x' is not a number of replicas; write 0 to"),
        (["--scale", "shop/Job/web=3"], "'Job' has no number of replicas; write one of Deployment"),
        (["--add-nodes", "2"], "--add-nodes and --like belong together"),
        (["--like", "n1"], "--add-nodes and --like belong together"),
        (["--add-nodes", "0", "--like", "n1"], "0 is not in the range"),
        (["--add-nodes", "x", "--like", "n1"], "'x' is not a whole number; write 1 to"),
        (["--add-nodes", "1", "--like", "nope"], "there is no node 'nope'"),
        (["--base-config", "missing.yaml"], "missing.yaml: no such file"),
        (["--kubeconfig", "missing.yaml"], "missing.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(
    arguments: list[str], want: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout, one line on stderr that says what to do."""
    assert run(["simulate", "-f", cluster, *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert want in said.err


def test_a_cluster_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """In files, or by a kubeconfig."""
    assert run(["simulate", "--drain", "n1"]) == 2
    assert "Missing option '-f' / '--filename' or '--kubeconfig'" in capsys.readouterr().err
