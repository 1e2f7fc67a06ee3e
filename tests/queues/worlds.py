"""Random clusters that queues share, which rest after every event: whatever time alone would change has happened."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from moorage.core.commands import Bind, DeletePod
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.gangs import COSCHEDULING_KIND
from moorage.core.membership import GROUP_LABEL
from moorage.core.objects import COSCHEDULING_GROUPS, PodGroup
from moorage.core.pods import Pod, PodTemplate, as_pending
from moorage.core.quantity import THOUSANDTHS, fineness
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE_LABEL, Queue, ResourceShare
from moorage.engine.stalegangs import STALE
from moorage.framework.profiles import Profile
from moorage.testing import make_node, make_pod
from tests.queues.teams import GPU, Teams

CPU = "cpu"
PATIENCE_S = 30.0
"""Longer than any backoff, shorter than the time for which evicted pods are expected."""
MOST_RESTS = 12
"""How often evicted pods may come back before nothing changes any more."""
_MOST_TURNS = 2000
_TEMPLATES: dict[PodTemplate, PodTemplate] = {}
"""Equal pods share a template, as if they had been decoded."""


@dataclass(frozen=True)
class Job:
    """A pod, or a gang with all its pods."""

    name: str
    queue: str
    least: int
    pods: tuple[Pod, ...]
    preemptible: bool

    @property
    def group(self) -> PodGroup | None:
        """Its PodGroup; None for a single pod."""
        if len(self.pods) == 1:
            return None
        created_s = self.pods[0].created_s
        return PodGroup(
            "default",
            self.name,
            uid=self.name,
            api_group=COSCHEDULING_GROUPS,
            min_count=self.least,
            created_s=created_s,
        )


def make_job(
    name: str,
    queue: str,
    size: int = 1,
    least: int = 1,
    *,
    preemptible: bool = True,
    gpus: int = 1,
    cpus: int = 0,
    priority: int = 50,
    created_s: float = 0.0,
) -> Job:
    """A job whose pods are alike."""
    labels = {QUEUE_LABEL: queue, PREEMPTIBLE_LABEL: str(preemptible).lower()} if queue else {}
    if size > 1:
        labels[GROUP_LABEL] = name
    pods = tuple(
        make_pod(
            f"{name}-{number}",
            cpu=cpus or None,
            requests={GPU: gpus} if gpus else {},
            labels=labels,
            scheduler_name="moorage",
            priority=priority,
            created_s=created_s,
            owner=name,
        )
        for number in range(size)
    )
    pods = tuple(replace(pod, template=_TEMPLATES.setdefault(pod.template, pod.template)) for pod in pods)
    return Job(name, queue, least, pods, preemptible)


class World(Teams):
    """A cluster that is left alone until it rests."""

    def __init__(self, queues: list[Queue], nodes: list[tuple[int, int]], profiles: Sequence[Profile] = ()) -> None:
        """`nodes` are pairs of GPUs and cores; without `profiles` there is the default one."""
        super().__init__(*queues, nodes=(), profiles=profiles)
        self.queues = {queue.name: queue for queue in queues}
        self.jobs: dict[str, Job] = {}
        self.promises: list[tuple[str, str]] = []
        """(victim, the pod that it was evicted for), of evictions since the last rest, without those of stale gangs."""
        self.rounds = 0
        """The most often that evicted pods had to come back before nothing changed any more."""
        self._serial = 0
        for gpus, cpus in nodes:
            self.add_node(gpus, cpus)

    def play(self, events: list[Event]) -> None:
        """Handle events and carry out commands until nothing would happen without another event."""
        since_s = self.now
        for _ in range(_MOST_TURNS):
            commands, next_s = self.engine.handle(events, self.now, stop=self.stop)
            self.commands += commands
            for command in commands:
                if isinstance(command, DeletePod):
                    self.evicted.append(self.echo.pods[command.pod.uid])
                    if command.reason != STALE:
                        self.promises.append((command.pod.uid, command.preemptor.uid if command.preemptor else ""))
            events = self.echo.events(commands)
            self.now += 0.001
            if not events:
                if next_s is None or next_s > since_s + PATIENCE_S:
                    return
                self.now = max(self.now, next_s)
        raise AssertionError("the engine goes on for ever")

    def add_node(self, gpus: int, cpus: int) -> str:
        """Another node; returns its name."""
        self._serial += 1
        name = f"n{self._serial:02}"
        self.play([NodeSeen(make_node(name, cpu=str(cpus), memory="64Gi", resources={GPU: gpus} if gpus else {}))])
        return name

    def lose_node(self, name: str) -> None:
        """A node goes with all its pods, which their controllers make anew."""
        gone = [record.pod for record in self.engine.state.records() if record.node == name]
        self.play([NodeGone(name), *(PodGone(pod.uid) for pod in gone)])
        self.see(*(replace(as_pending(pod), uid=f"{pod.uid}'") for pod in gone))

    def submit(self, *jobs: Job) -> None:
        """Jobs come, all at once."""
        events: list[Event] = []
        for job in jobs:
            self.jobs[job.name] = job
            if job.group is not None:
                events.append(ObjectSeen(COSCHEDULING_KIND, f"default/{job.name}", job.group))
            self.echo.pods.update({pod.uid: pod for pod in job.pods})
            events += [PodSeen(pod) for pod in job.pods]
        self.play(events)

    def finish(self, job: str) -> None:
        """A job ends, wherever its pods are."""
        names = {pod.name for pod in self.jobs.pop(job).pods}
        self.evicted = [pod for pod in self.evicted if pod.name not in names]
        self.play([PodGone(pod.uid) for pod in [*self.standing(), *self.waiting()] if pod.name in names])

    def change(self, queue: Queue) -> None:
        """A queue gets other numbers, or another parent."""
        self.queues[queue.name] = queue
        self.play([ObjectSeen("Queue", queue.name, queue)])

    def settle(self) -> None:
        """Let evicted pods come back until none is evicted any more."""
        for number in range(MOST_RESTS):
            self.rounds = max(self.rounds, number)
            if not self.come_back():
                return
        raise AssertionError(f"evictions do not end within {MOST_RESTS} rounds")

    def standing(self) -> list[Pod]:
        """The pods on nodes."""
        return [record.pod for record in self.engine.state.records()]

    def waiting(self) -> list[Pod]:
        """The pods without a node."""
        return [entry.pod for entry in self.engine.queue.entries()]

    def nexts(self) -> Iterator[tuple[Job, list[Pod]]]:
        """Waiting jobs, and the pods that each would start next: as many as it lacks to its minimum, else one."""
        standing, waiting = {pod.name for pod in self.standing()}, {pod.name: pod for pod in self.waiting()}
        for job in self.jobs.values():
            left = [waiting[pod.name] for pod in job.pods if pod.name in waiting]
            active = sum(pod.name in standing for pod in job.pods)
            count = max(1, job.least - active)
            if count <= len(left):
                yield job, sorted(left, key=lambda pod: pod.name)[:count]

    def placed(self) -> dict[str, str]:
        """Pod -> node."""
        return {record.pod.name: record.node for record in self.engine.state.records()}

    def count_binds(self) -> int:
        """How many pods were bound so far."""
        return sum(isinstance(command, Bind) for command in self.commands)


def random_queues(draw: random.Random) -> tuple[list[Queue], list[str]]:
    """A tree of up to three levels, and the names of its leaves."""
    cores = draw.random() < 0.4
    queues: list[Queue] = []

    def queue(name: str, parent: str, most: int) -> None:
        shares = {GPU: share(draw, most, THOUSANDTHS)}
        if cores and draw.random() < 0.7:
            shares[CPU] = share(draw, most, 1000)
        queues.append(
            Queue(
                name,
                parent=parent,
                priority=draw.choice([100, 100, 100, 150]),
                resources=FrozenDict(shares),
                created_s=float(draw.randint(0, 2)),
            )
        )

    for top in range(draw.randint(1, 3)):
        queue(f"d{top}", "", 6)
        for middle in range(draw.choice([0, 1, 2, 2])):
            queue(f"d{top}q{middle}", f"d{top}", 4)
            for bottom in range(draw.choice([0, 0, 0, 2])):
                queue(f"d{top}q{middle}t{bottom}", f"d{top}q{middle}", 3)
    parents = {each.parent for each in queues}
    return draw.sample(queues, len(queues)), [each.name for each in queues if each.name not in parents]


def share(draw: random.Random, most: int, unit: int = 1) -> ResourceShare:
    """What a queue has of a resource."""
    quota = draw.choice([UNLIMITED, *(unit * n for n in range(most))])
    limit = draw.choice([UNLIMITED] * 5 + [unit * draw.randint(1, most + 2)])
    return ResourceShare(quota, draw.choice([0, 1000, 1000, 2000, 3000]), limit)


def share_of_any(draw: random.Random, most: int, resources: list[str]) -> tuple[str, ResourceShare]:
    """One of the resources, and what a queue has of it."""
    drawn, resource = share(draw, most), draw.choice(resources)
    quota, limit = (each if each >= UNLIMITED else each * fineness(resource) for each in (drawn.quota, drawn.limit))
    return resource, ResourceShare(quota, drawn.weight, limit)


def random_job(draw: random.Random, name: str, leaves: list[str], created_s: float) -> Job:
    """A pod or a gang of any queue; now and then a pod without a queue."""
    size, gpus = draw.choice([1, 1, 1, 2, 3]), draw.choice([0, 1, 1, 2, 3])
    return make_job(
        name,
        draw.choice([*leaves * 8, ""]) if size == 1 else draw.choice(leaves),
        size,
        draw.randint(1, size),
        preemptible=draw.random() < 0.8,
        gpus=gpus,
        cpus=draw.choice([0, 1, 2]) if gpus else 1,
        priority=draw.choice([50, 50, 60]),
        created_s=created_s,
    )


def random_world(draw: random.Random) -> tuple[World, list[str]]:
    """A cluster without jobs, and the names of its leaves."""
    queues, leaves = random_queues(draw)
    nodes = [(draw.choice([0, 2, 4, 4]), draw.choice([2, 4, 8])) for _ in range(draw.randint(1, 3))]
    return World(queues, nodes), leaves


def found_world(draw: random.Random) -> World:
    """A cluster that is full of pods when the scheduler comes, wherever they are, with others that wait."""
    queues, leaves = random_queues(draw)
    sizes = [(draw.choice([4, 8]), 16) for _ in range(draw.randint(2, 5))]
    world = World(queues, sizes)
    free = {f"n{number:02}": list(size) for number, size in enumerate(sizes, 1)}
    jobs = [crowding_job(draw, f"j{number:02}", leaves, float(number)) for number in range(draw.randint(12, 30))]
    world.submit(*(seated(draw, job, free) if draw.random() < 0.6 else job for job in jobs))
    return world


def crowding_job(draw: random.Random, name: str, leaves: list[str], created_s: float) -> Job:
    """A pod or a gang that may be larger than the rest of the cluster allows."""
    size = draw.choice([1, 1, 1, 2, 3, 4, 5])
    return make_job(
        name,
        draw.choice(leaves),
        size,
        draw.randint(1, size),
        preemptible=draw.random() < 0.85,
        gpus=draw.choice([0, 1, 1, 1, 2, 3, 4]),
        cpus=draw.choice([1, 1, 2, 3, 4]),
        priority=draw.choice([0, 10, 20, 50, 50, 50, 60]),
        created_s=created_s,
    )


def seated(draw: random.Random, job: Job, free: dict[str, list[int]]) -> Job:
    """The job with as many of its pods on nodes as there is room for; `free` are the GPUs and cores of each node."""
    pods = []
    for pod in job.pods:
        need = [pod.requests.get(GPU), pod.requests.get(CPU) // 1000]
        nodes = [name for name, left in free.items() if all(a >= b for a, b in zip(left, need, strict=True))]
        name = draw.choice(nodes) if nodes else None
        if name is not None:
            free[name] = [a - b for a, b in zip(free[name], need, strict=True)]
        pods.append(replace(pod, node=name))
    return replace(job, pods=tuple(pods))
