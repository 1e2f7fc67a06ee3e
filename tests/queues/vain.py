"""What pods cost that wait in vain: a thousand different ones of one queue, while neighbours come and go.

python -m tests.queues.vain [SHAPE] [--waiting N] [--seconds S]

Time is virtual but for the CPU that the engine takes, as in a scheduler that has nothing else to do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from moorage.adapters.process import tune_process
from moorage.app.watch import TurnWatch
from moorage.core.commands import Bind
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import HOSTNAME
from moorage.core.pods import Pod
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE, QUEUE_LABEL, Queue, ResourceShare
from moorage.engine.engine import Engine
from moorage.testing import make_node, make_pod
from tests.queues.teams import hasty

NODES, PER_NODE, BUDGET, TURN_S = 50, 7, 32, 0.25


class Vain(NamedTuple):
    """Pods of 2 cores run on equal nodes, and pods of queue a wait."""

    quotas: dict[str, int]
    cores: int
    """Of each node."""
    per_node: int
    fixed: bool
    """Whether what runs may not be evicted."""
    pinned: bool
    """Whether what runs is bound to its node by a selector."""
    least_milli: int
    """Of the first waiting pod; each asks for a milli more."""


SHAPES = {
    "nothing-may-be-taken": Vain({"a": 400, "b": 400}, 15, PER_NODE, fixed=True, pinned=False, least_milli=2000),
    "no-node-could-hold-them": Vain({"a": 400, "b": 100}, 9, 4, fixed=False, pinned=False, least_milli=9001),
    "not-all-could-move": Vain({"a": 0, "b": 800}, 15, PER_NODE, fixed=False, pinned=False, least_milli=6001),
    "none-can-move": Vain({"a": 200, "b": 800}, 16, PER_NODE, fixed=False, pinned=True, least_milli=3000),
}


class Figures(NamedTuple):
    """Of a minute, or as long as it was."""

    cpu_s: float
    neighbours_s: list[float]
    """CPU between the arrival of each neighbour and its bind."""
    evictions: int


class Minute:
    """One shape, played."""

    def __init__(self, shape: Vain, waiting: int) -> None:
        self._engine, self._echo, self._now = Engine(hasty()), Echo(), 0.0
        self._cpu_s, self._born, self._neighbours_s = 0.0, dict[str, float](), list[float]()
        queues = [_queue(name, quota) for name, quota in shape.quotas.items()]
        nodes = [make_node(f"n{n}", cpu=str(shape.cores), memory="64Gi") for n in range(NODES)]
        nodes.append(make_node("aside", cpu="1", memory="64Gi"))
        told: list[Event] = [ObjectSeen(QUEUE, queue.name, queue) for queue in queues]
        self._engine.handle([*told, *map(NodeSeen, nodes)], 0.0, budget=0)
        running = [_runs(shape, f"n{number // shape.per_node}", number) for number in range(NODES * shape.per_node)]
        self._left = self._play(self._seen(*running), 1.0)
        self._left = self._play([*self._left, *self._seen(*(_waits(shape, n) for n in range(waiting)))], 2.0)

    def play(self, seconds: int) -> Figures:
        """A neighbour comes every second, and the one before it goes."""
        began_s, before = self._cpu_s, len(self._echo.pods)
        for second in range(seconds):
            neighbour = make_pod(f"x{second}", cpu="900m", scheduler_name="moorage", created_s=self._now)
            gone: list[Event] = [PodGone(f"default/x{second - 1}")] if second else []
            self._born[neighbour.uid] = self._cpu_s
            until_s = self._now + 1.0
            self._left = self._play([*self._left, *gone, *self._seen(neighbour)], until_s)
            self._now = max(self._now, until_s)
        evictions = before + seconds - len(self._echo.pods)
        return Figures(self._cpu_s - began_s, self._neighbours_s, evictions)

    def _seen(self, *pods: Pod) -> list[Event]:
        self._echo.pods.update({pod.uid: pod for pod in pods})
        return [PodSeen(pod) for pod in pods]

    def _play(self, events: Sequence[Event], until_s: float) -> list[Event]:
        """Turns as the decision loop has them; returns what the last one has left."""
        while True:
            began_s = time.thread_time()
            watch = TurnWatch(TURN_S, time.thread_time, _ignore)
            commands, next_s = self._engine.handle(events, self._now, BUDGET, watch.stop)
            spent_s = time.thread_time() - began_s
            self._cpu_s += spent_s
            self._now += max(spent_s, 0.001)
            for command in commands:
                if isinstance(command, Bind) and command.pod.uid in self._born:
                    self._neighbours_s.append(self._cpu_s - self._born.pop(command.pod.uid))
            events = self._echo.events(commands)
            idle = not events and (next_s is None or next_s > self._now)
            if self._now >= until_s or (idle and (next_s is None or next_s >= until_s)):
                return list(events)
            if idle and next_s is not None:
                self._now = next_s


def _ignore(_: float) -> None:
    """No heartbeat is wanted."""


def _queue(name: str, quota: int) -> Queue:
    return Queue(name, resources=FrozenDict({"cpu": ResourceShare(quota * 1000, 1000)}))


def _runs(shape: Vain, node: str, number: int) -> Pod:
    labels = {QUEUE_LABEL: "b", PREEMPTIBLE_LABEL: str(not shape.fixed).lower()}
    selector = {HOSTNAME: node} if shape.pinned else {}
    return make_pod(
        f"r{number}",
        cpu="2",
        node=node,
        labels=labels,
        node_selector=selector,
        created_s=float(number),
        scheduler_name="moorage",
    )


def _waits(shape: Vain, number: int) -> Pod:
    labels = {QUEUE_LABEL: "a", PREEMPTIBLE_LABEL: "true"}
    cpu, memory = f"{shape.least_milli + number}m", f"{1 + number * 7 % 1000}Mi"
    return make_pod(
        f"w{number}", cpu=cpu, memory=memory, labels=labels, created_s=1000.0 + number, scheduler_name="moorage"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", choices=SHAPES, help="all unless named")
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    say: Callable[[str], int] = sys.stdout.write
    for name in [given.shape] if given.shape else SHAPES:
        minute = Minute(SHAPES[name], given.waiting)
        tune_process()
        cpu_s, neighbours_s, evictions = minute.play(given.seconds)
        mean_ms, longest_ms = 1000 * fmean(neighbours_s or [0.0]), 1000 * max(neighbours_s, default=0.0)
        placed = f"{len(neighbours_s)} of {given.seconds} neighbours placed, {mean_ms:.0f} ms, at most {longest_ms:.0f}"
        say(f"{name}: {cpu_s:.2f} s CPU in {given.seconds} s; {placed}; {evictions} evictions\n")


if __name__ == "__main__":
    main()
