"""`moorage keeper`: moves placed pods: off nodes that go away, back to spot capacity, and as their rules say."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.keeper.dry_run import KeeperDryRun
from moorage.adapters.keeper.metrics import KeeperMetrics
from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.disruptions import Disruptions
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.serving.probes import Address, Probes, probed
from moorage.app.connection import connected, leadership_of
from moorage.app.leadership import Leadership
from moorage.app.process import Process, run, tuned, until_stopped
from moorage.app.sources import Following, watched_kinds
from moorage.app.webhookcheck import WebhookCheck
from moorage.core.commands import ClearNode, EvictPod, KeeperCommand, PatchNode, RecordEvent
from moorage.core.events import EvictDone, EvictOutcome, KeeperEvent, NodePatched, PatchDone
from moorage.core.strategies import STRATEGY_KINDS
from moorage.core.values import dataclass
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.admitting import webhook_configuration
from moorage.framework.configuration import Configuration
from moorage.framework.keeping import keeper_configuration
from moorage.framework.profiles import Profile
from moorage.views.story import ordered

_ASK_S = 2.0
"""How often the webhook is asked while a repair depends on it."""
_LONGEST_PAUSE_S = 1.0
"""The loop runs at least this often, as a heartbeat for the renewal of the lease."""
_DRAIN_S = 2.0
_READ = (*sorted(STRATEGY_KINDS), "PodDisruptionBudget")
"""What the keeper itself reads in addition to pods and nodes."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class KeeperOptions:
    """Options of the command."""

    kubeconfig: str | None = None
    metrics_at: Address | None = None
    health_at: Address | None = None
    dry_run: Callable[[str], None] | None = None
    """Gets a line for each command instead of carrying it out; None: commands are carried out."""


def run_keeper(configuration: Configuration, profiles: Sequence[Profile], options: KeeperOptions) -> None:
    """Run until SIGINT or SIGTERM; raises LeadershipLost when another replica takes over."""
    run(_main(configuration, profiles, options))


async def _main(configuration: Configuration, profiles: Sequence[Profile], options: KeeperOptions) -> None:
    settings = keeper_configuration(configuration)
    # A dry run writes no lease either, and needs none.
    election = settings.leader_election if options.dry_run is None else None
    leadership = leadership_of(election, configuration, options.kubeconfig)
    async with connected(configuration, options.kubeconfig, leadership) as (client, events_client):
        check = WebhookCheck(client, webhook_configuration(configuration).webhook_name)
        process = KeeperProcess(Keeper(profiles, settings), profiles, client, events_client, options, leadership, check)
        page = MetricsPage(*process.collectors())
        probes = Probes(options.metrics_at, options.health_at, process.unready, page.render)
        await until_stopped(_serve(process, probes), tuned(process))


async def _serve(process: KeeperProcess, probes: Probes) -> None:
    async with probed(probes) as urls, process.running():
        log.info("serving", **urls)
        await process.work()


class KeeperProcess(Process):
    """One keeper on one API server."""

    name = "keeper"

    def __init__(
        self,
        keeper: Keeper,
        profiles: Sequence[Profile],
        client: KubeClient,
        events_client: KubeClient,
        options: KeeperOptions,
        leadership: Leadership | None,
        webhook: WebhookCheck,
    ) -> None:
        following = Following(client, watched_kinds(profiles, _READ), profiles, self._put)
        super().__init__(client, events_client, following, leadership)
        self._keeper = keeper
        self._webhook = webhook
        self._metrics = KeeperMetrics(keeper)
        self._binder = Binder(client, self._put, jitter=random.Random().random, in_flight=8)
        self._disruptions = Disruptions(client, self._put)
        self._dry_run = None if options.dry_run is None else KeeperDryRun(options.dry_run, self._put)
        self._inbox: list[KeeperEvent] = []
        self._wake = asyncio.Event()
        self._ticked_s = time.monotonic()
        self._acting = False

    def collectors(self) -> list[Collector]:
        """The metrics."""
        return [self._metrics, *super().collectors()]

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        return self._loop(), self._binder.run(), self._disruptions.run(), self._ask_webhook()

    async def _begin(self, term: str) -> None:  # noqa: ARG002 - terms mean nothing to a keeper
        self._acting = True
        self._wake.set()
        log.info("keeping", nodes=self._keeper.world.state.node_count, pods=self._keeper.world.state.pod_count)

    def _heartbeat_s(self) -> float:
        return self._ticked_s

    async def _finish(self) -> None:
        self._acting = False
        if self.leading():
            await self._disruptions.drained(_DRAIN_S)
        await super()._finish()
        await self._webhook.aclose()

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
                async with asyncio.timeout(pause_s):  # not wait_for, which may miss that it is cancelled
                    await self._wake.wait()
            self._wake.clear()

    async def _ask_webhook(self) -> None:
        while True:
            if self._keeper.wants_webhook(clock.now_s()):
                self._put(await self._webhook.ask())
            await asyncio.sleep(_ASK_S)

    def _turn(self) -> float | None:
        self._ticked_s = time.monotonic()
        events, self._inbox = self._inbox, []
        acting = self._acting and self.leading()
        commands, next_s = self._keeper.handle(events, clock.now_s(), acting=acting)
        self._metrics.observe()
        for fault in self._keeper.proofs.take_faults():
            log.error("a plugin failed", fault=fault)
        for command in commands:
            self._carry_out(command)
        return next_s

    def _carry_out(self, command: KeeperCommand) -> None:
        if self._dry_run is not None:
            self._dry_run.submit(command)
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
        log.warning("node not patched, it will be tried again", node=event.command.node, why=event.message)
    elif isinstance(event, PatchDone) and not event.ok:
        log.warning("not written", why=event.message)
