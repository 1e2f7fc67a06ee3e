"""Files of a cluster with the configuration of the example custom-scheduler: who runs, who waits, who goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import read_configuration
from tests.sim.simulating import run

FILE = Path(__file__).parents[2] / "deploy/examples/custom-scheduler/config.yaml"
TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}
SSD = {"disk": "ssd"}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "nobody-made-it"}}


def plain(count: int, first: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [node_manifest(f"n{number}", **fields) for number in range(first, first + count)]


def planned(name: str, priority: int, gang: str | None = None, **spec: Any) -> dict[str, Any]:
    said = {"priority": str(priority)} | ({"pod-group": gang} if gang else {})
    return pod_manifest(name, annotations=said, **{"schedulerName": "custom-scheduler", "cpu": "10m", **spec})


def gang(size: int, priority: int = 100, **spec: Any) -> list[dict[str, Any]]:
    return [planned(f"g-{number}", priority, "g", **spec) for number in range(size)]


def small(*names: str, **spec: Any) -> list[dict[str, Any]]:
    return [planned(name, 1, **spec) for name in names]


def simulated(objects: list[dict[str, Any]]) -> SimulationOutcome:
    registry = Registry(BUILTIN)
    found = read_configuration(FILE.read_bytes(), "config.yaml", registry).configuration
    assert found is not None
    return run(objects, SimulationRules(build_profiles(found, registry), EngineSettings()))


class Case(NamedTuple):
    """A cluster, and what must come of it: who gets a node, and who goes; everybody else waits."""

    objects: list[dict[str, Any]]
    runs: set[str]
    goes: frozenset[str] = frozenset()


CASES = {
    "a claim that nobody made": Case([*plain(2), *gang(2, volumes=[CLAIM]), *small("l1", "l2")], {"l1", "l2"}),
    "a gang of which one pod too many has a selector": Case(
        [*plain(2, labels=SSD), *plain(1, 2), *gang(3, nodeSelector=SSD), *small("l1", "l2", "l3")], {"l1", "l2", "l3"}
    ),
    "one that fits nowhere before two that take the nodes": Case(
        [
            *plain(2),
            planned("ghost", 200, nodeSelector={"disk": "sssd"}),
            planned("mid", 50),
            planned("mid2", 50),
            *small("l1", nodeName="n0"),
            *small("l2", nodeName="n1"),
        ],
        {"mid", "mid2"},
        frozenset({"l1", "l2"}),
    ),
    "a gang on tolerated taints": Case([*plain(3, taints=[TEAM]), *gang(3, tolerations=[TEAM])], {"g-0", "g-1", "g-2"}),
    "a gang, and a taint that only one of its pods tolerates": Case(
        [*plain(1, taints=[TEAM]), *plain(1, 1), planned("g-0", 9, "g", tolerations=[TEAM]), planned("g-1", 9, "g")],
        {"g-0", "g-1"},
    ),
    "one pod of another scheduler that is less important": Case(
        [*plain(2), *gang(2), pod_manifest("d", schedulerName="default-scheduler", nodeName="n0", cpu="3999m")],
        {"g-0", "g-1"},
        frozenset({"d"}),
    ),
    "one pod of another scheduler that is more important": Case(
        [
            *plain(2),
            *gang(2),
            pod_manifest("d", schedulerName="default-scheduler", nodeName="n0", cpu="3999m", priority=1000),
            *small("l1"),
        ],
        {"l1"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_can_start_on_no_nodes_holds_none(case: Case) -> None:
    """Nodes that a unit cannot use do not count for it; those that it can use with others gone do."""
    outcome = simulated(case.objects)
    assert {story.name for story in outcome.pods if story.node is not None} == case.runs
    assert {*outcome.evictions} == {f"default/{name}" for name in case.goes}


def test_without_nodes_nobody_comes_first() -> None:
    """The words are those of an empty cluster, for gangs and for pods."""
    outcome = simulated([*gang(2), *small("l1")])
    messages = {story.name: story.message for story in outcome.pods}
    assert set(messages) == {"g-0", "g-1", "l1"}
    assert all(message and "no nodes available to schedule pods" in message for message in messages.values())
    assert not any("come first" in str(message) for message in messages.values())
