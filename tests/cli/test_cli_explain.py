"""`moorage explain`: one pod, every node, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.cli.explain_report import SHOWN_NODES
from moorage.cli.main import run

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: ours}]
"""


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": cpu}},
    }


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


TAINTED: dict[str, Any] = {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}
CLUSTER = [
    node("small", "2"),
    node("large", "8"),
    node("reserved", **TAINTED),
    pod("old", nodeName="small"),
    pod("new"),
    pod("huge", "100"),
    pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]},
        },
    },
]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(CLUSTER))
    return str(file)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints on stdout when all is well."""
    assert run(["explain", *arguments]) == 0
    return capsys.readouterr().out


def entry(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(printed(capsys, *arguments, "-o", "json"))
    return document


@pytest.mark.parametrize("name", ["new", "huge", "gated", "web-1"])
def test_a_pending_pod_is_the_entry_that_simulate_prints(
    cluster: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Both commands answer the same question, controllers' pods included; what would help is added if nothing fits."""
    assert run(["simulate", "-f", cluster, "--explain", "-o", "json"]) == 0
    simulated = {each["name"]: each for each in json.loads(capsys.readouterr().out)["pods"]}
    found = entry(capsys, name, "-f", cluster)
    assert ("suggestions" in found) == (found["node"] is None)
    found.pop("suggestions", None)
    assert found == simulated[name]


