"""The demo on the dashboard: a view that shows the demo to another one and, in a thread of its own, to browsers.

The stage stays in its thread. What happens there goes to the dashboard's world as plain events; what visitors want
done waits until the stage has finished a step.
"""

from __future__ import annotations

import asyncio
import copy
import queue
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from moorage.adapters.dashboard.advice import adviser
from moorage.adapters.dashboard.backend import DashboardBackend, Refused, StrategyChange, Surroundings
from moorage.adapters.dashboard.security import Guard
from moorage.adapters.dashboard.server import BOUNDS, application
from moorage.adapters.listening import ListenError, listening
from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.errors import ApiError
from moorage.core.events import ObjectSeen, TrialRecalled
from moorage.core.prices import PRICE_LIST
from moorage.core.trials import TrialRecord
from moorage.sim.costs import input_prices
from moorage.sim.demo.loop import View
from moorage.sim.demo.scenario import Scenario
from moorage.sim.demo.stage import DemoStage
from moorage.sim.feed import Feed
from moorage.sim.inputs import ClusterInput
from moorage.sim.simulation import SimulationRules
from moorage.sim.whatif_requests import RequestError, answer
from moorage.views.previews import rules_of
from moorage.views.words import Happening
from moorage.views.world import QueueEntry, QueueTold, Settled, Told, World
from moorage.wire.workloadkinds import workloads_in

T = TypeVar("T")
_START_S = 60.0
_UNREAD_KINDS = frozenset({"Event"})


class Broadcast:
    """A view of a demo that browsers can see, too; a context manager.

    `url` is where; it is empty if listening is not permitted, and the demo continues without it.
    """

    def __init__(
        self,
        stage: DemoStage,
        rules: SimulationRules,
        scenario: Scenario,
        *,
        port: int = 0,
        token: str = "",
        title: str = "demo",
    ) -> None:
        self.url = ""
        self.view: View | None = None
        """The other views."""
        self.stage = stage
        self._rules = rules
        self._scenario = scenario
        self._port = port
        self._token = token
        self._title = title
        self._feed = Feed(stage.cluster, workloads=workloads_in(rules.profiles))
        self._deeds: queue.SimpleQueue[tuple[Callable[[EmbeddedCluster], Any], Future[Any]]] = queue.SimpleQueue()
        self._waiting: tuple[QueueEntry, ...] | None = None
        self._trial: TrialRecord | None = None
        self._backend: DashboardBackend | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Event | None = None
        self._ready = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._serve_in_thread, name="dashboard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(_START_S)
        if self._fault is not None and not isinstance(self._fault, OSError | ListenError):
            raise self._fault
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._done is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join(_START_S)

    # --- in the stage's thread ---

    def show(self, stage: DemoStage, happenings: Sequence[Happening]) -> None:
        """Do what visitors asked for, and tell what is new."""
        while not self._deeds.empty():
            deed, future = self._deeds.get()
            try:
                future.set_result(stage.act(deed))
            except ApiError as error:
                future.set_exception(Refused(error.message))
        if self._backend is not None:
            began_s = stage.cluster.now_s - stage.elapsed_s
            happened = (replace(each, at_s=began_s + each.at_s) for each in happenings)
            told: list[Told] = [*self._feed.pull(), *happened, *self._queued(), *self._tried()]
            if told:
                self._backend.put_from_elsewhere(told)
        if self.view is not None:
            self.view.show(stage, happenings)

    def _tried(self) -> list[Told]:
        """The trial of that engine, if there is something new about it."""
        record = self.stage.engine.sides.snapshot(self.stage.cluster.now_s)
        if record is None or (self._trial is not None and replace(record, ran_s=self._trial.ran_s) == self._trial):
            return []
        self._trial = record
        return [TrialRecalled(record)]

    def _queued(self) -> list[Told]:
        """The queue of the engine that decides, if it has changed."""
        entries = tuple(
            QueueEntry(entry.pod.uid, entry.place, entry.attempts, entry.first_s, entry.message, tuple(entry.story))
            for entry in self.stage.engine.queue.entries()
        )
        if entries == self._waiting:
            return []
        self._waiting = entries
        return [QueueTold(entries)]

    # --- in the dashboard's thread ---

    def _serve_in_thread(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - handed to the thread that started this one
            self._fault = error
        finally:
            self._backend = None
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        rules = self._rules
        world = World(
            rules.profiles,
            answers_to_all=True,
            keeper=self._scenario.keeper,
            seed=rules.settings.seed,
            derives=False,
            trial=rules.settings.trial,
        )
        backend = DashboardBackend(world, self._surroundings())
        backend.put(*_prices(self._scenario, rules, self.stage.cluster.now_s), Settled())
        news = asyncio.create_task(backend.run())
        app = application(backend, Guard("127.0.0.1", self._token))
        try:
            async with _on_a_free_port(app, self._port) as url:
                self.url = f"{url}#token={self._token}" if self._token else url
                self._backend = backend
                self._ready.set()
                await self._done.wait()
        finally:
            self._backend = None
            backend.close()
            news.cancel()

    def _surroundings(self) -> Surroundings:
        cluster = self.stage.cluster
        return Surroundings(
            mode="demo",
            title=self._title,
            now_s=lambda: cluster.now_s,
            writes=bool(self._token),
            apply=self._apply,
            # Stored objects are never changed in place, so that reading one needs no lock.
            suggest=adviser(cluster.store.find),
            what_if=self._what_if,
        )

    async def _done_on_stage(self, deed: Callable[[EmbeddedCluster], T]) -> T:
        future: Future[T] = Future()
        self._deeds.put((deed, future))
        return await asyncio.wrap_future(future)

    async def _apply(self, change: StrategyChange) -> None:
        body: dict[str, Any] = {"metadata": {"annotations": {change.key: change.text}}}
        if not change.key:
            body = {"spec": {"rules": rules_of(change.text)}}
        await self._done_on_stage(
            lambda cluster: cluster.patch(change.kind, change.namespace, change.name, body) and None
        )

    async def _what_if(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        objects = await self._done_on_stage(_objects)
        rules = SimulationRules(self._rules.profiles, self._rules.settings, answers_to_all=True)
        try:
            return await asyncio.to_thread(partial(answer, objects, rules, asked, "the demo"))
        except RequestError as error:
            raise Refused(str(error)) from None


def _objects(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    store = cluster.store
    return [copy.deepcopy(dict(obj)) for kind in store.kinds() if kind not in _UNREAD_KINDS for obj in store.list(kind)]


def _prices(scenario: Scenario, rules: SimulationRules, now_s: float) -> list[Told]:
    """What the nodes of the demo cost, as its profiles say, else the scenario."""
    found = input_prices(ClusterInput(), rules.profiles, now_s)
    prices = found.figures_from or scenario.prices
    return [*found.events, *([] if prices is None else [ObjectSeen(PRICE_LIST, prices.key, prices)])]


@asynccontextmanager
async def _on_a_free_port(app: web.Application, port: int) -> AsyncIterator[str]:
    """Serve on this port of this machine, or on any other if it is taken."""
    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(listening(app, "127.0.0.1", port, bounds=BOUNDS))
        except ListenError:
            url = await stack.enter_async_context(listening(app, "127.0.0.1", 0, bounds=BOUNDS))
        yield f"{url}/"
