"""The laboratory: the real engine, its loop, binder, event recorder and client in virtual time, around them a cluster.

Jobs arrive, run and end; every request takes time at an API server that works on few at once. Nothing of the scheduler
is replaced; the engine is only watched: what a call costs, and what `after_turn` wants to see.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import Credentials, Identity
from moorage.adapters.kube.events import EventRecorder
from moorage.app.loop import DecisionLoop
from moorage.app.sources import Owners
from moorage.core.commands import AskExtenders, AskPreemption, Command, RecordEvent, ReleaseCapacity, RequestCapacity
from moorage.core.echo import answer_to
from moorage.core.events import Event, NodeSeen
from moorage.engine import makingroom
from moorage.engine.context import Stop
from moorage.engine.engine import Engine
from moorage.engine.obstacles import obstacle
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.cycle import Cycle
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.runner import Runner
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import read_configuration
from tests.contention.actors import EPOCH_S, JobController, Kubelets
from tests.contention.figures import Figures, Story, figures_of
from tests.contention.outside import SERVER, ApiServer, Terms
from tests.contention.shapes import Body, QueuePlan, Shape
from tests.contention.virtualtime import VirtualLoop, run_virtually

EXAMPLES = Path(__file__).parents[2] / "examples"
AfterTurn = Callable[["WatchedEngine", float, Sequence[Command]], None]
_UNLIMITED = 1 << 62
_ROUND = "make_room"


class WatchedEngine(Engine):
    """The engine, with a count of what it does. Each cycle of a pod takes virtual time."""

    def __init__(self, profiles: Sequence[Profile], settings: EngineSettings, spend: Callable[[int], None]) -> None:
        self.cycles = self.attempts = self.rounds = self.turns = 0
        self.cpu_s = 0.0
        self.after_turn: AfterTurn | None = None
        self._spend = spend
        super().__init__(profiles, settings, observer=self._cycle)

    def _cycle(self, _: Runner, __: Cycle) -> None:
        self.cycles += 1

    def handle(
        self, events: Iterable[Event], now: float, budget: int = _UNLIMITED, stop: Stop | None = None
    ) -> tuple[list[Command], float | None]:
        before, began_s = self.cycles, time.process_time()
        answer = super().handle(events, now, budget, stop)
        self.cpu_s += time.process_time() - began_s
        self.turns += 1
        self.attempts += len(self.gangs.tried)
        self.gangs.tried.clear()
        self._spend(self.cycles - before)
        if self.after_turn is not None:
            self.after_turn(self, now, answer[0])
        return answer


class Laboratory:
    """One run of one shape. Make it inside the event loop of its run."""

    def __init__(self, shape: Shape, terms: Terms | None = None) -> None:
        self.shape, self.terms = shape, terms or Terms()
        self.profiles, settings = _configured(shape.configuration)
        self.clock = asyncio.get_running_loop()
        self.engine = WatchedEngine(self.profiles, settings, self._spend)
        self.loop = DecisionLoop(self.engine, self._carry_out, now_s=self.now_s, timer_s=self.clock.time)
        owners = Owners(self.profiles, self.loop.put, lambda _: None)
        self.server = ApiServer(self.terms, owners.put)
        client = KubeClient(Credentials(SERVER, Identity(), source="the laboratory"), transport=self.server)
        self._recorder = EventRecorder(client, jitter=_even, hostname="lab", now_s=self.now_s)
        check = functools.partial(obstacle, self.engine.state, self.engine.bindings)
        self.binder = Binder(client, self.loop.put, jitter=_even, obstacle=check, now_s=self.now_s)
        self.story = Story({plan.name: plan for plan in shape.jobs})
        self.server.listeners.append(lambda what, pod: self.story.saw(self.clock.time(), what, pod))
        self._kubelets = Kubelets(self.server)
        self.jobs = JobController(self.server, self._kubelets, self.profiles[0].scheduler_name)

    def now_s(self) -> float:
        """The time of day."""
        return EPOCH_S + self.clock.time()

    def _spend(self, cycles: int) -> None:
        if isinstance(self.clock, VirtualLoop):
            self.clock.spend(cycles * self.terms.cycle_s)

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, RecordEvent):
            self._recorder.record(command)
        elif isinstance(command, RequestCapacity | ReleaseCapacity):
            answer = answer_to(command)
            if answer is not None:
                self.loop.put(answer)
        elif not isinstance(command, AskExtenders | AskPreemption):
            self.binder.submit(command)

    async def run(self, limit_s: float) -> Figures:
        """Until all Jobs have ended, or for the time."""
        self.loop.put_all(NodeSeen(node) for node in self.shape.nodes)
        for body in (
            *map(queue_body, [self.shape.resource] * len(self.shape.queues), self.shape.queues),
            *self.shape.objects,
        ):
            self.server.put_object(body)
        self.loop.start_deciding()
        self.jobs.submit(self.shape.jobs)
        works = [asyncio.create_task(each) for each in (self.loop.run(), self.binder.run(), self._recorder.run())]
        done = asyncio.create_task(self.jobs.done.wait())
        await asyncio.wait([*works, done], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for each in works:
            if each.done():
                each.result()  # raises
        everything = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for each in everything:
            each.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        return self._figures()

    def _figures(self) -> Figures:
        engine = self.engine
        found = figures_of(self.story, self.server, self.shape.capacity, self.jobs.left)
        return replace(found, attempts=engine.attempts, cycles=engine.cycles, rounds=engine.rounds, cpu_s=engine.cpu_s)


def play(
    shape: Shape, terms: Terms | None = None, limit_s: float = 600.0, watch: Callable[[Laboratory], None] | None = None
) -> Figures:
    """Run a shape in virtual time. `watch` may look at the laboratory before it starts."""

    async def main() -> Figures:
        lab = Laboratory(shape, terms)
        if watch is not None:
            watch(lab)
        with _counted_rounds(lab.engine):
            return await lab.run(limit_s)

    found: Figures = run_virtually(main())
    return found


@contextlib.contextmanager
def _counted_rounds(engine: WatchedEngine) -> Iterator[None]:
    """Count the searches for room that end in evictions or promises, wherever they begin."""
    real = getattr(makingroom, _ROUND)

    def counted(*args: object) -> object:
        engine.rounds += 1
        return real(*args)

    with mock.patch(f"{makingroom.__name__}.{_ROUND}", counted):
        yield


def _configured(example: str) -> tuple[tuple[Profile, ...], EngineSettings]:
    registry = Registry(BUILTIN)
    if not example:
        return build_profiles(Configuration(), registry), EngineSettings()
    reading = read_configuration((EXAMPLES / example).read_bytes(), example, registry)
    if reading.configuration is None:
        raise ValueError(f"{example}: {reading.problems}")
    return build_profiles(reading.configuration, registry), EngineSettings.of(reading.configuration, 0)


def queue_body(resource: str, queue: QueuePlan) -> Body:
    """The Queue object."""
    shares = {"quota": str(queue.quota), **({"limit": str(queue.limit)} if queue.limit is not None else {})}
    spec = {"resources": {resource: shares}, **({"parent": queue.parent} if queue.parent else {})}
    return {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec}


def _even() -> float:
    return 0.5
