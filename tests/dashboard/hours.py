"""Hours in the life of a cluster, for charts: pods that come in waves, wait, run and end, spot nodes, two leaders."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from moorage.adapters.dashboard.backend import DashboardBackend, Surroundings
from moorage.adapters.dashboard.security import Guard
from moorage.adapters.dashboard.server import BOUNDS, application
from moorage.adapters.listening import listening
from moorage.core.capacity import Capacity
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen, TermBegan
from moorage.core.pods import Condition, Pod
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from moorage.testing.builders import make_node, make_pod
from moorage.views.words import Happening, HappeningKind
from moorage.views.world import Settled, Told, World
from tests.adapters.journal.recording import RecordedEngine
from tests.dashboard.serving import in_thread, reading_of

CAPACITY = "node.kubernetes.io/capacity"
GPU = "nvidia.com/gpu"
HOUR_S = 3600.0
_STEP_S = 5.0
_RECORDED_STEP_S = 10.0
BEGAN_S = 1_790_000_000.0
_MESSAGES = (
    "0/40 nodes are available: 28 Insufficient cpu, 12 node(s) had untolerated taint(s).",
    "0/40 nodes are available: 40 Insufficient memory.",
    f"0/40 nodes are available: 36 Insufficient {GPU}, 4 node(s) were unschedulable.",
)


def cluster() -> list[Told]:
    """40 nodes, of which 16 are spot capacity and 8 have GPUs, and what they cost."""
    nodes = [
        make_node(
            f"node-{i:02}",
            cpu="16",
            memory="64Gi",
            zone=f"zone-{'abc'[i % 3]}",
            labels={CAPACITY: "spot" if i % 5 < 2 else "on-demand"},
            resources={GPU: "8"} if i % 5 == 4 else {},
        )
        for i in range(40)
    ]
    rules = (PriceRule(680_000), PriceRule(210_000, capacity=Capacity.SPOT))
    return [*map(NodeSeen, nodes), ObjectSeen(PRICE_LIST, "list", PriceList("list", "USD", rules))]


class Life:
    """Tells a world what happens, step by step; same seed, same life."""

    def __init__(self, began_s: float, seed: int = 7) -> None:
        self.now_s = began_s
        self._began_s = began_s
        self._rng = Random(seed)
        self._number = 0
        self._ends: list[tuple[float, str]] = []
        self._starts: list[tuple[float, str]] = []
        self._pods: dict[str, Pod] = {}

    def step(self) -> list[Told]:
        """What happens within the next seconds."""
        self.now_s += _STEP_S
        hours = (self.now_s - self._began_s) / HOUR_S
        busy = 1.3 + 0.7 * math.sin(hours * 1.3) + (1.2 if 3.6 < hours < 4.1 else 0.0)
        told = [*self._arrivals(busy), *self._binds(), *self._endings()]
        if int(self.now_s - self._began_s) in (5, 7200, 14400):
            holder = f"moorage-{'abc'[int(hours) // 2 % 3]}_8d1f"
            told.append(Happening(self.now_s, HappeningKind.LEASE, "Lease", "kube-system/moorage", {"holder": holder}))
        return told

    def _arrivals(self, busy: float) -> Iterator[Told]:
        for _ in range(int(self._rng.random() * busy * 2.4)):
            self._number += 1
            gpu = {GPU: self._rng.choice((1, 2, 4))} if self._number % 31 == 0 else {}
            pod = make_pod(
                f"job-{self._number}",
                cpu=f"{self._rng.choice((500, 1000, 2000))}m",
                memory=f"{self._rng.choice((1, 2, 6))}Gi",
                requests=gpu,
                created_s=self.now_s,
            )
            waits_s = self._rng.expovariate(1 / (2.0 + 4.0 * busy**3))
            if waits_s > 10:
                message = _MESSAGES[2] if gpu else self._rng.choice(_MESSAGES[:2])
                pod = with_reason(pod, message)
            self._pods[pod.uid] = pod
            heapq.heappush(self._starts, (self.now_s + waits_s, pod.uid))
            yield PodSeen(pod)

    def _binds(self) -> Iterator[Told]:
        while self._starts and self._starts[0][0] <= self.now_s:
            _, uid = heapq.heappop(self._starts)
            pod = placed(self._pods[uid], f"node-{self._rng.randrange(40):02}")
            self._pods[uid] = pod
            heapq.heappush(self._ends, (self.now_s + self._rng.expovariate(1 / 900.0), uid))
            yield PodSeen(pod)

    def _endings(self) -> Iterator[Told]:
        while self._ends and self._ends[0][0] <= self.now_s:
            _, uid = heapq.heappop(self._ends)
            pod = self._pods.pop(uid)
            if self._rng.random() < 0.04:
                yield Happening(self.now_s, HappeningKind.EVICTED, "Pod", pod.key, {"node": pod.node, "reason": "test"})
            yield PodGone(uid)


def with_reason(pod: Pod, message: str) -> Pod:
    """The pod after an attempt that found no node."""
    return replace(pod, scheduled_condition=Condition("PodScheduled", "False", "Unschedulable", message))


def placed(pod: Pod, node: str) -> Pod:
    """The pod on a node."""
    return replace(pod, node=node, phase="Running", scheduled_condition=None)


def lived(began_s: float, hours: float) -> tuple[World, Life]:
    """A world that was looked at for so many hours."""
    world, life = World(reading_of().profiles, answers_to_all=True, derives=True), Life(began_s)
    world.tell([*cluster(), Settled()], began_s)
    while life.now_s < began_s + hours * HOUR_S:
        told = life.step()
        world.tell(told, life.now_s)
    return world, life


@contextmanager
def served_hours(began_s: float = BEGAN_S, hours: float = 6.0) -> Iterator[str]:
    """A dashboard that has looked at a cluster for so long; its time stands still."""
    world, life = lived(began_s, hours)

    async def work(started: Callable[[str], None]) -> None:
        backend = DashboardBackend(world, Surroundings("live", "six hours", lambda: life.now_s))
        await backend.take_over()
        async with listening(application(backend, Guard("127.0.0.1", "")), "127.0.0.1", 0, bounds=BOUNDS) as url:
            started(f"{url}/")
            try:
                await backend.run()
            finally:
                backend.close()

    with in_thread(work) as url:
        yield url


def record_hours(folder: Path, monkeypatch: pytest.MonkeyPatch, hours: float, began_s: float = BEGAN_S) -> float:
    """The journal of a scheduler that places the pods of such a life; returns when it ends."""
    rng, now_s, number = Random(5), began_s, 0
    monkeypatch.setattr("moorage.adapters.clock.now_s", lambda: now_s)
    engine, echo = RecordedEngine(folder), Echo()
    ends: list[tuple[float, str]] = []
    events: list[Event] = [*(each for each in cluster() if isinstance(each, NodeSeen | ObjectSeen)), TermBegan("1/a")]
    while now_s < began_s + hours * HOUR_S:
        now_s += _RECORDED_STEP_S
        busy = 1.2 + math.sin((now_s - began_s) / HOUR_S * 2.1)
        for _ in range(int(rng.random() * busy * 3.2)):
            number += 1
            pod = make_pod(f"job-{number}", cpu=rng.choice(("2", "4", "8")), memory="4Gi", created_s=now_s)
            echo.pods[pod.uid] = pod
            heapq.heappush(ends, (now_s + rng.expovariate(1 / 700.0), pod.uid))
            events.append(PodSeen(pod))
        while ends and ends[0][0] <= now_s:
            uid = heapq.heappop(ends)[1]
            if echo.pods.pop(uid, None) is not None:
                events.append(PodGone(uid))
        commands, _ = engine.handle(events, now_s)
        events = echo.events(commands)
        if int(now_s - began_s) % 900 < _RECORDED_STEP_S:
            engine.journal._next_segment(now_s)
    engine.journal.close()
    monkeypatch.undo()
    return now_s
