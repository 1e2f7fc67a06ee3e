"""The published trace without its GPUs: how much cpu and memory a profile allocates when pods arrive one by one.

    python -m tests.sim.openb_plain [--seed 42] [--profile default|packing|fragmentation]

All nodes of the trace with their cpu and memory, and its pods with theirs, in a published order of arrival, from the
start again until they have asked for as much cpu as there is. A pod that does not fit when it arrives is not placed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.commands import Bind
from moorage.core.events import BindDone, BindOutcome, NodeSeen, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.framework.contract import TellsIdle
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.rules import rules_of
from moorage.testing import make_node, make_pod
from moorage.wire.configuration import read_configuration

TRACE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "openb"
_SPREADING = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")

PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "packing": {
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
        ],
    },
    "fragmentation": {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Fragmentation", "weight": 20}]},
            "score": {"disabled": [{"name": name} for name in _SPREADING]},
        },
    },
}


class Figures(NamedTuple):
    """When pods have asked for all cpu."""

    profile: str
    seed: int
    pods: int
    placed: int
    cpu_percent: float
    memory_percent: float
    idle_cores: float
    unusable_cores: float | None
    """Of the idle ones, by Fragmentation's own measure."""


def arrivals(seed: int) -> list[int]:
    """Row numbers of pods in their order."""
    with gzip.open(TRACE / "arrivals.csv.gz", "rt") as file:
        for line in file:
            number, what, rows = line.strip().split(",", 2)
            if (number, what) == (str(seed), "pods"):
                return [int(row) for row in rows.split(",")]
    raise ValueError(f"no arrivals of seed {seed}")


def engine_of(profile: str, seed: int) -> Engine:
    """An engine with the nodes of the trace."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **PROFILES[profile]}],
    }
    reading = read_configuration(json.dumps(document).encode(), profile, Registry(BUILTIN))
    assert not reading.problems, reading.problems
    rules = rules_of(reading, seed, answers_to_all=True)
    engine = Engine(rules.profiles, rules.settings, answers_to_all=True)
    with (TRACE / "nodes.csv").open() as file:
        nodes = [*csv.DictReader(file)]
    engine.handle(
        [
            NodeSeen(make_node(node["sn"], cpu=f"{node['cpu_milli']}m", memory=f"{node['memory_mib']}Mi", pods=1000))
            for node in nodes
        ],
        0.0,
    )
    return engine


def pods_of(seed: int) -> Iterator[Pod]:
    """Pods for ever."""
    with (TRACE / "pods.csv").open() as file:
        tasks = [*csv.DictReader(file)]
    for number, row in enumerate(cycle(arrivals(seed))):
        task = tasks[row]
        yield make_pod(f"p{number}", cpu=f"{task['cpu_milli']}m", memory=f"{task['memory_mib']}Mi")


def measured(profile: str, seed: int) -> Figures:
    """Let pods arrive until they have asked for all cpu."""
    engine = engine_of(profile, seed)
    resources, rows = engine.state.resources, engine.state.rows()
    offered = resources.allocatable[:, rows].sum(axis=1)
    asked = arrived = placed = 0
    for pod in pods_of(seed):
        need = dict(pod.requests.amounts)["cpu"]
        if asked + need > offered[CPU_COLUMN]:
            break
        asked, arrived = asked + need, arrived + 1
        commands, _ = engine.handle([PodSeen(pod)], float(arrived))
        bound = [command for command in commands if isinstance(command, Bind)]
        placed += len(bound)
        engine.handle([BindDone(each.pod.uid, BindOutcome.BOUND, each.node) for each in bound], float(arrived))
    taken = resources.requested[:, rows].sum(axis=1)
    percent = np.round(100.0 * taken / np.maximum(offered, 1), 2)
    plugin = next((found for runner in engine.runners.values() if (found := runner.plugins.first(TellsIdle))), None)
    unusable = None if plugin is None else round(plugin.idle(engine.state)["cpu"].unusable, 1)
    idle = float(offered[CPU_COLUMN] - taken[CPU_COLUMN]) / 1000
    shares = float(percent[CPU_COLUMN]), float(percent[MEMORY_COLUMN])
    return Figures(profile, seed, arrived, placed, *shares, round(idle, 1), unusable)


def main() -> None:
    """Print a line of JSON for each profile and seed."""
    parser = argparse.ArgumentParser(description="Allocate cpu and memory of the trace without GPUs.")
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--profile", choices=[*PROFILES], action="append", default=[])
    options = parser.parse_args()
    for seed in options.seed or [42]:
        for profile in options.profile or [*PROFILES]:
            print(json.dumps(measured(profile, seed)._asdict()), flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    main()
