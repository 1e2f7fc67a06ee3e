"""`moorage keeper` as an operator runs it: probes, dry run, leader election, and a start that fails with one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.engine.keeping import marks
from tests.app.keepers import NOTICE, get, keeper, make_member, pods_left
from tests.app.scheduling import make_node
from tests.patience import eventually


def node_of(plane: ControlPlane, name: str) -> dict[str, Any]:
    """The node as the API server has it."""
    node: dict[str, Any] = plane.request("GET", f"/api/v1/nodes/{name}").json()
    return node


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> ControlPlane:
    """Two nodes, and a pod on the first of them."""
    make_node(empty_control_plane, "goes")
    make_node(empty_control_plane, "stays")
    make_member(empty_control_plane, "web-1", "goes")
    return empty_control_plane


def test_a_pod_leaves_a_node_that_goes(plane: ControlPlane, tmp_path: Path) -> None:
    """Cordoned, marked and evicted; the metrics say so; readiness needs filled caches only."""
    with keeper(plane, tmp_path / "log") as metrics_url:
        assert plane.request("PATCH", "/api/v1/nodes/goes", NOTICE).status == 200
        eventually(lambda: pods_left(plane) == [], 30, "the pod is evicted")
        node = node_of(plane, "goes")
        assert node["spec"]["unschedulable"] is True
        assert node["metadata"]["annotations"][marks.CORDONED] == "true"
        _, text = get(metrics_url)
        assert "moorage_keeper_leaving_nodes 1.0" in text
        assert 'moorage_keeper_evictions_total{cause="fallback",outcome="evicted"} 1.0' in text


def test_a_dry_run_says_what_it_would_do_and_does_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """One line for each thing, once."""
    log = tmp_path / "log"
    with keeper(plane, log, "--dry-run"):
        version = node_of(plane, "stays")["metadata"]["resourceVersion"]
        assert plane.request("PATCH", "/api/v1/nodes/goes", NOTICE).status == 200
        eventually(lambda: "would evict pod default/web-1 from node goes" in log.read_text(), 30, "the line is printed")
    lines = [line for line in log.read_text().splitlines() if line.startswith("would ")]
    assert [line.split(":")[0] for line in lines] == [
        "would cordon node goes",
        "would evict pod default/web-1 from node goes (fallback); there is room on node stays",
    ]
    assert pods_left(plane) == ["web-1"]
    assert "unschedulable" not in node_of(plane, "goes")["spec"]
    assert node_of(plane, "stays")["metadata"]["resourceVersion"] == version


def test_of_two_keepers_one_acts(plane: ControlPlane, tmp_path: Path) -> None:
    """The standby is ready all the same, and takes over what is left when the first one ends."""
    second = tmp_path / "second"
    with keeper(plane, tmp_path / "first", "--leader-elect") as first_url:
        eventually(lambda: _leads(first_url), 30, "the first one leads")
        standby = keeper(plane, second, "--leader-elect")
        with standby as second_url:
            assert not _leads(second_url)
            assert plane.request("PATCH", "/api/v1/nodes/goes", NOTICE).status == 200
            eventually(lambda: pods_left(plane) == [], 30, "the pod is evicted")
            assert "evict pod" not in second.read_text()
    plane.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/moorage-keeper")


def _leads(url: str) -> bool:
    return 'leader_election_master_status{name="moorage-keeper"} 1.0' in get(url)[1]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--kubeconfig", "/nowhere"], "no such file", id="no kubeconfig"),
        pytest.param(["--metrics-listen", "here"], "--metrics-listen: 'here' is not an address", id="no address"),
        pytest.param(["--config", "keeper.yaml"], "returnsAtOnce: -1: must be 0 or more", id="configuration"),
    ],
)
def test_a_keeper_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], want: str
) -> None:
    """One line on stderr and exit code 2, never a traceback."""
    monkeypatch.chdir(tmp_path)
    document = "apiVersion: moorage.dev/v1alpha1\nkind: KeeperConfiguration\nreturnsAtOnce: -1\n"
    (tmp_path / "keeper.yaml").write_text(document)
    command = [sys.executable, "-m", "moorage", "keeper", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    errors = [line for line in run.stderr.splitlines() if line.startswith("error:")]
    assert run.returncode == 2, run.stderr
    assert len(errors) == 1, run.stderr
    assert want in errors[0], errors
