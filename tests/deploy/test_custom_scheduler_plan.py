"""What `moorage simulate` makes of the custom-scheduler example: the plan that its rules give, on few nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "custom-scheduler"
DEPLOYMENTS = EXAMPLE / "example-deployments.yaml"
SPLIT = EXAMPLE / "example-deployments-split-gang.yaml"
HIGH, LOW, GANG = "high-priority-app", "low-priority-app", "gang-app-a"


def node(number: int) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    name = f"n{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    }


def running(deployment: str, nodes: list[int]) -> list[dict[str, Any]]:
    """Pods of a Deployment of the example that run on these nodes."""
    [owner] = [each for each in yaml.safe_load_all(DEPLOYMENTS.read_text()) if each["metadata"]["name"] == deployment]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": f"uid-{deployment}"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **owner["spec"]["template"]["metadata"],
                "name": f"{deployment}-{index}",
                "namespace": "default",
                "ownerReferences": [{**reference, "controller": True}],
            },
            "spec": {**owner["spec"]["template"]["spec"], "nodeName": f"n{number}"},
            "status": {"phase": "Running"},
        }
        for index, number in enumerate(nodes)
    ]


def simulate(tmp_path: Path, nodes: int, *files: Path, pods: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all([*(node(number + 1) for number in range(nodes)), *(pods or [])]))
    inputs = [argument for file in (cluster, *files) for argument in ("-f", str(file))]
    command = [sys.executable, "-m", "moorage", "simulate", *inputs, "--config", str(EXAMPLE / "config.yaml")]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def placed(outcome: dict[str, Any]) -> Counter[str]:
    """Deployment -> how many of its pods have a node; no node holds two."""
    bound = [pod for pod in outcome["pods"] if pod["node"] is not None]
    assert all(each["pods"] <= 1 for each in outcome["nodes"].values())
    return Counter(pod["name"].rpartition("-")[0] for pod in bound)


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        (1, {HIGH: 1}),
        (2, {HIGH: 1, LOW: 1}),
        (3, {HIGH: 1, LOW: 1}),
        (4, {HIGH: 1, GANG: 3}),
        (5, {HIGH: 1, LOW: 1, GANG: 3}),
    ],
    ids=lambda value: f"{value} nodes" if isinstance(value, int) else "",
)
def test_who_runs_on_so_many_nodes(tmp_path: Path, nodes: int, want: dict[str, int]) -> None:
    """More important first; a gang that does not fit as a whole is passed over."""
    outcome = simulate(tmp_path, nodes, DEPLOYMENTS)
    assert placed(outcome) == want
    assert outcome["evictions"] == []
    assert all(pod["message"] for pod in outcome["pods"] if pod["node"] is None)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_a_gang_over_several_deployments_is_one_gang(tmp_path: Path, nodes: int) -> None:
    outcome = simulate(tmp_path, nodes, SPLIT)
    assert sum(placed(outcome).values()) == (3 if nodes >= 3 else 0)


def test_both_files_together(tmp_path: Path) -> None:
    """Two gangs of three and room for one of them."""
    assert placed(simulate(tmp_path, 3, DEPLOYMENTS, SPLIT)) == {HIGH: 1, LOW: 1}
    four = placed(simulate(tmp_path, 4, DEPLOYMENTS, SPLIT))
    assert four[HIGH] == 1
    assert sum(four.values()) == 4
    assert four[LOW] == 0


def test_low_that_runs_makes_room_for_high_and_the_gang(tmp_path: Path) -> None:
    outcome = simulate(tmp_path, 4, DEPLOYMENTS, pods=running(LOW, [2]))
    assert placed(outcome) == {HIGH: 1, GANG: 3}
    assert outcome["evictions"] == [f"default/{LOW}-0"]


def test_a_running_gang_is_evicted_whole_when_high_arrives(tmp_path: Path) -> None:
    outcome = simulate(tmp_path, 3, DEPLOYMENTS, pods=running(GANG, [1, 2, 3]))
    assert placed(outcome) == {HIGH: 1, LOW: 1}
    assert sorted(outcome["evictions"]) == [f"default/{GANG}-{index}" for index in range(3)]


def test_what_runs_stays_where_it_is(tmp_path: Path) -> None:
    """Nothing is moved when there is room for all."""
    outcome = simulate(tmp_path, 5, DEPLOYMENTS, pods=[*running(GANG, [5, 3, 1]), *running(LOW, [2])])
    assert placed(outcome) == {HIGH: 1}
    assert outcome["evictions"] == []
