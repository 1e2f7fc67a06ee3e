"""`moorage simulate`: files in, one document out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli.main import run

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
"""
REST = """
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {taints: [{key: dedicated, value: db, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 800m}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
"""
CLUSTER = f"{NODE}---{REST}"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %s}]
"""
MESSAGE = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
    "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
    "1 Preemption is not helpful for scheduling."
)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The JSON document that the command prints."""
    assert run(["simulate", *arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_document(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The document has exactly the promised shape."""
    pod: dict[str, Any] = {
        "namespace": "default",
        "schedulerName": "default-scheduler",
        "nominatedNode": None,
        "victims": [],
    }
    assert answer(capsys, "-f", cluster) == {
        "pods": [
            {**pod, "name": "web-0", "node": "n1", "message": None},
            {**pod, "name": "web-1", "node": "n1", "message": None},
            {**pod, "name": "web-2", "node": None, "message": MESSAGE},
        ],
        "evictions": [],
        "nodes": {
            "n1": {"pods": 2, "requested": {"cpu": "1600m", "memory": "0"}},
            "n2": {"pods": 0, "requested": {"cpu": "0", "memory": "0"}},
        },
        "ignored": {"Ingress": 1},
        "warnings": [],
        "summary": {"scheduled": 2, "pending": 1, "evicted": 0},
    }


def test_explain(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every node is explained: scores and their sum, or the first plugin that rejected it with its reasons."""
    pods = answer(capsys, "-f", cluster, "--explain")["pods"]
    first = pods[0]["explain"]
    assert first["n2"] == {"rejected": {"TaintToleration": ["node(s) had untolerated taint(s)"]}}
    assert set(first["n1"]) == {"scores", "total"}
    assert first["n1"]["total"] == sum(first["n1"]["scores"].values())
    assert pods[2]["explain"]["n1"] == {"rejected": {"NodeResourcesFit": ["Insufficient cpu"]}}


def test_yaml_says_the_same(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both formats hold the same document."""
    wanted = answer(capsys, "-f", cluster, "--explain")
    assert run(["simulate", "-f", cluster, "--explain", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == wanted


def test_table(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table shows pods with their nodes, messages unbroken where there is no terminal, and a summary."""
    assert run(["simulate", "-f", cluster, "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["default", "web-0", "n1"]
    assert lines[3].endswith(MESSAGE)
    assert any(line.startswith("EXPLAIN default/web-0") for line in lines)
    assert lines[-1] == "2 scheduled, 1 pending, 0 evicted"


def test_fail_on_pending(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is no if a pod stays pending, yes otherwise; the document is printed either way."""
    assert answer(capsys, "-f", cluster, "--fail-on-pending", code=1)["summary"]["pending"] == 1
    lonely = str(Path(cluster).with_name("node.yaml"))
    Path(lonely).write_text(NODE)
    assert answer(capsys, "-f", lonely, "--fail-on-pending")["summary"]["pending"] == 0


def test_several_files_and_stdin(
    cluster: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files add up; of an object that stands there twice the later one counts, with a warning."""
    larger = NODE.replace('"2"', '"4"').encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(larger)))
    found = answer(capsys, "-f", cluster, "-f", "-")
    assert found["summary"]["pending"] == 0
    (warning,) = found["warnings"]
    assert "standard input" in warning
    assert "Node n1" in warning


@pytest.mark.parametrize(("name", "pending"), [("default-scheduler", 1), ("other", 3)])
def test_config(name: str, pending: int, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a configuration only its profiles decide."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % name)
    found = answer(capsys, "-f", cluster, "--config", str(config))
    assert found["summary"]["pending"] == pending


@pytest.mark.parametrize(
    ("files", "config", "wanted"),
    [
        pytest.param({}, None, [["gone.yaml", "no such file"]], id="missing file"),
        pytest.param({"a": "a: ["}, None, [["a.yaml", "not YAML"]], id="broken YAML"),
        pytest.param(
            {"a": CLUSTER.replace("800m", "12qi"), "b": NODE.replace("n1", "n9").replace("4Gi", "4Gib")},
            None,
            [["a.yaml", "document 3", "cpu", "12qi"], ["b.yaml", "Node n9", "memory", "4Gib"]],
            id="all problems of all files",
        ),
        pytest.param(
            {"a": CLUSTER},
            "profiles: [{plugins: {score: {enabled: [{name: Nope}, {name: ImageLocality, weight: -1}]}}}]",
            [["c.yaml", "score.enabled[0].name", "Nope"], ["c.yaml", "score.enabled[1].weight", "-1"]],
            id="configuration",
        ),
        pytest.param({"a": CLUSTER}, "nope: 1", [["c.yaml", "nope"]], id="unknown field of the configuration"),
    ],
)
def test_bad_input(
    files: dict[str, str],
    config: str | None,
    wanted: list[list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong input ends with 2, one line per problem on stderr, and nothing on stdout."""
    arguments = []
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        arguments += ["-f", str(tmp_path / f"{name}.yaml")]
    if config is not None:
        head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        (tmp_path / "c.yaml").write_text(head + config)
        arguments += ["--config", str(tmp_path / "c.yaml")]
    assert run(["simulate", *(arguments or ["-f", str(tmp_path / "gone.yaml")]), "-o", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == len(wanted)
    for parts in wanted:
        assert any(all(part in line for part in parts) for line in lines)


def test_unreadable_configuration(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration that is not there, or is a folder, is bad input."""
    for path in (tmp_path / "gone.yaml", tmp_path):
        assert run(["simulate", "-f", cluster, "--config", str(path)]) == 2
        assert str(path) in capsys.readouterr().err


def test_same_seed_same_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is the same to the byte for the same seed."""
    nodes = "---".join(NODE.replace("n1", f"n{i}") for i in range(5))
    pods = "".join(f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}}}, spec: {{}}}}\n" for i in range(20))
    file = tmp_path / "c.yaml"
    file.write_text(nodes + pods)
    outputs = []
    for seed in ("1", "1", "2"):
        assert run(["simulate", "-f", str(file), "--seed", seed, "-o", "json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


def test_extenders_are_not_called(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line on stderr says so, since the scheduler's answer may be another one; the plan is made without them."""
    file = tmp_path / "extenders.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file.write_text(head + "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n")
    assert run(["simulate", "-f", cluster, "--config", str(file), "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert 'extenders: ["http://127.0.0.1:1"]: are not called here' in printed.err
    assert json.loads(printed.out)["summary"]["scheduled"]
