"""A cluster shared by queues, played against the engine alone: pods come and go, evicted ones come back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod, as_pending
from moorage.core.quantity import THOUSANDTHS
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE, QUEUE_LABEL, Queue, ResourceShare
from moorage.engine.context import Stop
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.fair_share import FairShare, FairShareArgs
from moorage.testing import make_node, make_pod

GPU = "nvidia.com/gpu"
_MOST_TURNS = 400


def make_queue(name: str, quota: int = 0, weight: int = 1, limit: int = UNLIMITED, **fields: object) -> Queue:
    """A queue that shares GPUs."""
    most = limit if limit >= UNLIMITED else limit * THOUSANDTHS
    shares = FrozenDict({GPU: ResourceShare(quota * THOUSANDTHS, weight * 1000, most)})
    return Queue(name, resources=shares, **fields)  # type: ignore[arg-type]


def team_pod(name: str, queue: str, gpus: int = 1, *, preemptible: bool = True, **fields: object) -> Pod:
    """A pod of a queue that asks for GPUs; its controller makes it anew when it is evicted."""
    labels = {QUEUE_LABEL: queue, PREEMPTIBLE_LABEL: str(preemptible).lower()}
    given = {"cpu": "100m", "requests": {GPU: gpus}, "labels": labels, "scheduler_name": "moorage", "owner": name}
    return make_pod(name, **(given | fields))  # type: ignore[arg-type]


def hasty(**terms: Any) -> Sequence[Profile]:
    """The default profile, for which others are evicted at once; `terms` are more arguments of FairShare."""
    args = FairShareArgs(**{"min_runtime_seconds": 0.0, "wait_for_ends_seconds": 0.0, **terms})
    written = ProfileConfiguration(args={FairShare.name: args})
    return build_profiles(Configuration(profiles=(written,)), Registry(BUILTIN))


class Teams:
    """The engine, and a cluster in which its commands succeed."""

    def __init__(self, *queues: Queue, nodes: tuple[int, ...] = (4,), profiles: Sequence[Profile] = ()) -> None:
        self.engine = Engine(profiles or hasty())
        self.echo = Echo()
        self.now = 0.0
        self.stop: Stop | None = None
        """Passed to the engine."""
        self.evicted: list[Pod] = []
        self.commands: list[Command] = []
        events: list[Event] = [ObjectSeen(QUEUE, queue.name, queue) for queue in queues]
        for number, gpus in enumerate(nodes):
            events.append(NodeSeen(make_node(f"n{number}", cpu="64", memory="64Gi", resources={GPU: gpus})))
        self.engine.handle(events, self.now, budget=0)

    def see(self, *pods: Pod) -> None:
        """Pods come, or changed."""
        for pod in pods:
            self.echo.pods[pod.uid] = pod
        self.play([PodSeen(pod) for pod in pods])

    def play(self, events: list[Event]) -> None:
        """Handle events and carry out commands until there are none."""
        for _ in range(_MOST_TURNS):
            commands, next_s = self.engine.handle(events, self.now, stop=self.stop)
            self.now += 0.001
            self.commands += commands
            for command in commands:
                if isinstance(command, DeletePod):
                    self.evicted.append(self.echo.pods[command.pod.uid])
            events = self.echo.events(commands)
            if not events and (next_s is None or next_s >= self.now):
                return
        raise AssertionError("the engine goes on for ever")

    def come_back(self) -> int:
        """Controllers make evicted pods anew; returns how many."""
        back, self.evicted = self.evicted, []
        self.see(*(replace(as_pending(pod), uid=f"{pod.uid}'") for pod in back))
        return len(back)

    def rest(self) -> int:
        """Let evicted pods come back until none is evicted any more; returns how often that took."""
        for number in range(20):
            if not self.come_back():
                return number
        raise AssertionError("evictions do not end")

    def end(self, pod: Pod) -> None:
        """A pod goes for good."""
        self.play([PodGone(pod.uid)])

    def running(self, queue: str = "") -> list[str]:
        """The names of the pods on nodes, of one queue or of all."""
        records = self.engine.state.records()
        return sorted(r.pod.name for r in records if queue in ("", r.pod.template.labels.get(QUEUE_LABEL)))

    def binds(self) -> int:
        """How many pods were bound so far."""
        return sum(isinstance(command, Bind) for command in self.commands)


def random_teams(draw: random.Random) -> tuple[Teams, list[Pod]]:
    """Two levels of queues, a few nodes, and pods that run or wait."""
    departments = [make_queue(f"d{n}", draw.randint(0, 4), draw.randint(0, 3)) for n in range(draw.randint(1, 2))]
    leaves = [
        make_queue(
            f"q{n}",
            draw.randint(0, 4),
            draw.randint(0, 3),
            draw.choice([UNLIMITED, UNLIMITED, 3]),
            parent=draw.choice(departments).name,
            priority=draw.choice([100, 100, 150]),
        )
        for n in range(draw.randint(1, 4))
    ]
    used = [department for department in departments if any(leaf.parent == department.name for leaf in leaves)]
    teams = Teams(*used, *leaves, nodes=tuple(draw.choice([2, 4]) for _ in range(draw.randint(1, 3))))
    pods = [
        team_pod(
            f"p{n}",
            draw.choice(leaves).name,
            draw.randint(1, 3),
            preemptible=draw.random() < 0.8,
            priority=draw.choice([50, 60]),
            created_s=float(n),
        )
        for n in range(draw.randint(2, 10))
    ]
    return teams, pods
