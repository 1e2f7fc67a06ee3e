"""What is asked of a cluster: nodes, queues, and Jobs with their sizes, run times and times of arrival.

`cohorts` and `gangs3-tight` are those of Kueue and of kube-scheduling-perf, with their exact sizes at scale 1. A seed
other than 0 draws sizes, priorities and run times anew around the same means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from moorage.core.nodes import Node
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE_LABEL
from moorage.testing import make_node

CPU = "cpu"
Body = dict[str, Any]


@dataclass(frozen=True)
class JobPlan:
    """Equal pods that run for some time, all or none if there are several."""

    name: str
    size: int
    run_s: float
    queue: str = ""
    priority: int = 0
    at_s: float = 0.0
    requests: Mapping[str, str] = field(default_factory=lambda: {CPU: "1"})
    weight: float = 1.0
    """What each pod counts for in the utilisation."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of its pods."""
    namespace: str = "default"

    @property
    def labels(self) -> dict[str, str]:
        """Of its pods: anybody may be evicted for others, as in the other schedulers that were measured."""
        return {QUEUE_LABEL: self.queue, PREEMPTIBLE_LABEL: "true"} if self.queue else {}


@dataclass(frozen=True)
class QueuePlan:
    """A queue that guarantees some of the resource, and may borrow up to the limit."""

    name: str
    quota: int
    parent: str = ""
    limit: int | None = None


@dataclass(frozen=True)
class Shape:
    """All of it. `capacity` is what the utilisation is measured by, in the unit of the weights."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[JobPlan, ...]
    capacity: float
    queues: tuple[QueuePlan, ...] = ()
    resource: str = CPU
    objects: tuple[Body, ...] = ()
    """Of other kinds."""
    configuration: str = ""
    """The name of a file in examples/; empty for the default profile."""

    @property
    def pods(self) -> int:
        return sum(job.size for job in self.jobs)


def cpu_nodes(count: int, cpus: int) -> tuple[Node, ...]:
    return tuple(make_node(f"n{number:02}", cpu=str(cpus), memory="256Gi") for number in range(count))


def gangs3_tight(scale: float = 1.0, seed: int = 0) -> Shape:
    """600 gangs of 3 pods of 1 cpu for 5 s on 10 nodes of 32: at least 28 s. Scaled by nodes and gangs."""
    nodes = max(1, round(10 * scale))
    jobs = [JobPlan(f"g{n}", 3, 5.0, "q") for n in range(round(60 * nodes))]
    queues = (QueuePlan("q", 32 * nodes),)
    return Shape("gangs3-tight", cpu_nodes(nodes, 32), varied(jobs, seed), 32.0 * nodes, queues)


KINDS = (("small", 35, 1.0, 2.0, 50, 1), ("medium", 10, 5.0, 5.0, 100, 5), ("large", 5, 12.0, 10.0, 200, 20))
"""Name, number per queue, and of each: seconds between two, run time, priority, pods."""


def cohorts(scale: float = 1.0, seed: int = 0) -> Shape:
    """Kueue's generator: 3 cohorts of 4 queues, quota 20 of 1 cpu, borrowing 100, on 8 nodes of 30 cpu.

    Scaled by cohorts, and below a third by the queues of the only one: nodes are always as large as all quotas.
    """
    number = max(1, round(12 * scale))
    per_cohort = min(4, number)
    names = [(f"c{n // per_cohort}", f"c{n // per_cohort}-q{n % per_cohort}") for n in range(number)]
    queues = [QueuePlan(name, 20, cohort, 120) for cohort, name in names]
    parents = [QueuePlan(cohort, 20 * sum(each == cohort for each, _ in names)) for cohort in sorted(dict(names))]
    jobs = [
        JobPlan(f"{queue.name}-{kind}-{i}", size, run_s, queue.name, priority, i * every_s)
        for queue in queues
        for kind, count, every_s, run_s, priority, size in KINDS
        for i in range(count)
    ]
    nodes = -(-20 * number // 30)
    plan = tuple(sorted(varied(jobs, seed), key=lambda job: job.at_s))
    return Shape("cohorts", cpu_nodes(nodes, 30), plan, 30.0 * nodes, (*parents, *queues))


def varied(jobs: list[JobPlan], seed: int) -> tuple[JobPlan, ...]:
    """Other sizes, run times and priorities with about the same sums; seed 0 leaves all as it is."""
    draw = Random(seed)
    if not seed:
        return tuple(jobs)
    priorities = sorted({job.priority for job in jobs})
    return tuple(
        replace(
            job,
            size=job.size if job.size == 1 else draw.randint(max(2, job.size // 2), job.size + job.size // 2),
            run_s=round(job.run_s * draw.uniform(0.5, 1.5), 2),
            priority=job.priority if draw.random() < 0.8 else draw.choice(priorities),
        )
        for job in jobs
    )


SHAPES: dict[str, Callable[[float, int], Shape]] = {"cohorts": cohorts, "gangs3-tight": gangs3_tight}
