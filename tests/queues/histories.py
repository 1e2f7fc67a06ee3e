"""Random histories of a shared cluster, told to the engine and to the plain reference; both must always end alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.quantity import fineness
from moorage.core.queues import QUEUE_LABEL, Queue, ResourceShare
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Point, Reads
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.fair_share import FairShareArgs
from moorage.testing import make_pod
from tests.queues.reference import ENDLESS, Reference, RefJob, RefQueue
from tests.queues.reference_rounds import make_room
from tests.queues.teams import GPU
from tests.queues.worlds import CPU, MOST_RESTS, Job, World, make_job, random_queues, share_of_any

EVENTS = 14


class ByName(Plugin):
    """The node whose name comes first is the best."""

    name: ClassVar[str] = "ByName"
    reads: ClassVar[Reads] = Reads.NODE

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Names end with two digits."""
        return np.array([100 - int(cycle.state.node(int(row)).name[1:]) for row in rows], dtype=np.int64)


def profiles() -> Sequence[Profile]:
    """The default profile, which takes the first node that fits. What is left of a gang stays: the reference knows no
    time after which it would be evicted.
    """
    score = PluginSet(enabled=(EnabledPlugin("ByName"),), disabled=("*",))
    arguments = {
        "FairShare": FairShareArgs(stale_gang_seconds=-1.0, min_runtime_seconds=0.0, wait_for_ends_seconds=0.0)
    }
    written = ProfileConfiguration(points={Point.SCORE: score}, args=arguments)
    return build_profiles(Configuration(profiles=(written,)), Registry([*BUILTIN, ByName]))


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        queues, self.leaves = random_queues(draw)
        self.gangs = draw.random() < 0.4
        """Whether there are gangs; then no node is lost, as what happens to the rest of a gang is another question."""
        self.world = World(queues, [], profiles())
        self.reference = Reference(make_room)
        for queue in queues:
            self.reference.queues[queue.name] = as_reference(queue)
        self.serial = 0
        self.story: list[str] = []

    def tell(self) -> None:
        """Everything that happens."""
        for _ in range(self.draw.randint(1, 2)):
            self._node_comes()
        for _ in range(self.draw.randint(0, 6)):
            self._job_comes(self.leaves[:1])
            self._compare()  # evicted pods come back before the engine expects them no more
        events: list[Callable[[], None]] = [
            *[self._job_comes] * 10,
            *[self._job_ends] * 3,
            self._node_comes,
            *([] if self.gangs else [self._node_goes]),
            *[self._queue_changes] * 3,
            self._queue_moves,
            self._label_changes,
            self._foreign_comes,
            self._foreign_goes,
        ]
        for _ in range(EVENTS):
            self.draw.choice(events)()
            self._compare()

    def _compare(self) -> None:
        """Both have placed and evicted the same, and do so again when evicted pods are back, until they rest."""
        for _ in range(MOST_RESTS):
            evicted = sorted(pod.name for pod in self.world.evicted)
            ours = {name: node for name, node in self.world.placed().items() if not name.startswith("foreign")}
            ref = self.reference
            theirs = {pod: node for pod, node in ref.at.items() if pod not in ref.kept}
            told = "\n".join(self.story)
            assert evicted == sorted(ref.evicted), f"evicted {evicted}, the reference {sorted(ref.evicted)}\n{told}"
            assert ours == theirs, f"placed {ours}, the reference {theirs}\n{told}"
            if not evicted:
                return
            self.story.append(f"back: {evicted}")
            self.world.come_back()
            ref.come_back()
        raise AssertionError("evictions do not end")

    # --- events ---

    def _node_comes(self) -> None:
        if len(self.reference.nodes) >= 3:
            return
        gpus, cpus = self.draw.choice([0, 2, 4]), self.draw.choice([2, 4, 8])
        name = self.world.add_node(gpus, cpus)
        self.story.append(f"node {name}: {gpus} GPUs, {cpus} cores")
        self.reference.nodes[name] = {GPU: gpus, CPU: cpus * 1000}
        self.reference.run()

    def _node_goes(self) -> None:
        ref = self.reference
        if len(ref.nodes) < 2:
            return
        name = self.draw.choice(sorted(ref.nodes))
        if any(node == name for node, _ in ref.foreign.values()):
            return
        self.story.append(f"node {name} goes")
        self.world.lose_node(name)
        lost = [pod for pod, node in ref.at.items() if node == name]
        del ref.nodes[name]
        for pod in lost:
            del ref.at[pod]
        ref.run()
        ref.waiting |= set(lost)
        ref.run()

    def _job_comes(self, leaves: Sequence[str] = ()) -> None:
        draw = self.draw
        self.serial += 1
        size = draw.choice([1, 1, 2, 3]) if self.gangs else 1
        gpus = draw.choice([0, 1, 1, 2, 3])
        job = make_job(
            f"j{self.serial:02}",
            draw.choice(leaves or self.leaves),
            size,
            draw.randint(1, size),
            preemptible=draw.random() < 0.8,
            gpus=gpus,
            cpus=draw.choice([0, 1, 2]) if gpus else 1,
            priority=draw.choice([50, 50, 60]),
            created_s=float(self.serial),
        )
        told = f"{size} pods, {job.least} at least, {gpus} GPUs, preemptible {job.preemptible}"
        self.story.append(f"job {job.name} of {job.queue}, {job.pods[0].template.priority}: {told}")
        self.world.submit(job)
        self.reference.jobs[job.name] = reference_job(job)
        self.reference.waiting |= {pod.name for pod in job.pods}
        self.reference.run()

    def _job_ends(self) -> None:
        if not self.reference.jobs:
            return
        name = self.draw.choice(sorted(self.reference.jobs))
        self.story.append(f"job {name} ends")
        self.world.finish(name)
        ref = self.reference
        for pod in ref.jobs[name].pods:
            ref.at.pop(pod, None)
            ref.waiting.discard(pod)
        del ref.jobs[name]
        ref.run()

    def _queue_changes(self) -> None:
        queue = self.world.queues[self.draw.choice(sorted(self.world.queues))]
        changed = dict(queue.resources)
        changed.update([share_of_any(self.draw, 5, sorted(changed))])
        self._change(replace(queue, resources=FrozenDict(changed), priority=self.draw.choice([100, 150])))

    def _queue_moves(self) -> None:
        """A leaf gets another parent, which has children already."""
        queue = self.world.queues[self.draw.choice(self.leaves)]
        parents = {each.parent for each in self.world.queues.values()}
        if sum(each.parent == queue.parent for each in self.world.queues.values()) > 1 or not queue.parent:
            self._change(replace(queue, parent=self.draw.choice(sorted(parents))))

    def _change(self, queue: Queue) -> None:
        self.story.append(f"queue {queue}")
        self.world.change(queue)
        self.reference.queues[queue.name] = as_reference(queue)
        self.reference.run()

    def _label_changes(self) -> None:
        """A job moves to another queue."""
        if not self.reference.jobs:
            return
        name, leaf = self.draw.choice(sorted(self.reference.jobs)), self.draw.choice(self.leaves)
        self.story.append(f"job {name} moves to {leaf}")
        known = [pod for pod in [*self.world.standing(), *self.world.waiting()] if pod.name.startswith(f"{name}-")]
        labels = FrozenDict({**known[0].template.labels, QUEUE_LABEL: leaf})
        template = replace(known[0].template, labels=labels)
        self.world.see(*(replace(pod, template=template) for pod in known))
        self.reference.jobs[name].queue = leaf
        self.reference.run()

    def _foreign_comes(self) -> None:
        """A pod of another scheduler takes free room."""
        ref = self.reference
        node = self.draw.choice(sorted(ref.nodes))
        if ref.free(node).get(GPU, 0) < 1:
            return
        self.serial += 1
        name = f"foreign{self.serial}"
        self.story.append(f"{name} on {node}")
        pod = make_pod(name, requests={GPU: 1}, node=node, scheduler_name="other")
        self.world.play([PodSeen(pod)])
        ref.foreign[name] = node, {GPU: 1}
        ref.run()

    def _foreign_goes(self) -> None:
        if not self.reference.foreign:
            return
        name = self.draw.choice(sorted(self.reference.foreign))
        self.story.append(f"{name} goes")
        gone: list[Event] = [PodGone(f"default/{name}")]
        self.world.play(gone)
        del self.reference.foreign[name]
        self.reference.run()


def as_reference(queue: Queue) -> RefQueue:
    """A queue in the words of the reference."""

    def bound(amount: int, parts: int) -> int:
        return ENDLESS if amount >= UNLIMITED else amount // parts

    def numbers(each: ResourceShare, parts: int) -> tuple[int, int, int]:
        return bound(each.quota, parts), each.weight, bound(each.limit, parts)

    shares = {resource: numbers(each, fineness(resource)) for resource, each in queue.resources.items()}
    return RefQueue(queue.name, queue.parent, queue.priority, queue.created_s, shares)


def reference_job(job: Job) -> RefJob:
    """A job in the words of the reference."""
    pod = job.pods[0]
    need = dict(pod.requests.amounts)
    pods = [each.name for each in job.pods]
    return RefJob(job.name, job.queue, pods, job.least, need, pod.template.priority, pod.created_s, job.preemptible)


def told(seed: int) -> int:
    """Tell one history; returns how many pods were evicted in it."""
    history = History(seed)
    history.tell()
    return sum(line.startswith("back") for line in history.story)
