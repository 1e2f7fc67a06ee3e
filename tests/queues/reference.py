"""Queues by plain loops over everything: shares, order, limits and making room, computed anew for every question.

Written for the tests only, from the rules; it has nothing in common with the code that it is compared with. Nodes are
taken in the order of their names: the first one with enough room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

CPU, MEMORY, GPU = "cpu", "memory", "nvidia.com/gpu"
RESOURCES = (CPU, MEMORY, GPU)
PARTS = {CPU: 1, MEMORY: 1, GPU: 1000}
"""Into how many parts the scheduler divides a unit; it matters where a queue may have nothing of something."""
ENDLESS = 10**30
LATER = 10**12
Need = dict[str, int]


@dataclass
class RefQueue:
    """A queue as it is written: resource -> (quota, weight, limit)."""

    name: str
    parent: str = ""
    priority: int = 100
    created: float = 0.0
    shares: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def of(self, resource: str) -> tuple[int, int, int]:
        return self.shares.get(resource, (ENDLESS, 1000, ENDLESS))


@dataclass(eq=False)
class RefJob:
    """Pods that are alike; `least` of them have to run together."""

    name: str
    queue: str
    pods: list[str]
    least: int
    need: Need
    priority: int
    created: float
    preemptible: bool

    @property
    def key_name(self) -> str:
        return f"default/{self.name}" if len(self.pods) > 1 else f"default/{self.pods[0]}"


class Reference:
    """A cluster and its queues."""

    def __init__(self, make_room: Callable[[Reference, list[RefJob]], bool]) -> None:
        """`make_room` is given the jobs that wait."""
        self.make_room = make_room
        self.nodes: dict[str, Need] = {}
        self.queues: dict[str, RefQueue] = {}
        self.jobs: dict[str, RefJob] = {}
        self.foreign: dict[str, tuple[str, Need]] = {}
        """Pods of others: node and requests."""
        self.at: dict[str, str] = {}
        """Pod -> its node; also where a place is kept for a pod that moves."""
        self.kept: set[str] = set()
        """Those of them that are on their way there."""
        self.waiting: set[str] = set()
        self.away: set[str] = set()
        """Evicted pods that have not come back."""
        self.leaving: dict[str, str] = {}
        """Evicted pods that are still on their nodes for a moment."""
        self.evicted: list[str] = []
        self.shares: dict[str, Need] = {}

    # --- arithmetic ---

    def job_of(self, pod: str) -> RefJob:
        return next(job for job in self.jobs.values() if pod in job.pods)

    def below(self, name: str) -> list[RefQueue]:
        return [queue for queue in self.queues.values() if queue.parent == name]

    def path(self, name: str) -> list[RefQueue]:
        found = [self.queues[name]]
        while found[-1].parent:
            found.append(self.queues[found[-1].parent])
        return found

    def governed(self, job: RefJob) -> bool:
        return job.queue in self.queues and not self.below(job.queue)

    def sum(self, queue: RefQueue, counts: Callable[[str], bool], resource: str, *, fixed: bool = False) -> int:
        total = 0
        for job in self.jobs.values():
            amount = job.need.get(resource, 0)
            if amount and not (fixed and job.preemptible) and self.governed(job) and queue in self.path(job.queue):
                total += amount * sum(map(counts, job.pods))
        return total

    def has(self, queue: RefQueue, resource: str) -> int:
        return self.sum(queue, lambda pod: pod in self.at, resource)

    def fixed(self, queue: RefQueue, resource: str) -> int:
        return self.sum(queue, lambda pod: pod in self.at, resource, fixed=True)

    def asks(self, queue: RefQueue, resource: str) -> int:
        return self.sum(queue, lambda pod: pod in self.at or pod in self.waiting or pod in self.away, resource)

    def total(self, resource: str) -> int:
        offered = sum(node.get(resource, 0) for node in self.nodes.values())
        held = sum(need.get(resource, 0) for _, need in self.foreign.values())
        for job in self.jobs.values():
            if not self.governed(job):
                held += sum(job.need.get(resource, 0) for pod in job.pods if pod in self.at)
        return max(0, offered - held)

    def share(self, queue: RefQueue, resource: str) -> int:
        return self.shares[queue.name][resource]

    def share_out(self, parent: str = "") -> None:
        """Compute all shares; they hold for a cycle, as nothing in it changes what is asked for."""
        children = self.below(parent)
        for resource in RESOURCES:
            amount = self.shares[parent][resource] if parent else self.total(resource)
            for name, share in self.divide(amount, children, resource).items():
                self.shares.setdefault(name, {})[resource] = share
        for child in children:
            self.share_out(child.name)

    def divide(self, amount: int, queues: list[RefQueue], resource: str) -> dict[str, int]:
        wants, shares = {}, {}
        for queue in queues:
            quota, _, limit = queue.of(resource)
            wants[queue.name] = min(limit, self.asks(queue, resource))
            shares[queue.name] = min(amount if quota >= ENDLESS else quota, wants[queue.name])
        left = amount - sum(shares.values())
        lost: list[tuple[Any, ...]] = []
        for priority in sorted({queue.priority for queue in queues}, reverse=True):
            fractions: list[tuple[Any, ...]] = []
            while left > 0:
                hungry = [q for q in queues if q.priority == priority and wants[q.name] > shares[q.name]]
                weights = sum(q.of(resource)[1] for q in hungry)
                if not weights:
                    break
                parts = {q.name: Fraction(left * q.of(resource)[1], weights) for q in hungry}
                again, fractions = False, []
                for q in hungry:
                    open_ = wants[q.name] - shares[q.name]
                    if open_ <= parts[q.name]:
                        again = again or open_ < parts[q.name]
                        given = open_
                    else:
                        given = int(parts[q.name])
                        if parts[q.name]:
                            fractions.append((-priority, given - parts[q.name], q.created, q.name))
                    shares[q.name] += given
                    left -= given
                if not again:
                    break
            lost += fractions
        for _, _, _, name in sorted(lost)[: max(0, left)]:
            shares[name] += 1
        return shares

    def may_have(self, queue: RefQueue, resource: str) -> int:
        quota, _, limit = queue.of(resource)
        return limit if quota >= ENDLESS else min(limit, max(quota, self.share(queue, resource)))

    def need_of(self, job: RefJob, pods: Sequence[str]) -> Need:
        return {resource: amount * len(pods) for resource, amount in job.need.items()}

    # --- the order ---

    def place_of(self, queue: RefQueue, need: Need, less: Need | None = None) -> tuple[Any, ...]:
        """The smallest is served first; `less` is what it would have lost."""
        less = less or {}
        has = {r: self.has(queue, r) for r in RESOURCES}
        then = {r: has[r] + need.get(r, 0) - less.get(r, 0) for r in RESOURCES}
        may = {r: self.may_have(queue, r) for r in RESOURCES}
        whole = {r: self.total(r) if may[r] >= ENDLESS else may[r] for r in RESOURCES}

        def part(amounts: Need) -> Fraction:
            return max(
                Fraction(amounts[r], whole[r]) if whole[r] else Fraction(1000 * amounts[r] * PARTS[r])
                for r in RESOURCES
            )

        return (
            all(has[r] > self.share(queue, r) for r in RESOURCES),
            not all(has[r] + need.get(r, 0) <= queue.of(r)[0] for r in RESOURCES),
            -queue.priority,
            any(not may[r] for r in need if need[r]),
            part(then),
            part(has),
            tuple(may[r] for r in RESOURCES),
            queue.created,
            queue.name,
        )

    def key(self, job: RefJob, active: int) -> tuple[Any, ...]:
        since = job.created
        if len(job.pods) == 1:
            since += LATER * (active != 0)
        else:
            since += LATER * (active >= job.least) + LATER * (active > job.least)
        return -job.priority, since, job.key_name

    def walk(self, heads: dict[str, Need], worst: dict[str, Need] | None = None) -> str:
        """The leaf that comes next; `heads` says what each would start. With `worst`, which gives first: what each
        queue has lost already.
        """

        def best(parent: str) -> tuple[RefQueue, str] | None:
            found = []
            for queue in self.below(parent):
                inner = (queue, queue.name) if queue.name in heads else best(queue.name)
                if inner is not None:
                    leaf = inner[1]
                    if worst is None:
                        place = self.place_of(queue, heads[leaf])
                    else:
                        gone = worst.get(queue.name, {})
                        less = {r: gone.get(r, 0) + heads[leaf].get(r, 0) for r in RESOURCES}
                        place = self.place_of(queue, {}, less)
                    found.append((place, queue, leaf))
            if not found:
                return None
            place, queue, leaf = (min if worst is None else max)(found, key=lambda each: each[0])
            return queue, leaf

        top = best("")
        assert top is not None
        return top[1]

    # --- placing ---

    def free(self, node: str) -> Need:
        left = dict(self.nodes[node])
        for pod, where in [*self.at.items(), *self.leaving.items()]:
            if where == node:
                for resource, amount in self.job_of(pod).need.items():
                    left[resource] = left.get(resource, 0) - amount
        for where, need in self.foreign.values():
            if where == node:
                for resource, amount in need.items():
                    left[resource] = left.get(resource, 0) - amount
        return left

    def fits(self, job: RefJob, node: str) -> bool:
        left = self.free(node)
        return all(left.get(resource, 0) >= amount for resource, amount in job.need.items())

    def bounded(self, job: RefJob) -> bool:
        """Whether one pod more of a job is within limits, and quotas if it may not be evicted."""
        for queue in self.path(job.queue):
            for resource, amount in job.need.items():
                quota, _, limit = queue.of(resource)
                if self.has(queue, resource) + amount > limit:
                    return False
                if not job.preemptible and self.fixed(queue, resource) + amount > quota:
                    return False
        return True

    def put(self, pod: str, node: str | None = None) -> str | None:
        """Place a pod on a node, or on the first one; None if that is not possible."""
        job = self.job_of(pod)
        if self.bounded(job):
            for each in sorted(self.nodes) if node is None else [node]:
                if each in self.nodes and self.fits(job, each):
                    self.at[pod] = each
                    self.away.discard(pod)
                    return each
        return None

    def put_all(self, pods: Sequence[str]) -> dict[str, str] | None:
        done: dict[str, str] = {}
        for pod in pods:
            node = self.put(pod)
            if node is None:
                for each in done:
                    del self.at[each]
                return None
            done[pod] = node
        return done

    def next_pods(self, job: RefJob) -> list[str]:
        left = sorted(pod for pod in job.pods if pod in self.waiting and pod not in self.at)
        active = sum(pod in self.at and pod not in self.kept for pod in job.pods)
        count = max(1, job.least - active)
        return left[:count] if len(left) >= count else []

    def first_waiting(self, jobs: Iterable[RefJob]) -> dict[str, RefJob]:
        """Leaf -> its first job."""
        heads: dict[str, RefJob] = {}
        for job in jobs:
            known = heads.get(job.queue)
            if known is None or self.waiting_key(job) < self.waiting_key(known):
                heads[job.queue] = job
        return heads

    def waiting_key(self, job: RefJob) -> tuple[Any, ...]:
        return self.key(job, sum(pod in self.at and pod not in self.kept for pod in job.pods))

    def pick(self, jobs: list[RefJob]) -> RefJob:
        heads = self.first_waiting(jobs)
        return heads[self.walk({leaf: self.need_of(job, self.next_pods(job)) for leaf, job in heads.items()})]

    def allocate(self) -> bool:
        """Place what fits, in order; returns whether anything did."""
        jobs = [job for job in self.jobs.values() if self.governed(job) and self.next_pods(job)]
        placed = False
        while jobs:
            job = self.pick(jobs)
            done = self.put_all(self.next_pods(job))
            if done is None:
                jobs.remove(job)
                continue
            placed = True
            self.waiting -= set(done)
            if not self.next_pods(job):
                jobs.remove(job)
        return placed

    # --- cycles ---

    def run(self) -> None:
        """Go on until nothing happens any more."""
        for _ in range(200):
            self.share_out()
            if self.allocate():
                continue
            waiting = [job for job in self.jobs.values() if self.governed(job) and self.next_pods(job)]
            if not self.make_room(self, waiting):
                return
        raise AssertionError("the reference goes on for ever")

    def come_back(self) -> int:
        """Evicted pods wait again, or arrive where a place was kept for them."""
        back = len(self.evicted)
        for pod in self.evicted:
            if pod in self.kept:
                self.kept.discard(pod)
            else:
                self.away.discard(pod)
                self.waiting.add(pod)
        self.evicted = []
        if back:
            self.run()
        return back
