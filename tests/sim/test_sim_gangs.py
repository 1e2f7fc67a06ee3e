"""Gangs among single pods of the same priority: the older unit goes first."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from tests.sim.simulating import places, run

NODES = [node_manifest("n1", cpu="4"), node_manifest("n2", cpu="4")]


def created(second: int, pod: dict[str, Any]) -> dict[str, Any]:
    stamp = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": stamp}}


def member(name: str, gang: str = "g", size: int = 2) -> dict[str, Any]:
    said = {"pod-group": gang, "moorage.dev/pod-group-min-available": str(size)}
    return pod_manifest(name, cpu="4", annotations=said)


SINGLE = pod_manifest("single", cpu="4")


@pytest.mark.parametrize(
    ("objects", "want_waiting"),
    [
        pytest.param(
            [created(50, SINGLE), created(0, member("g-0")), created(0, member("g-1"))], {"single"}, id="older gang"
        ),
        pytest.param(
            [created(0, member("g-0")), created(0, member("g-1")), created(50, SINGLE)], {"single"}, id="in order"
        ),
        pytest.param(
            [created(50, SINGLE), created(0, member("g-0")), created(90, member("g-1"))],
            {"single"},
            id="as old as its first member",
        ),
        pytest.param(
            [created(0, SINGLE), created(50, member("g-0")), created(50, member("g-1"))],
            {"g-0", "g-1"},
            id="older pod",
        ),
        pytest.param([member("g-0"), SINGLE, member("g-1")], {"single"}, id="same age, first in the file"),
        pytest.param(
            [created(9, member("h-0", "h")), created(9, member("h-1", "h")), member("g-1"), created(8, member("g-0"))],
            {"h-0", "h-1"},
            id="two gangs",
        ),
    ],
)
def test_of_two_units_of_equal_priority_the_older_goes_first(
    objects: list[dict[str, Any]], want_waiting: set[str]
) -> None:
    """Two nodes have room for the gang or for the other unit, not for both."""
    placed = places(run([*NODES, *objects]))
    assert {key.partition("/")[2] for key, node in placed.items() if node is None} == want_waiting
