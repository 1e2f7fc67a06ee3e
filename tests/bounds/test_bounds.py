"""The worst object of each shape: bounded work and memory, told where something is cut off, and gone without a rest."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from moorage.core.commands import RecordEvent
from moorage.core.events import NodeSeen, PodSeen
from moorage.core.invariants import check_invariants
from moorage.core.limits import REASON, RESOURCE_NAMES
from moorage.testing import make_pod
from moorage.wire.node import decode_node
from moorage.wire.pod import decode_pod
from tests.bounds.calls import LEFT_BYTES, MOST_CALLS, MOST_CALLS_OF_OTHERS, calls
from tests.bounds.shapes import AT_LIMIT, NODE_SHAPES, POD_SHAPES, node_json, pod_json
from tests.bounds.world import World

UNLIMITED = frozenset({"owner references", "conditions", "annotations", "resource limits"})
"""Shapes that cost too little to be cut off, or that are cut where nothing depends on it."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(60, pods_per_node=3)
    made.other()  # what is done once in a process, such as the making of values' methods, does not count
    yield made
    check_invariants(made.engine.state)


def cases() -> list[Any]:
    pods = [pytest.param(shape, node, id=f"{shape}-{how}") for shape in POD_SHAPES for node, how in HOW]
    return [*pods, *(pytest.param(shape, None, id=shape) for shape in NODE_SHAPES)]


HOW = ((None, "pending"), ("n1", "bound"))


@pytest.mark.parametrize(("shape", "node"), cases())
def test_the_worst_object_of_a_shape_is_bounded(world: World, shape: str, node: str | None) -> None:
    """It costs few calls when it comes, others pay little while it is there, and nothing is left when it is gone."""
    is_node = shape in NODE_SHAPES
    data = node_json(shape) if is_node else pod_json(shape, node=node)
    assert calls(lambda: world.comes(data, is_node=is_node)) < MOST_CALLS
    assert calls(world.other) < MOST_CALLS_OF_OTHERS
    assert calls(lambda: world.goes(is_node=is_node)) < MOST_CALLS
    world.other()
    gc.collect()
    tracemalloc.start()
    try:
        world.comes(data, is_node=is_node)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 10 * len(data)
        world.goes(is_node=is_node)
        world.other()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LEFT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [shape for shape in POD_SHAPES if shape not in UNLIMITED])
@pytest.mark.parametrize(("node", "how"), HOW, ids=[how for _, how in HOW])
def test_what_is_cut_off_is_told(world: World, shape: str, node: str | None, how: str) -> None:
    """An event names the field; a pending pod is not scheduled."""
    pod = decode_pod(pod_json(shape, node=node, name=f"{shape}-{how}", most=9_000))
    commands, _ = world.engine.handle([PodSeen(pod)], world.now)
    told = [command for command in commands if isinstance(command, RecordEvent) and command.reason == REASON]
    assert len(told) == 1
    assert "at most" in told[0].note
    assert [type(command) for command in commands] == [RecordEvent]
    world.goes(is_node=False, uid=pod.uid)


@pytest.mark.parametrize("shape", [shape for shape in NODE_SHAPES if shape != "node annotations"])
def test_what_is_cut_off_a_node_is_told(world: World, shape: str) -> None:
    """One event names the field, however often the field exists."""
    node = decode_node(node_json(shape, most=9_000))
    commands, _ = world.engine.handle([NodeSeen(node)], world.now)
    told = [command for command in commands if isinstance(command, RecordEvent) and command.reason == REASON]
    assert [(each.kind, each.pod.name, "at most" in each.note) for each in told] == [("Node", node.name, True)]
    assert len(node.excess) == 1
    world.goes(is_node=True)


def test_what_a_kubelet_reports_about_requested_resources_counts() -> None:
    """Other names that are reported before them do not push them out."""
    junk = {f"example.com/s{number}": 1 for number in range(2 * RESOURCE_NAMES)}
    pod = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": {**junk, "cpu": "3"}}]},
    }
    assert dict(decode_pod(msgspec.json.encode(pod)).requests.amounts)["cpu"] == 3000


@pytest.mark.parametrize("shape", AT_LIMIT)
def test_a_pod_at_a_limit_is_decided_with_bounded_work(world: World, shape: str) -> None:
    """It is scheduled as any other, or told by the plugins why not, and never told of a limit."""
    pod = decode_pod(pod_json(shape, most=AT_LIMIT[shape]))
    assert not pod.template.excess
    assert calls(lambda: world.handle(PodSeen(pod))) < MOST_CALLS
    assert calls(world.other) < MOST_CALLS_OF_OTHERS
    world.goes(is_node=False)


def test_counters_of_a_pod_that_is_gone_are_dropped(world: World) -> None:
    """Events of others pay for what is asked, not for what was asked once."""
    world.comes(pod_json("anti-affinity terms", most=AT_LIMIT["anti-affinity terms"]), is_node=False)
    world.goes(is_node=False)
    counts = world.engine.state.pod_counts
    assert len(list(counts.counters())) >= AT_LIMIT["anti-affinity terms"]
    for number in range(9_000):
        world.engine.state.observe_pod(make_pod("churn", node="n1", labels={"app": f"a{number % 3}"}))
    world.engine.state.remove_pod("default/churn")
    assert len(list(counts.counters())) < AT_LIMIT["anti-affinity terms"]
