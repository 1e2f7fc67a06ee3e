"""The series of the charts: what a world was told, over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.capacity import Capacity
from moorage.core.events import NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.pods import Condition, Owner, Pod
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from moorage.engine.units import Place
from moorage.testing.builders import make_node, make_pod
from moorage.views.chartpage import charts_page
from moorage.views.pending import reason_of
from moorage.views.rings import Rings
from moorage.views.series import MOST_REASONS, MOST_RESOURCES, OTHER_REASONS
from moorage.views.words import Happening, HappeningKind
from moorage.views.world import QueueEntry, QueueTold, Settled, Told, World
from tests.dashboard.hours import lived
from tests.dashboard.serving import reading_of

T = 1_790_000_000.0
CAPACITY = "node.kubernetes.io/capacity"
GPU = "nvidia.com/gpu"
NODES = [
    NodeSeen(make_node("n1", cpu="4", memory="8Gi", labels={CAPACITY: "spot"}, resources={GPU: "2"})),
    NodeSeen(make_node("n2", cpu="4", memory="8Gi", labels={CAPACITY: "on-demand"})),
]


def world_of(*told: Iterable[Told]) -> World:
    """A world that was told the nodes at second 0, and then this, second by second."""
    world = World(reading_of().profiles, answers_to_all=True)
    world.tell([*NODES, Settled()], T)
    for second, each in enumerate(told, start=1):
        world.tell(each, T + second)
    return world


def charts(world: World, now_s: float, **asked: Any) -> dict[str, Any]:
    world.series.measure(now_s)
    return charts_page(world.series, asked.get("since_s", 0.0), 1e11, asked.get("most", 1000), asked.get("step_s", 0.0))


def bound(pod: Pod, node: str = "n1") -> Pod:
    return replace(pod, node=node, phase="Running", scheduled_condition=None)


def refused(name: str, message: str) -> Pod:
    condition = Condition("PodScheduled", "False", "Unschedulable", message)
    return replace(make_pod(name, cpu="1", created_s=T), scheduled_condition=condition)


def of(found: dict[str, Any], name: str) -> dict[str, Any]:
    resource: dict[str, Any] = next(each for each in found["resources"] if each["name"] == name)
    return resource


def test_requests_of_all_pods_and_of_those_on_nodes() -> None:
    """A pending pod requests, and is not allocated; one that is gone is neither."""
    a, b = make_pod("a", cpu="1", requests={GPU: 1}, created_s=T), make_pod("b", cpu="2", memory="1Gi", created_s=T)
    found = charts(world_of([PodSeen(a)], [PodSeen(b)], [PodSeen(bound(a))], [], [PodGone(b.uid)], []), T + 6.5)
    assert of(found, "cpu")["capacity"] == [8000] * 7
    assert of(found, "cpu")["requested"] == [0, 1000, 3000, 3000, 3000, 1000, 1000]
    assert of(found, "cpu")["allocated"] == [0, 0, 0, 1000, 1000, 1000, 1000]
    assert of(found, GPU)["allocated"] == [0, 0, 0, 1, 1, 1, 1]
    assert of(found, "memory")["requested"][3] == 1 << 30
    assert [each["name"] for each in found["resources"]] == ["cpu", "memory", GPU]
    assert found["nodes"] == [2] * 7
    assert found["times"][:2] == [T + 1, T + 2]


def test_a_node_that_offers_something_else_all_the_time_leaves_little_behind() -> None:
    """A kubelet may name what it likes, every second; the charts of what others offer stay."""
    others = ({f"example.com/{number}-{each}": "1" for each in range(9)} for number in range(60))
    world = world_of(*([NodeSeen(make_node("n3", resources=names))] for names in others))
    assert len(world.series.rings.gauges()) <= 3 * 2 * MOST_RESOURCES + 10
    for number in range(9):  # of a journal, each process that begins makes a world of its own
        after = World(reading_of().profiles, answers_to_all=True, rings=world.series.rings)
        after.tell([*NODES, NodeSeen(make_node("n3", resources={f"example.com/{number}": "1"}))], T + 60)
        after.series.measure(T + 60)
    assert len(world.series.rings.gauges()) <= 3 * 2 * MOST_RESOURCES + 10
    found = charts(world, T + 60)
    assert [each["name"] for each in found["resources"][:3]] == ["cpu", "memory", GPU]
    assert of(found, GPU)["capacity"] == [2] * len(found["times"])


def test_a_resource_that_no_node_offers_has_no_chart() -> None:
    """Tenants may request whatever they want."""
    found = charts(world_of([PodSeen(make_pod("a", requests={"example.com/unheard-of": 1}))]), T + 2)
    assert [each["name"] for each in found["resources"]] == ["cpu", "memory", GPU]


def test_binds_evictions_and_how_long_pods_waited() -> None:
    """Of the minute before; percentiles are exact to the interval in which waiting times are counted."""
    pods = [make_pod(f"p{number}", cpu="1m", created_s=T) for number in range(10)]
    told: list[list[Told]] = [[PodSeen(pod) for pod in pods], [], [PodSeen(bound(pod)) for pod in pods[:5]]]
    told += [[PodGone(pods[0].uid), Happening(T + 4, HappeningKind.EVICTED, "Pod", "default/p0", {})]]
    told += [[] for _ in range(65)] + [[PodSeen(bound(pod)) for pod in pods[5:]]]
    found = charts(world_of(*told), T + 200)
    assert found["binds"][:6] == [0, 0, 0, 75, 60, 50]
    assert found["binds"][59:71] == [5] * 4 + [0] * 7 + [5]
    assert found["evictions"][59:71] == [1] * 5 + [0] * 7
    waited = found["waited"]
    assert waited["p50"][:3] == [None] * 3
    assert waited["p50"][3:63] == [pytest.approx(2.0, rel=0.25)] * 60
    assert waited["p50"][63:69] == [None] * 6
    assert waited["p99"][70] == pytest.approx(69.0, rel=0.25)


def test_minutes_of_a_range_that_begins_later() -> None:
    """What happened in the minute before the range counts; so new points are what they are in the whole."""
    world, life = lived(T, 0.1)
    whole = charts(world, life.now_s)
    part = charts(world, life.now_s, since_s=whole["times"][-50], step_s=whole["step"])
    for name in ("binds", "evictions", "times"):
        assert part[name] == whole[name][-49:]
    assert part["waited"] == {name: values[-49:] for name, values in whole["waited"].items()}


def test_all_percentiles_of_a_longer_interval() -> None:
    """Intervals that are merged have the percentiles of all their pods."""
    pods = [make_pod(f"p{number}", cpu="1m", created_s=T) for number in range(100)]
    told: list[list[Told]] = [[PodSeen(pod) for pod in pods], [PodSeen(bound(pod)) for pod in pods[:90]]]
    told += [[] for _ in range(50)] + [[PodSeen(bound(pod)) for pod in pods[90:]]]
    found = charts(world_of(*told), T + 54, step_s=3600.0)
    assert found["waited"]["p50"] == [pytest.approx(1.0, rel=0.25)]
    assert found["waited"]["p95"] == [pytest.approx(52.0, rel=0.25)]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(replace(bound(make_pod("a", created_s=T + 0.5)), scheduled_s=T + 0.9), 1, id="bound unseen"),
        pytest.param(replace(bound(make_pod("a", created_s=T - 9)), scheduled_s=T - 5), 0, id="bound before"),
        pytest.param(
            replace(bound(make_pod("a", owner=Owner("Node", "n1", "uid", "v1"))), scheduled_s=T + 1), 0, id="static"
        ),
        pytest.param(bound(make_pod("a")), 0, id="nobody knows when"),
    ],
)
def test_pods_that_are_first_seen_on_a_node(pod: Pod, want: int) -> None:
    """They were bound if that was after the world began to look, and not by the kubelet itself."""
    found = charts(world_of([PodSeen(pod)]), T + 2)
    assert max(each or 0 for each in found["binds"]) == want * 60


@pytest.mark.parametrize(
    ("place", "message", "want"),
    [
        pytest.param(Place.ACTIVE, "not tried yet by moorage", "not tried yet", id="new"),
        pytest.param(Place.GATED, "waits for the gates a, b", "scheduling gates", id="gates"),
        pytest.param(Place.IN_FLIGHT, "0/1 nodes are available: 1 x.", "being bound", id="on its way"),
        pytest.param(Place.BACKOFF, "plugin failed: boom", "backing off after an error", id="an error"),
        pytest.param(Place.UNSCHEDULABLE, "", "fits nowhere, without a reason", id="nothing said"),
        pytest.param(
            Place.UNSCHEDULABLE,
            "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient cpu. preemption: 0/5 nodes are "
            "available: 5 No preemption victims found for incoming pod.",
            "Insufficient cpu",
            id="the reason of most nodes",
        ),
        pytest.param(
            Place.UNSCHEDULABLE,
            "waits for room on n1; 0/5 nodes are available: 3 node(s) had a, b and c, 2 Too many pods.",
            "node(s) had a, b and c",
            id="a reason with a comma",
        ),
        pytest.param(
            Place.UNSCHEDULABLE,
            "0/5 nodes are available: 5 node(s) had untolerated taint {example.com/a.b: c}.",
            "node(s) had untolerated taint {example.com/a.b: c}",
            id="points inside",
        ),
        pytest.param(Place.UNSCHEDULABLE, "0/5 nodes are available: gang a waits.", "gang a waits", id="no number"),
        pytest.param(
            Place.UNSCHEDULABLE, "0/5 nodes are available: ", "fits nowhere, without a reason", id="no reason"
        ),
        pytest.param(
            Place.UNSCHEDULABLE, f"0/1 nodes are available: 1 {'x' * 5000}", "x" * 120, id="longer than anybody reads"
        ),
    ],
)
def test_reasons_that_many_pods_share(place: Place, message: str, want: str) -> None:
    """The one for which most nodes were rejected, or where the pod waits."""
    assert reason_of(place, message) == want


def test_pending_pods_by_reason() -> None:
    """Each pod counts for one reason; it changes with what the scheduler says, also if that is told as a whole."""
    a, b = make_pod("a", created_s=T), refused("b", "0/2 nodes are available: 2 Insufficient cpu.")
    again = QueueEntry(a.uid, Place.UNSCHEDULABLE, 1, T, "0/2 nodes are available: 2 Too many pods.")
    found = charts(world_of([PodSeen(a), PodSeen(b)], [QueueTold((again,))], [PodGone(b.uid)]), T + 4)
    waiting = {each["name"]: each["values"] for each in found["waiting"]}
    assert waiting == {
        "not tried yet": [None, 1, 0, 0, 0],
        "Insufficient cpu": [None, 1, 1, 0, 0],
        "Too many pods": [None, None, 1, 1, 1],
    }


def test_reasons_are_bounded() -> None:
    """However many there are, the frequent ones have a series and the others are added up; the sum stays right."""
    world = world_of()
    uids: list[str] = []
    for second in range(1, 60):
        pods = [refused(f"p{second}-{n}", f"0/2 nodes are available: 2 reason {second}-{n}.") for n in range(5)]
        gone = [PodGone(uid) for uid in uids[-40:-35]]
        uids += [pod.uid for pod in pods]
        world.tell([*map(PodSeen, pods), *gone], T + second)
    found = charts(world, T + 60)
    assert len(found["waiting"]) <= MOST_REASONS + 1
    assert OTHER_REASONS in {each["name"] for each in found["waiting"]}
    assert sum(each["values"][-1] or 0 for each in found["waiting"]) == len(world.waiting)
    assert len(world.series.rings.gauges()) < 40


def test_spot_share_and_cost() -> None:
    """The share of CPU requests on spot nodes; nodes in use at their price, and at that of on-demand nodes."""
    prices = PriceList("p", "EUR", (PriceRule(3_000_000), PriceRule(1_000_000, capacity=Capacity.SPOT)))
    a, b = make_pod("a", cpu="3"), make_pod("b", cpu="1")
    told: list[list[Told]] = [[ObjectSeen(PRICE_LIST, "p", prices)], [PodSeen(bound(a))], [PodSeen(bound(b, "n2"))], []]
    found = charts(world_of(*told), T + 5)
    assert found["spot"] == [None, None, 1, 0.75, 0.75, 0.75]
    assert found["cost"]["currency"] == "EUR"
    assert found["cost"]["total"] == [None, 0, 1_000_000, 4_000_000, 4_000_000, 4_000_000]
    assert found["cost"]["on_demand"][-1] == 6_000_000


def test_leaders() -> None:
    """Who led before the range counts too, as far as it is known."""
    told = [
        [Happening(T + at_s, HappeningKind.LEASE, "Lease", "ns/moorage", {"holder": holder})]
        for at_s, holder in ((1, "a"), (2, ""), (3, "b"))
    ]
    found = charts(world_of(*told), T + 4, since_s=T + 2.5)
    assert [(each["at_s"] - T, each["holder"]) for each in found["leaders"]] == [(2.0, ""), (3.0, "b")]


def test_nothing_is_counted_twice_and_pods_leave_no_trace() -> None:
    """After hours of life, sums that were kept equal what is there."""
    world, life = lived(T, 0.3)
    pending = world.series.pending
    assert pending.reasons.total() == len(world.waiting) == len(pending._waits)
    for name in ("cpu", "memory", GPU):
        assert pending.requested[name] == sum(pod.requests.get(name) for pod in world.waiting.values())
    found = charts(world, life.now_s, most=2, step_s=36_000.0)
    assert sum(each or 0 for each in found["binds"]) > 0
    world.tell([PodGone(uid) for uid in list(world.pods)], life.now_s + 1)
    assert (pending.reasons, pending.requested, pending._waits) == ({}, {}, {})


def test_a_world_without_time_has_empty_charts() -> None:
    """Nothing was told yet."""
    world = World(reading_of().profiles, answers_to_all=True, rings=Rings())
    found = charts_page(world.series, 0.0, 1e11, 100)
    assert (found["times"], found["span"], found["resources"], found["waiting"]) == ([], None, [], [])
