"""Repacking on the real API server, small: a gang gets whole nodes by moves only, and a killed keeper loses no pod.

`make repack` plays it with 300 nodes of a trace, and compares it with the descheduler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.app.spot_drill import running
from tests.controlplane_fixtures import PlaneFactory
from tests.repack.harbour import Harbour, harbour, packing
from tests.repack.leftover import NAMESPACE, Leftover, workload

GANG = 8
NODES = 12
KEEPER = {
    "apiVersion": "moorage.dev/v1alpha1",
    "kind": "KeeperConfiguration",
    "moveAgainAfter": "1s",
    "repack": {"aims": ["Room"], "movesAtOnce": 2, "movesPerHour": 100, "settleAfter": "1s"},
}


def scattered() -> Leftover:
    """A pod of a quarter of a node on each of twelve nodes, of four workloads with budgets."""
    have = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    nodes = [
        {
            "metadata": {"name": f"n{i:02}", "labels": {"kubernetes.io/hostname": f"n{i:02}"}},
            "status": {"allocatable": have},
        }
        for i in range(NODES)
    ]
    owners, budgets, pods = [], [], []
    for number in range(4):
        homes = [f"n{i:02}" for i in range(number, NODES, 4)]
        made = workload(f"w{number}", {"cpu": "1", "memory": "1Gi"}, homes, scheduler="moorage")
        owners.append(made.owner)
        budgets.append(made.budget)
        pods += made.pods
    return Leftover(nodes, owners, budgets, pods)


def member(number: int) -> dict[str, Any]:
    """One of a gang that wants a whole node each."""
    container = {"name": "c", "image": "registry.example/t:1", "resources": {"requests": {"cpu": "4"}}}
    terms = {"pod-group": "train", "moorage.dev/pod-group-min-available": str(GANG)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"train-{number}", "annotations": terms, "labels": {"app": "train"}},
        "spec": {"schedulerName": "moorage", "containers": [container]},
    }


@pytest.mark.parametrize("killed", [False, True], ids=["", "the keeper is killed meanwhile"])
def test_a_gang_gets_whole_nodes_by_moves_only(
    fresh_control_plane: PlaneFactory, tmp_path: Path, *, killed: bool
) -> None:
    """It fits nowhere at first; then pods move one after the other under their budgets, and none is lost."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump_all([{**packing("moorage"), "leaderElection": {"leaderElect": False}}, KEEPER]))
    keeper = ("keeper", "--config", str(config), "--metrics-listen", "", "--health-listen", "")
    plane = fresh_control_plane()
    with harbour(plane) as there, running(plane, tmp_path, "scheduler", "--config", str(config), "--secure-port", "0"):
        there.fill(scattered())
        for number in range(GANG):
            answer = plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", member(number))
            assert answer.status == 201, answer.content
        with running(plane, tmp_path, *keeper) as process:
            if killed:
                there.wait(lambda: there.moved > GANG, 120, "the first move")
                process.kill()
                process.wait(20)
                with running(plane, tmp_path, *keeper):
                    _starts(there)
            else:
                _starts(there)
        assert there.broken() == []
        where = there.witness.where()
        assert sum(where.values()) == NODES + GANG, "no pod was lost"
        if not killed:
            assert there.moved - GANG == GANG, "as many moves as whole nodes"


def _starts(there: Harbour) -> None:
    there.wait(lambda: there.healthy() == NODES + GANG and not there.pending(), 180, "the gang runs")
    there.wait(lambda: not _closed(there), 60, "every node is open")


def _closed(there: Harbour) -> list[str]:
    nodes = there.plane.request("GET", "/api/v1/nodes").json()["items"]
    return [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
