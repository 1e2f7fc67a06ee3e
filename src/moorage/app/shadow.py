"""`moorage shadow`: follows another scheduler on a live cluster, and compares; it writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import structlog
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.shadow import LAG_BOUNDS_S, ShadowMetrics
from moorage.adapters.metrics.tally import BucketTally
from moorage.adapters.serving.probes import Address, Probes, probed
from moorage.app.connection import connected
from moorage.app.inbox import Inbox
from moorage.app.lifetime import first, stop_signal
from moorage.app.process import Process, run, tuned, until_stopped
from moorage.app.sources import Following, watched_kinds
from moorage.core.events import Event, PodSeen
from moorage.core.strategies import STRATEGY_KINDS
from moorage.core.values import dataclass
from moorage.engine.settings import EngineSettings
from moorage.engine.shadowing.following import Follow
from moorage.engine.shadowing.owning import Own
from moorage.engine.shadowing.profiles import judge_of
from moorage.engine.shadowing.shadow import ShadowTerms
from moorage.engine.shadowing.verdicts import ShadowVerdict
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.views.shadow import Lag, ShadowReport
from moorage.views.standing import Standing, StandingMeasure

FOLLOW, OWN = "follow", "own"
_TURN_S = 0.05
_LONGEST_PAUSE_S = 1.0
_STEP = 8
"""Differences that are judged again, or calls of the engine, between two looks at the clock."""
_CLOSING_S = 10.0
"""How long differences are judged after the end: a container is killed after 30 seconds, and its report lost."""
TOLD_EVERY_S = 60.0
_READ = (*sorted(STRATEGY_KINDS), "PodDisruptionBudget")
"""What the figures read in addition to the profiles."""

log = structlog.get_logger()


class _Begin:
    """Stands in the inbox behind everything that the first lists brought."""


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """Options of the command."""

    schedulers: Sequence[str]
    mode: str = FOLLOW
    kubeconfig: str | None = None
    duration_s: float | None = None
    """How long decisions are compared; None: until a signal."""
    metrics_at: Address | None = None
    health_at: Address | None = None
    publish: Callable[[ShadowReport], None] | None = None
    """Gets a report every `TOLD_EVERY_S`, in the event loop."""


def run_shadow(configuration: Configuration, profiles: Sequence[Profile], options: ShadowOptions) -> ShadowReport:
    """Compare until SIGINT or SIGTERM, or for the duration; returns what was found."""
    found: list[ShadowReport] = []

    async def main() -> None:
        async with connected(configuration, options.kubeconfig, None) as (client, events_client):
            shadow = _shadow(configuration, profiles, options)
            process = ShadowProcess(shadow, profiles, client, events_client, options.schedulers)
            page = MetricsPage(*process.collectors())
            probes = Probes(options.metrics_at, options.health_at, process.unready, page.render)
            stop = first(stop_signal(), process.elapsed(options.duration_s))
            await until_stopped(_serve(process, probes), tuned(process), process.tell(options.publish), stop=stop)
            found.append(process.report())

    run(main())
    return found[0]


def _shadow(configuration: Configuration, profiles: Sequence[Profile], options: ShadowOptions) -> Follow | Own:
    settings = EngineSettings.of(configuration, seed=0)
    settings = EngineSettings(settings.backoff, settings.seed)  # extenders are not asked
    return (Own if options.mode == OWN else Follow)(ShadowTerms(profiles, options.schedulers, settings))


async def _serve(process: ShadowProcess, probes: Probes) -> None:
    async with probed(probes) as urls, process.running():
        log.info("serving", **urls)
        await process.work()


def _size_of(event: Event | _Begin) -> int:
    """How much a waiting event keeps, of what tenants can make large."""
    return event.pod.template.size if isinstance(event, PodSeen) else 0


class ShadowProcess(Process):
    """One shadow on one API server."""

    name = "shadow"

    def __init__(
        self,
        shadow: Follow | Own,
        profiles: Sequence[Profile],
        client: KubeClient,
        events_client: KubeClient,
        schedulers: Collection[str],
    ) -> None:
        following = Following(client, watched_kinds(profiles, _READ), profiles, self._put)
        super().__init__(client, events_client, following)
        self.shadow = shadow
        self._judges = {name: judge_of(profiles, name).scheduler_name for name in schedulers}
        self._measures = [StandingMeasure(engine) for engine in shadow.worlds if engine is not None]
        self._lags = BucketTally(LAG_BOUNDS_S)
        self._metrics = ShadowMetrics(shadow.ledger.counts, self._lags, self._standings)
        self._inbox: Inbox[Event | _Begin] = Inbox(self._take, _size_of)
        self._skips = False
        """Whether decisions were not compared since the inbox was last empty."""
        self._wake = asyncio.Event()
        self._begun = asyncio.Event()
        self._began_s = clock.now_s()
        self._cpu_before_s = time.process_time()

    def collectors(self) -> list[Collector]:
        """The metrics."""
        return [self._metrics, *super().collectors()]

    def report(self) -> ShadowReport:
        """What was found so far."""
        standings, ledger = self._standings(), self.shadow.ledger
        return ShadowReport(
            mode=self.shadow.mode,
            schedulers=self._judges,
            began_s=self._began_s,
            ended_s=clock.now_s(),
            counts=ledger.counts,
            differences=tuple(ledger.differences),
            evictions=tuple(ledger.evictions),
            there=standings["there"],
            here=standings.get("here"),
            cpu_s=time.process_time() - self._cpu_before_s,
            lag=Lag(self._lags.quantile(0.5), self._lags.quantile(0.99), self._lags.most),
        )

    async def elapsed(self, duration_s: float | None) -> None:
        """Wait until decisions have been compared for so long."""
        await self._begun.wait()
        await (asyncio.Event().wait() if duration_s is None else asyncio.sleep(duration_s))

    async def tell(self, publish: Callable[[ShadowReport], None] | None) -> None:
        """Report from time to time, in the log and to `publish`."""
        await self._begun.wait()
        while True:
            await asyncio.sleep(TOLD_EVERY_S)
            counts = self.shadow.ledger.counts
            verdicts = {str(each): counts.of(each) for each in ShadowVerdict}
            log.info("compared", decisions=counts.decisions, skipped=counts.skipped, **verdicts)
            if publish is not None:
                try:
                    publish(self.report())
                except OSError as error:  # perhaps it can be written the next time
                    log.warning("the report could not be written", error=str(error))

    # --- lifecycle ---

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        return (self._loop(),)

    async def _begin(self, term: str) -> None:  # noqa: ARG002 - there is no election
        self._inbox.put(_Begin())
        self._wake.set()

    async def _finish(self) -> None:
        end_s = time.monotonic() + _CLOSING_S

        def in_time() -> bool:
            return time.monotonic() < end_s

        while self._inbox and self._begun.is_set():  # what has arrived was decided before the end
            self._inbox.take(compares=in_time())
        self.shadow.finish(clock.now_s(), in_time)
        await super()._finish()

    # --- events in ---

    def _put(self, event: Event) -> None:
        self._inbox.put(event)
        self._wake.set()

    async def _loop(self) -> None:
        while True:
            next_s = self._turn()
            pause_s = _LONGEST_PAUSE_S if next_s is None else min(_LONGEST_PAUSE_S, max(0.0, next_s - clock.now_s()))
            if self._inbox or not pause_s:
                await asyncio.sleep(0)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):  # not wait_for, which may miss that it is cancelled
                    await self._wake.wait()
            self._wake.clear()

    def _turn(self) -> float | None:
        """Take events for a while, then judge what is due."""
        end_s = time.monotonic() + _TURN_S
        while self._inbox and time.monotonic() < end_s:
            self._inbox.take()
        self._skips = self._skips and bool(self._inbox)
        next_s = self.shadow.review(clock.now_s(), _STEP)
        for engine in self.shadow.worlds:
            for fault in [] if engine is None else engine.faults.take():
                log.error("a plugin failed", fault=fault)
        return next_s

    def _take(self, event: Event | _Begin, arrived_s: float, compares: bool) -> None:
        if isinstance(event, _Begin):
            self.shadow.begin()
            self._began_s, self._cpu_before_s = clock.now_s(), time.process_time()
            self._begun.set()
            state = self.shadow.worlds[0].state
            log.info("comparing", mode=self.shadow.mode, nodes=state.node_count, pods=state.pod_count, **self._told())
            return
        skipped = self.shadow.ledger.counts.skipped
        self.shadow.tell(event, clock.now_s(), compares=compares)
        if self.shadow.ledger.counts.skipped > skipped and not self._skips:
            self._skips = True
            log.warning("decisions come faster than they are compared; some are not", waiting=len(self._inbox))
        if self._begun.is_set():
            self._lags.observe(time.monotonic() - arrived_s)

    def _told(self) -> dict[str, str]:
        return {"schedulers": ", ".join(f"{name} (profile {judge})" for name, judge in self._judges.items())}

    def _standings(self) -> Mapping[str, Standing]:
        return dict(zip(("there", "here"), (measure.take() for measure in self._measures), strict=False))
