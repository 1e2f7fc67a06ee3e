"""What has come and gone is freed at once: objects that refer to each other would wait for the collector.

The scheduler's collector runs rarely (docs/decisions/0004). Whatever it has to find is memory that grows until then,
with the pods, templates and kept answers that such objects still refer to.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from moorage.bench.core import WORKLOADS, equip, make_engine
from moorage.core.events import Event, PodGone, PodSeen
from moorage.engine.engine import Engine

NODES = 48
PODS = 48


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _come_and_go(workload: str) -> Engine:
    chosen = WORKLOADS[workload]
    engine = make_engine(NODES, 0, chosen.shared)
    pods = list(chosen.pods(PODS))
    echo = equip(engine, chosen, NODES, pods)
    gc.collect()
    events: list[Event] = [PodSeen(pod) for pod in pods]
    now = 0.0
    while events:
        now += 1.0
        commands, _ = engine.handle(events, now)
        events = echo.events(commands)
    assert engine.state.pod_count == PODS
    engine.handle([PodGone(pod.uid) for pod in pods], now + 1.0)
    engine.handle([], now + 2.0)
    assert engine.state.pod_count == 0
    return engine


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("workload", ["mixed", "gangs", "devices", "shares", "queues"])
def test_pods_that_are_gone_leave_nothing_to_collect(workload: str) -> None:
    """The collector finds as much as before they came: nothing, of an engine that lives on."""
    _come_and_go(workload)  # what is made at first use
    engine = _come_and_go(workload)
    assert gc.collect() == 0
    assert len(engine.queue) == 0
