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
from moorage.core.shareasks import NVIDIA_GPU
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
    level: str = ""
    """A label of nodes: all pods stand on nodes with one value of it."""
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


def one_queue(scale: float = 1.0, seed: int = 0) -> Shape:
    """Jobs of 1, 4 and 10 pods of one queue, five per second, on 6 nodes of 20 cpu."""
    draw, nodes = Random(seed), max(2, round(6 * scale))
    jobs = [
        JobPlan(f"j-{size}-{n}", size, draw.uniform(3.0, 9.0), "q", draw.choice([0, 50, 100]), n * 1.2 / nodes)
        for n in range(round(26 * nodes))
        for size in [draw.choice([1, 1, 4, 4, 10])]
    ]
    return Shape("one-queue", cpu_nodes(nodes, 20), tuple(jobs), 20.0 * nodes, (QueuePlan("q", 20 * nodes),))


def no_queues(scale: float = 1.0, seed: int = 0) -> Shape:
    """Single pods and gangs of 2 to 8 in three namespaces, of equal priority and of three, on nodes of 16 cpu."""
    draw, nodes = Random(seed), max(2, round(8 * scale))
    jobs = [
        JobPlan(f"j-{size}-{n}", size, draw.uniform(2.0, 8.0), priority=draw.choice([0, 0, 0, 10, 100]),
                at_s=n * 1.5 / nodes, requests={CPU: str(cpus)}, weight=float(cpus),
                namespace=f"team-{draw.randint(0, 2)}")
        for n in range(round(30 * nodes))
        for size, cpus in [draw.choice([(1, 1), (1, 2), (2, 2), (3, 1), (4, 2), (8, 1)])]
    ]  # fmt: skip
    return Shape("no-queues", cpu_nodes(nodes, 16), tuple(jobs), 16.0 * nodes)


def two_levels(scale: float = 1.0, seed: int = 0) -> Shape:
    """Two departments of two cohorts of two queues each; some have work in the first half, some in the second."""
    draw, number = Random(seed), max(4, 2 * round(4 * scale))
    queues, leaves = [QueuePlan("d0", 10 * number // 2), QueuePlan("d1", 10 * number // 2)], []
    for n in range(number // 2):
        queues.append(QueuePlan(f"d{n % 2}-c{n}", 20, f"d{n % 2}"))
        leaves += [QueuePlan(f"d{n % 2}-c{n}-q{m}", 10, f"d{n % 2}-c{n}", 60) for m in range(2)]
    jobs = [
        JobPlan(f"{leaf.name}-j{size}-{n}", size, draw.uniform(3.0, 8.0), leaf.name, draw.choice([50, 50, 100]),
                n * 0.9 + (8.0 if index % 3 == 0 else 0.0))
        for index, leaf in enumerate(leaves)
        for n in range(15)
        for size in [draw.choice([1, 2, 5, 8])]
    ]  # fmt: skip
    nodes = cpu_nodes(number // 2, 20)
    plan = tuple(sorted(jobs, key=lambda job: job.at_s))
    return Shape("two-levels", nodes, plan, 10.0 * number, (*queues, *leaves))


RACK, BLOCK = "example.com/rack", "example.com/block"


def levels(scale: float = 1.0, seed: int = 0) -> Shape:
    """Gangs of 2 to 16 that must lie in one rack or one block, and single pods, in blocks of two racks of two nodes."""
    draw, racks = Random(seed), 2 * max(2, round(4 * scale))
    places = [{RACK: f"r{n // 2}", BLOCK: f"b{n // 4}"} for n in range(2 * racks)]
    nodes = tuple(make_node(f"n{n:02}", cpu="8", memory="256Gi", labels=labels) for n, labels in enumerate(places))
    jobs = [
        JobPlan(f"j-{size}-{n}", size, draw.uniform(3.0, 8.0), "q", draw.choice([0, 0, 50]), n * 2.2 / racks,
                level=level, annotations={"moorage.dev/topology-required": level} if level else {})
        for n in range(round(13 * racks))
        for size, level in [draw.choice([(1, ""), (1, ""), (2, RACK), (4, RACK), (8, RACK), (6, BLOCK), (16, BLOCK)])]
    ]  # fmt: skip
    topology = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "datacenter"}}
    topology |= {"spec": {"levels": [BLOCK, RACK, "kubernetes.io/hostname"]}}
    queues = (QueuePlan("q", 16 * racks),)
    return Shape("levels", nodes, tuple(jobs), 16.0 * racks, queues, objects=(topology,))


def fractions(scale: float = 1.0, seed: int = 0) -> Shape:
    """Shares of GPUs, whole ones, pods of two, and gangs of whole ones, on nodes of 4 GPUs; two queues."""
    draw, nodes = Random(seed), max(2, round(6 * scale))
    kinds = [(1, 0.25), (1, 0.5), (1, 0.5), (1, 1.0), (1, 2.0), (4, 1.0), (2, 0.5)]
    jobs = [
        JobPlan(f"j-{str(gpus).replace('.', 'x')}-{n}", size, draw.uniform(3.0, 8.0), draw.choice(["a", "b"]), 50,
                n * 1.6 / nodes, requests=_gpu_requests(gpus), weight=gpus,
                annotations={"gpu-fraction": str(gpus)} if gpus < 1 else {})
        for n in range(round(30 * nodes))
        for size, gpus in [draw.choice(kinds)]
    ]  # fmt: skip
    made = tuple(make_node(f"n{n:02}", cpu="64", memory="256Gi", resources={NVIDIA_GPU: 4}) for n in range(nodes))
    queues = (QueuePlan("a", 2 * nodes), QueuePlan("b", 2 * nodes))
    return Shape("fractions", made, tuple(jobs), 4.0 * nodes, queues, NVIDIA_GPU, configuration="gpu-sharing.yaml")


def _gpu_requests(gpus: float) -> dict[str, str]:
    return {CPU: "1", **({NVIDIA_GPU: str(int(gpus))} if gpus >= 1 else {})}


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


OWN: dict[str, Callable[[float, int], Shape]] = {
    "one-queue": one_queue,
    "no-queues": no_queues,
    "two-levels": two_levels,
    "levels": levels,
    "fractions": fractions,
}
SHAPES: dict[str, Callable[[float, int], Shape]] = {"cohorts": cohorts, "gangs3-tight": gangs3_tight, **OWN}
