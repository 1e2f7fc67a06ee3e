"""`moorage keeper`: looks after pods that were placed: away from nodes that go, back to spot capacity, as rules say."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.keeper.metrics import KeeperMetrics
from moorage.adapters.keeper.rehearsal import Rehearsal
from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.disruptions import Disruptions
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.events import EventRecorder
from moorage.adapters.listening import ListenError
from moorage.adapters.metrics.leadership import LeadershipMetrics
from moorage.adapters.metrics.objects import SkippedObjects
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.process import tune_service
from moorage.adapters.serving.probes import Address, Probes, probed
from moorage.app.caches import CacheError, Caches
from moorage.app.connection import connected, leadership_of, reached
from moorage.app.leadership import Leadership
from moorage.app.lifetime import Parts, first, stop_signal
from moorage.app.prices import Prices
from moorage.app.scheduler import watched_kinds
from moorage.core.commands import ClearNode, EvictPod, KeeperCommand, PatchNode, RecordEvent
from moorage.core.events import EvictDone, EvictOutcome, KeeperEvent, NodePatched, PatchDone
from moorage.core.strategies import STRATEGY_KINDS
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.configuration import Configuration
from moorage.framework.keeping import keeper_configuration
from moorage.framework.profiles import Profile
from moorage.views.story import ordered
from moorage.wire.kinds import BY_ID, Kind

_LONGEST_PAUSE_S = 1.0
"""The loop turns at least so often, as a sign of life for whoever renews our lease."""
_DRAIN_S = 2.0
_READ = (*sorted(STRATEGY_KINDS), "PodDisruptionBudget")
"""What the keeper itself reads beside pods and nodes."""

log = structlog.get_logger()


class StartError(Exception):
    """The keeper cannot start; the text is one line."""


@dataclass(frozen=True, slots=True)
class KeeperOptions:
    """What the command line says."""

    kubeconfig: str | None = None
    metrics_at: Address | None = None
    health_at: Address | None = None
    rehearse: Callable[[str], None] | None = None
    """Gets a line for each thing that would be done; None: it is done."""


def run_keeper(configuration: Configuration, profiles: Sequence[Profile], options: KeeperOptions) -> None:
    """Keep until SIGINT or SIGTERM; raises LeadershipLost when another replica has to."""
    try:
        asyncio.run(_until_stopped(configuration, profiles, options))
    except (KubeError, CacheError, ListenError) as error:
        raise StartError(str(error)) from None


async def _until_stopped(configuration: Configuration, profiles: Sequence[Profile], options: KeeperOptions) -> None:
    settings = keeper_configuration(configuration)
    # Who only pretends writes no lease either, and needs none.
    election = settings.leader_election if options.rehearse is None else None
    leadership = leadership_of(election, configuration, options.kubeconfig)
    async with connected(configuration, options.kubeconfig, leadership) as (client, events_client):
        process = KeeperProcess(Keeper(profiles, settings), profiles, client, events_client, options, leadership)
        probes = Probes(options.metrics_at, options.health_at, process.unready, process.metrics_page().render)
        await first(stop_signal(), clock.tell_of_jumps(), _serve(process, probes))


async def _serve(process: KeeperProcess, probes: Probes) -> None:
    async with probed(probes) as urls, process.running():
        log.info("serving", **urls)
        await process.work()


class KeeperProcess:
    """One keeper on one API server. Without `leadership` it acts as soon as its caches are filled."""

    def __init__(
        self,
        keeper: Keeper,
        profiles: Sequence[Profile],
        client: KubeClient,
        events_client: KubeClient,
        options: KeeperOptions,
        leadership: Leadership | None = None,
    ) -> None:
        self._keeper = keeper
        self._client = client
        self._leadership = leadership
        self._metrics = KeeperMetrics(keeper)
        self._recorder = EventRecorder(events_client, jitter=random.Random().random)
        self._binder = Binder(client, self._put, jitter=random.Random().random, in_flight=8)
        self._disruptions = Disruptions(client, self._put)
        self._rehearsal = None if options.rehearse is None else Rehearsal(options.rehearse, self._put)
        self._caches = Caches(client, _kinds(profiles), self._put)
        self._prices = Prices(profiles, client, self._put)
        self._inbox: list[KeeperEvent] = []
        self._wake = asyncio.Event()
        self._ticked_s = time.monotonic()
        self._acting = False
        self._unready = "not every kind has been listed yet"
        self._parts = Parts()

    def unready(self) -> str:
        """Why the keeper is not ready, empty when it is: it knows the whole cluster, whether or not it acts."""
        return self._unready

    def metrics_page(self) -> MetricsPage:
        """What `/metrics` answers."""
        collectors: list[Collector] = [self._metrics, SkippedObjects(self._caches.skipped), *self._prices.metrics()]
        if self._leadership is not None:
            name = self._leadership.election.resource_name
            collectors.append(LeadershipMetrics(name, self._leadership.leading))
        return MetricsPage(*collectors)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the cluster; stop cleanly at the end of the block."""
        chores = (self._loop(), self._recorder.run(), self._binder.run(), self._disruptions.run())
        self._parts.add(map(asyncio.create_task, chores))
        try:
            yield
        finally:
            self._acting = False
            if self._leadership is None or self._leadership.leading():
                await self._disruptions.drained(_DRAIN_S)
            if self._leadership is not None:
                await self._leadership.aclose()
            await self._recorder.flush(_DRAIN_S)
            await self._parts.aclose()
            await self._prices.aclose()

    async def work(self) -> None:
        """Fill the caches, wait for our turn, and act until a part of us dies; ends by raising."""
        await first(self._reign(), self._parts.failure())
        raise RuntimeError("the keeper ended by itself")

    async def _reign(self) -> None:
        served = await reached(self._client)
        self._parts.add([*self._caches.start(), *self._prices.start()])
        await self._caches.settle(served)
        await self._prices.settle()
        self._unready = ""
        tune_service(asyncio.get_running_loop())
        leadership = self._leadership
        if leadership is not None:
            leadership.start(lambda: self._ticked_s)
            await leadership.acquired()
            # What the keeper before us did last may not have come by watch yet.
            await self._caches.refresh()
        self._acting = True
        self._wake.set()
        log.info("keeping", nodes=self._keeper.world.state.node_count, pods=self._keeper.world.state.pod_count)
        if leadership is not None:
            await leadership.lost()
        await asyncio.Event().wait()

    # --- events in, commands out ---

    def _put(self, event: KeeperEvent) -> None:
        _complain(event)
        self._inbox.append(event)
        self._wake.set()

    async def _loop(self) -> None:
        while True:
            next_s = self._turn()
            pause_s = _LONGEST_PAUSE_S if next_s is None else min(_LONGEST_PAUSE_S, max(0.0, next_s - clock.now_s()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause_s)
            self._wake.clear()

    def _turn(self) -> float | None:
        self._ticked_s = time.monotonic()
        events, self._inbox = self._inbox, []
        acting = self._acting and (self._leadership is None or self._leadership.leading())
        commands, next_s = self._keeper.handle(events, clock.now_s(), acting=acting)
        self._metrics.observe()
        for fault in self._keeper.proofs.take_faults():
            log.error("a plugin failed", fault=fault)
        for command in commands:
            self._carry_out(command)
        return next_s

    def _carry_out(self, command: KeeperCommand) -> None:
        if self._rehearsal is not None:
            self._rehearsal.submit(command)
            return
        words = ordered(command)
        if words:
            log.info(words)
        if isinstance(command, RecordEvent):
            self._recorder.record(command)
        elif isinstance(command, EvictPod | PatchNode | ClearNode):
            self._disruptions.submit(command)
        else:
            self._binder.submit(command)


def _complain(event: KeeperEvent) -> None:
    if isinstance(event, EvictDone) and event.outcome in (EvictOutcome.REFUSED, EvictOutcome.FAILED):
        log.info("eviction not carried out", pod=event.uid, outcome=event.outcome.value, why=event.message)
    elif isinstance(event, NodePatched) and not event.ok:
        log.warning("node not written, it will be tried again", node=event.node, why=event.message)
    elif isinstance(event, PatchDone) and not event.ok:
        log.warning("not written", why=event.message)


def _kinds(profiles: Sequence[Profile]) -> list[Kind]:
    kinds = watched_kinds(profiles)
    known = {kind.id for kind in kinds}
    return [*kinds, *(BY_ID[name] for name in _READ if name not in known)]
