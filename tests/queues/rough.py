"""Random histories of a shared cluster that is never left alone: answers are late or say no, and calls end early."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    StatusDone,
)
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE, QUEUE_LABEL, Queue
from moorage.engine.context import Stop
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.fair_share import FairShareArgs
from tests.queues.worlds import World, random_job, random_queues, share_of_any

STEPS = 16
_PAUSES_S = (*[0.001] * 8, 0.2, 1.5, 1.5, 12.0, 70.0)
_BUDGETS = (0, 1, 2, *[1 << 62] * 7)


def random_profiles(draw: random.Random) -> Sequence[Profile]:
    """The default profile, which shares in one way or another."""
    arguments = FairShareArgs(
        consolidate=draw.random() < 0.8,
        stale_gang_seconds=draw.choice([-1.0, 0.0, 5.0, 60.0]),
        max_evictions_per_minute=draw.choice([1, 3, 10_000]),
        usage_factor=draw.choice([0.0, 0.0, 2.0]),
        usage_half_life_seconds=draw.choice([0.0, 60.0]),
        usage_window_seconds=600.0,
        min_runtime_seconds=draw.choice([0.0, 0.0, 5.0]),
        wait_for_ends_seconds=draw.choice([0.0, 10.0]),
    )
    written = ProfileConfiguration(args={"FairShare": arguments})
    return build_profiles(Configuration(profiles=(written,)), Registry(BUILTIN))


class RoughWorld(World):
    """A cluster that shows late what was done, and does not do everything."""

    def __init__(self, draw: random.Random, queues: list[Queue]) -> None:
        self.draw = draw
        self._pending: list[Event] = []
        """What happened and was not told yet."""
        self._leaving: list[Pod] = []
        """Deleted pods that still stand."""
        super().__init__(queues, [], random_profiles(draw))

    def play(self, events: list[Event]) -> None:
        """A few calls of the engine, some of them late, or with only a part of what has happened."""
        for event in events:
            if isinstance(event, PodGone):
                self.echo.pods.pop(event.uid, None)
        self._pending += events
        for _ in range(self.draw.choice([1, 1, 2, 5])):
            self._turn()

    def _turn(self) -> None:
        draw = self.draw
        count = len(self._pending) if draw.random() < 0.7 else draw.randint(0, len(self._pending))
        events, self._pending = self._pending[:count], self._pending[count:]
        commands, next_s = self.engine.handle(events, self.now, draw.choice(_BUDGETS), self._random_stop())
        self.commands += commands
        for command in commands:
            self._pending += self._answers(command)
        self.now += draw.choice(_PAUSES_S)
        if next_s is not None and draw.random() < 0.3:
            self.now = max(self.now, next_s)

    def _random_stop(self) -> Stop | None:
        if self.draw.random() < 0.8:
            return None
        left = [self.draw.choice([0, 1, 2, 5, 20])]

        def stop() -> bool:
            left[0] -= 1
            return left[0] < 0

        return stop

    def _answers(self, command: Command) -> list[Event]:
        draw, uid = self.draw, command.pod.uid
        if isinstance(command, DeletePod):
            return self._deletion(uid)
        if isinstance(command, Bind) and draw.random() < 0.1:
            return [BindDone(uid, BindOutcome.FAILED, command.node, "no")]
        if isinstance(command, PatchPodStatus) and command.token and draw.random() < 0.1:
            return [StatusDone(uid, ok=False, message="no", token=command.token)]
        return self.echo.events([command])

    def _deletion(self, uid: str) -> list[Event]:
        """The pod is gone, or will be, or stays."""
        draw, pod = self.draw, self.echo.pods.get(uid)
        if draw.random() < 0.15:
            return [DeleteDone(uid, ok=False, message="no")]
        if pod is None:
            return [DeleteDone(uid, ok=True)]
        self.evicted.append(pod)
        if draw.random() < 0.4:
            del self.echo.pods[uid]
            return [DeleteDone(uid, ok=True), PodGone(uid)]
        self._leaving.append(pod)
        if draw.random() < 0.5:
            return [DeleteDone(uid, ok=True)]
        pod = self.echo.pods[uid] = replace(pod, deleted_s=self.now + 30.0)
        return [DeleteDone(uid, ok=True), PodSeen(pod)]

    def let_go(self) -> None:
        """Some of the deleted pods are gone."""
        gone = [pod for pod in self._leaving if self.draw.random() < 0.5]
        self._leaving = [pod for pod in self._leaving if pod not in gone]
        self.play([PodGone(pod.uid) for pod in gone])


class RoughHistory:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        queues, self.leaves = random_queues(draw)
        if draw.random() < 0.3:
            periods = [None, 0.0, 30.0]
            queues = [
                replace(each, preempt_min_runtime_s=draw.choice(periods), reclaim_min_runtime_s=draw.choice(periods))
                for each in queues
            ]
        self.all_queues = queues
        self.world = RoughWorld(draw, queues)
        self.serial = 0

    def tell(self) -> None:
        """Everything that happens."""
        for _ in range(self.draw.randint(2, 4)):
            self._node_comes()
        for _ in range(self.draw.randint(0, 5)):
            self._job_comes(self.leaves[:1])
        events: list[Callable[[], None]] = [
            *[self._job_comes] * 12,
            *[self._job_ends] * 5,
            *[self.world.let_go] * 4,
            *[self._come_back] * 4,
            *[self._time_passes] * 3,
            *[self._queue_changes] * 3,
            self._queue_moves,
            self._queue_goes,
            *[self._queue_comes] * 3,
            self._label_changes,
            self._node_comes,
            self._node_goes,
        ]
        for _ in range(STEPS):
            self.draw.choice(events)()

    def _time_passes(self) -> None:
        self.world.play([])

    def _come_back(self) -> None:
        self.world.come_back()

    def _node_comes(self) -> None:
        if len(self.world.engine.state.rows()) < 5:
            self.world.add_node(self.draw.choice([0, 2, 2, 4, 4]), self.draw.choice([4, 8, 8]))

    def _node_goes(self) -> None:
        state = self.world.engine.state
        names = sorted(state.node(int(row)).name for row in state.rows())
        if len(names) > 1:
            self.world.lose_node(self.draw.choice(names))

    def _job_comes(self, leaves: Sequence[str] = ()) -> None:
        self.serial += 1
        leaves = list(leaves or self.leaves)
        self.world.submit(random_job(self.draw, f"j{self.serial:02}", leaves, float(self.serial)))

    def _job_ends(self) -> None:
        if self.world.jobs:
            self.world.finish(self.draw.choice(sorted(self.world.jobs)))

    def _queue_changes(self) -> None:
        queue = self._any_queue()
        if queue is not None:
            changed = dict(queue.resources)
            changed.update([share_of_any(self.draw, 5, sorted(changed))])
            priority = self.draw.choice([100, 150])
            self.world.change(replace(queue, resources=FrozenDict(changed), priority=priority))

    def _queue_moves(self) -> None:
        queue = self._any_queue()
        if queue is not None:
            self.world.change(replace(queue, parent=self.draw.choice([each.parent for each in self.all_queues])))

    def _queue_goes(self) -> None:
        """One queue, or all of them."""
        names = sorted(self.world.queues)
        if names and self.draw.random() < 0.9:
            names = [self.draw.choice(names)]
        for name in names:
            del self.world.queues[name]
        self.world.play([ObjectGone(QUEUE, name) for name in names])

    def _queue_comes(self) -> None:
        """Queues that are gone come again, or one of them does."""
        gone = [each for each in self.all_queues if each.name not in self.world.queues]
        for queue in gone if self.draw.random() < 0.8 else gone[:1]:
            self.world.queues[queue.name] = queue
            self.world.play([ObjectSeen(QUEUE, queue.name, queue)])

    def _any_queue(self) -> Queue | None:
        names = sorted(self.world.queues)
        return self.world.queues[self.draw.choice(names)] if names else None

    def _label_changes(self) -> None:
        """A job moves to another queue."""
        if not self.world.jobs:
            return
        name, leaf = self.draw.choice(sorted(self.world.jobs)), self.draw.choice(self.leaves)
        known = [pod for pod in [*self.world.standing(), *self.world.waiting()] if pod.name.startswith(f"{name}-")]
        if known:
            labels = FrozenDict({**known[0].template.labels, QUEUE_LABEL: leaf})
            template = replace(known[0].template, labels=labels)
            self.world.see(*(replace(pod, template=template, requests=template.requests) for pod in known))