def test_nodes_stand_best_first_with_scores_or_reasons(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The chosen node is marked and stands on top, rejected ones come last; then it is summed up."""
    lines = printed(capsys, "new", "-f", cluster).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["NODE", "large", "small", "reserved"]
    assert lines[1].split()[1] == "*"
    assert "NodeResourcesFit=" in lines[1]
    assert lines[3].split(maxsplit=2)[1:] == ["-", "TaintToleration: node(s) had untolerated taint(s)"]
    assert lines[-2].startswith("default/new goes to large, which scores ")
    assert lines[-2].endswith("the best of 2 nodes that fit (3 nodes in all).")
    assert lines[-1].startswith("Runner-up: small comes second, ")


def test_a_pod_that_fits_nowhere_says_so_as_kube_scheduler_does(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence is the message of the PodScheduled condition."""
    lines = printed(capsys, "huge", "-f", cluster).splitlines()
    want = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    assert [line for line in lines if line.startswith(f"default/huge is pending: {want}")]


def test_what_would_help_is_listed_best_first(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As numbered sentences for people, as whole objects for programs."""
    lines = printed(capsys, "huge", "-f", cluster).splitlines()
    title = lines.index("What would help, the smallest change first:")
    assert lines[title + 1] == "  1. Lower the cpu request from 100 to 7; it then fits on large."
    first = entry(capsys, "huge", "-f", cluster)["suggestions"][0]
    assert first["text"] == lines[title + 1][5:]
    changed = pod("huge", "100")
    changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "7"
    assert first["objects"] == [changed]
    assert entry(capsys, "gated", "-f", cluster)["suggestions"][0]["text"].startswith("Remove the scheduling gate ")


def test_a_bound_pod_learns_what_the_runner_up_lacks(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By how much it is behind, plugin by plugin."""
    second = entry(capsys, "old", "-f", cluster)["runnerUp"]
    assert second["node"] == "large"
    assert sum(second["byPlugin"].values()) == second["gap"] < 0
    assert second["text"] == f"large scores {-second['gap']} more than small and would win today."


def test_a_bound_pod_is_judged_as_if_it_were_pending(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without itself on its node, and without the pods that wait; where it stands is in the sentence."""
    found = entry(capsys, "old", "-f", cluster)
    assert (found["node"], found["message"]) == ("large", None)
    assert {name for name, part in found["explain"].items() if "total" in part} == {"small", "large"}
    line = printed(capsys, "old", "-f", cluster).splitlines()[-2]
    assert line.startswith("default/old is on small, which scores ")
    assert "ranks 2 of 2 that fit; large ranks best now" in line


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param([node("small")], "is on small, which still ranks best of 1 that fit", id="still-best"),
        pytest.param(
            [node("small", **TAINTED), node("other")],
            "is on small, which would reject it now (TaintToleration: node(s) had untolerated taint(s)); "
            "other would be chosen now",
            id="rejects-it-now",
        ),
        pytest.param(
            [node("small", **TAINTED)],
            "nothing else fits: 0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            id="nothing-fits",
        ),
        pytest.param([node("other")], "which no longer exists; other would be chosen now", id="node-gone"),
    ],
)
def test_where_a_bound_pod_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: list[dict[str, Any]], want: str
) -> None:
    """The sentence compares the node of the pod with what would be chosen now."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*nodes, pod("old", nodeName="small")]))
    assert want in printed(capsys, "old", "-f", str(file))


def test_a_scheduler_name_of_nobody_is_said(tmp_path: Path, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a configuration only its profiles answer; without one the default profile answers to every name."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    found = printed(capsys, "new", "-f", cluster, "--config", str(config))
    want = "default/new is pending: no profile has the scheduler name default-scheduler; there are: ours"
    assert found.splitlines()[0] == want
    assert found.splitlines()[-1] == "  1. Set schedulerName to ours; it then fits on large."


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["nwe"], "no pod default/nwe; did you mean default/new?"),
        (["web"], "did you mean default/web-0 or default/web-1"),
        (["new", "-n", "elsewhere"], "no pod elsewhere/new; did you mean default/new?"),
        (["elsewhere/new"], "no pod elsewhere/new; did you mean default/new?"),
        (["qqqqqq"], "no pod default/qqqqqq; check the name and --namespace"),
        (["default/new", "-n", "other"], "POD names the namespace default, --namespace other"),
        (["new", "--kubeconfig", "x"], "--filename and --kubeconfig exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_explained_is_one_line(
    cluster: str, capsys: pytest.CaptureFixture[str], arguments: list[str], want: str
) -> None:
    """Exit code 2, nothing on stdout, one line on stderr with a remedy."""
    assert run(["explain", *arguments, "-f", cluster]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert want in said.err


def test_large_clusters_are_cut_unless_all_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best nodes are shown, and how many more there are."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*(node(f"n{i:02}") for i in range(SHOWN_NODES + 3)), pod("p")]))
    lines = printed(capsys, "p", "-f", str(file)).splitlines()
    assert lines[SHOWN_NODES + 1] == "... and 3 more nodes; --all shows them"
    everything = printed(capsys, "p", "-f", str(file), "--all")
    assert sum(line.startswith("n") for line in everything.splitlines()) == SHOWN_NODES + 3


def test_a_cluster_that_cannot_be_asked_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kubeconfig that is missing is named."""
    assert run(["explain", "p", "--kubeconfig", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert str(tmp_path / "none") in said


EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def failed_scheduling(pods: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """An event about one of the pods."""
    (uid,) = [each["metadata"]["uid"] for each in pods if each["metadata"]["name"] == name]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "no room",
        "reportingController": "moorage",
        "reportingInstance": "moorage-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": uid},
    }


def test_a_live_cluster(empty_control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same answers from a real API server, as a user with the rights of kube-scheduler, and nothing is written."""
    plane = empty_control_plane
    objects = [each for each in CLUSTER if each["kind"] != "Deployment"]
    for each in objects:
        path = "/api/v1/nodes" if each["kind"] == "Node" else "/api/v1/namespaces/default/pods"
        answer = plane.request("POST", path, each)
        assert answer.status == 201, answer.content
    versions = plane.request("GET", "/api/v1/pods").json()
    asked = ["--kubeconfig", str(plane.scheduler_kubeconfig)]
    assert entry(capsys, "new", *asked)["node"] == "large"
    assert entry(capsys, "old", *asked)["node"] == "large"
    assert "0/3 nodes are available" in entry(capsys, "huge", *asked)["message"]
    assert "example.com/wait" in entry(capsys, "gated", *asked)["message"]
    assert "default/old is on small" in printed(capsys, "old", *asked)
    assert "story" not in entry(capsys, "huge", *asked), "kube-scheduler may not list events"
    assert plane.request("POST", EVENTS, failed_scheduling(versions["items"], "huge")).status == 201
    asked_by_admin = ["--kubeconfig", str(plane.admin_kubeconfig)]
    (said,) = entry(capsys, "huge", *asked_by_admin)["story"]
    assert said == {"time": 1767225600.0, "reason": "FailedScheduling", "message": "no room", "count": 1}
    assert "  2026-01-01T00:00:00Z  FailedScheduling: no room\n" in printed(capsys, "huge", *asked_by_admin)
    found = entry(capsys, "huge", *asked)["suggestions"]
    assert found[0]["text"].startswith("Lower the cpu request from 100 to ")
    assert plane.request("GET", "/api/v1/pods").json()["items"] == versions["items"]
    nodes = plane.request("GET", "/api/v1/nodes").json()
    for suggestion in found:
        cluster, change = tmp_path / "cluster.json", tmp_path / "change.json"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [nodes, versions]}))
        change.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": suggestion["objects"]}))
        assert run(["simulate", "-f", str(cluster), "-f", str(change), "-o", "json"]) == 0
        pods = {each["name"]: each for each in json.loads(capsys.readouterr().out)["pods"]}
        assert pods["huge"]["node"] is not None, suggestion["text"]
    assert run(["explain", "nwe", *asked]) == 2
    assert "did you mean default/new?" in capsys.readouterr().err


def test_moves_of_others_that_would_make_room(capsys: pytest.CaptureFixture[str]) -> None:
    """As `simulate --repack` plans them; a pod that fits has none."""
    example = str(Path(__file__).parents[2] / "examples" / "repack.yaml")
    assert run(["explain", "training", "-f", example]) == 0
    said = capsys.readouterr().out
    assert "Repacking would make room with 1 move:\n  default/web-1 from node-1 to node-4\n" in said
    assert run(["explain", "training", "-f", example, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["moves"] == [{"namespace": "default", "name": "web-1", "from": "node-1", "to": "node-4"}]
    assert run(["explain", "web-1", "-f", example, "-o", "json"]) == 0
    assert "moves" not in json.loads(capsys.readouterr().out)
