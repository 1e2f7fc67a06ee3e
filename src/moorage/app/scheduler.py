"""`moorage scheduler`: a scheduler beside or instead of kube-scheduler, for pods that name one of its profiles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.journal.writer import JournalError
from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.discovery import ServedResources
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.events import EventRecorder
from moorage.adapters.kube.extenders import Extenders
from moorage.adapters.kube.intake import UNFINISHED_PODS, KindIntake, resource_of
from moorage.adapters.kube.leaserecord import TERM_ANNOTATION
from moorage.adapters.kube.reflector import Phase, Reflector
from moorage.adapters.kube.reviews import AccessReviews
from moorage.adapters.listening import ListenError
from moorage.adapters.metrics.leadership import LeadershipMetrics
from moorage.adapters.metrics.objects import SkippedObjects
from moorage.adapters.metrics.podresources import snapshot
from moorage.adapters.metrics.prices import PriceAge, PriceMetrics
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.reloads import ReloadMetrics
from moorage.adapters.metrics.scheduler import SchedulerMetrics
from moorage.adapters.process import tune_service
from moorage.adapters.serving.access import Gate
from moorage.adapters.serving.configz import configz
from moorage.adapters.serving.endpoints import Render, Sources
from moorage.adapters.serving.server import ServingOptions, serving
from moorage.adapters.serving.zpages import Component
from moorage.app.caches import Missing, tell_missing
from moorage.app.connection import connected, leadership_of, reached
from moorage.app.decisions import DecisionLog
from moorage.app.dump import dump_on_signal
from moorage.app.journal import JournalOptions, document_of, open_journal
from moorage.app.leadership import Leadership
from moorage.app.lifetime import Parts, cancel, first, stop_signal
from moorage.app.loop import DecisionLoop
from moorage.app.prices import Prices
from moorage.app.reload import Reloader
from moorage.app.selfcheck import SelfCheck
from moorage.core.commands import AskExtenders, AskPreemption, Bind, Command, RecordEvent
from moorage.core.echo import answer_to
from moorage.engine.engine import Engine, EngineSettings
from moorage.engine.obstacles import obstacle
from moorage.engine.queue import Backoff
from moorage.framework.configuration import Configuration
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile
from moorage.wire.kinds import KINDS, NODE, Kind, pod_kind
from moorage.wire.templates import TemplateTable

_ANSWERS_S = 30.0
"""How long a change of extenders waits for binds that may be theirs."""
_DRAIN_S = 5.0
_LEADER_DRAIN_S = 1.0
"""A standby takes over within 3 s of our end. Binds that are not sent by then are left to it."""
_ON_THE_WIRE_S = 0.5
"""How long we wait then for the answers to those that were sent: a pod that gets its node gets its event too."""
_FOLLOWED = frozenset({Phase.SYNCED, Phase.RETRYING})
_ESSENTIAL = ("Pod", "Node")
_WRITTEN_BY_LEADERS = frozenset(
    {"pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "resourceclaims", "podgroups"}
)
"""What a leader changes when it places pods, and the nodes. Of other kinds a standby knows as much as a leader does."""
_REVIEWS_QPS, _REVIEWS_BURST = 20.0, 40
"""Whoever asks for our metrics with made-up tokens must not keep the API server busy."""

log = structlog.get_logger()


class StartError(Exception):
    """The scheduler cannot start; the text is one line."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What the command line says."""

    kubeconfig: str | None = None
    dry_run: bool = False
    verbosity: int = 0
    seed: int = 0
    serving: ServingOptions | None = None
    """Where health and metrics are served; None: nowhere."""
    authentication_kubeconfig: str | None = None
    """Credentials for asking who reads metrics; None: the scheduler's own."""
    authorization_kubeconfig: str | None = None
    """Credentials for asking who may read metrics; None: the scheduler's own."""
    component: Component = field(default_factory=lambda: Component("moorage", ""))
    """How we present ourselves."""
    config_file: str | None = None
    """The file of the configuration, followed for changes; None: nothing is."""
    journal: JournalOptions | None = None
    """Where everything is written down; None: nowhere."""
    check_invariants: bool = False
    """Whether what the engine knows is recounted between turns."""


def run_scheduler(configuration: Configuration, profiles: Sequence[Profile], options: SchedulerOptions) -> None:
    """Schedule until SIGINT or SIGTERM; raises LeadershipLost when somebody else has to."""
    try:
        asyncio.run(_until_stopped(configuration, profiles, options))
    except (KubeError, ListenError, JournalError) as error:
        raise StartError(str(error)) from None


async def _until_stopped(configuration: Configuration, profiles: Sequence[Profile], options: SchedulerOptions) -> None:
    """Signals end the scheduler cleanly from its first moment on, also while it still fills its caches."""
    await first(stop_signal(), clock.tell_of_jumps(), _run(configuration, profiles, options))


async def _run(configuration: Configuration, profiles: Sequence[Profile], options: SchedulerOptions) -> None:
    # Who only pretends writes no lease either, and needs none.
    election = None if options.dry_run else configuration.leader_election
    leadership = leadership_of(election, configuration, options.kubeconfig)
    async with connected(configuration, options.kubeconfig, leadership) as (client, events_client):
        scheduler = Scheduler(configuration, profiles, options, client, events_client, leadership)
        served = _served(scheduler, configuration, options)
        async with contextlib.aclosing(scheduler), served, scheduler.running():
            tune_service(asyncio.get_running_loop())
            await scheduler.failure()


@contextlib.asynccontextmanager
async def _served(scheduler: Scheduler, configuration: Configuration, options: SchedulerOptions) -> AsyncIterator[None]:
    """Serve health, metrics and configuration, from before the first request to the API server until the very end."""
    if options.serving is None:
        yield
        return
    page = MetricsPage(*scheduler.collectors())
    async with _reviews(configuration, options) as reviews:
        gate = Gate(reviews, options.serving.always_allowed)
        sources = Sources(
            options.component,
            {"shutdown": scheduler.ending, "sched-handler-sync": scheduler.unready},
            page.render,
            lambda: scheduler.configz,
            scheduler.pod_resources,
            reviews.client_authority,
        )
        async with serving(options.serving, sources, gate) as url:
            log.info("serving", url=url)
            yield


@contextlib.asynccontextmanager
async def _reviews(configuration: Configuration, options: SchedulerOptions) -> AsyncIterator[AccessReviews]:
    """Who is asked about the readers of our metrics; apart from the client of the binds, and limited."""
    fallback = configuration.client_connection.kubeconfig
    files = (options.authentication_kubeconfig, options.authorization_kubeconfig)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            KubeClient(load_credentials(file or options.kubeconfig, fallback), qps=_REVIEWS_QPS, burst=_REVIEWS_BURST)
            for file in files
        ]
        for client in clients:
            await stack.enter_async_context(client)
        yield AccessReviews(*clients)


class Scheduler:
    """One engine on one API server."""

    def __init__(
        self,
        configuration: Configuration,
        profiles: Sequence[Profile],
        options: SchedulerOptions,
        client: KubeClient,
        events_client: KubeClient,
        leadership: Leadership | None = None,
    ) -> None:
        self.term = ""
        """The term that we lead in; empty without leader election, and while we do not lead."""
        self.configz = configz(configuration, profiles)
        """The configuration in force, as a document."""
        self._configuration = configuration
        self._options = options
        self._leadership = leadership
        self.engine = Engine(self._acting(profiles), _settings(configuration, options))
        self._journal = open_journal(
            options.journal,
            self.engine,
            document_of(configuration, profiles),
            seed=options.seed,
            version=options.component.version,
        )
        self.metrics = SchedulerMetrics(self.engine)
        self._reload_metrics = ReloadMetrics()
        self._client, self._events_client = client, events_client
        self._kinds = watched_kinds(profiles)
        carry_out = self._pretend if options.dry_run else self._carry_out
        self._loop = DecisionLoop(
            self.engine,
            carry_out,
            metrics=self.metrics,
            decision_log=DecisionLog.of(options.verbosity, dry_run=options.dry_run),
            leading=self._leading,
            tick_s=math.inf if leadership is None else leadership.election.renew_deadline_s / 2,
            journal=self._journal,
            selfcheck=SelfCheck(self.engine) if options.check_invariants else None,
        )
        jitter = random.Random().random
        self._recorder = EventRecorder(events_client, jitter=jitter)
        self._extenders = self._extenders_of(configuration)
        self._extending: list[asyncio.Task[None]] = []
        self._binder = Binder(
            client,
            self._loop.put,
            jitter=jitter,
            annotations=None if leadership is None else lambda: {TERM_ANNOTATION: self.term},
            delegate=self._bind_by_extender,
            obstacle=functools.partial(obstacle, self.engine.state, self.engine.flights),
        )
        self._prices = Prices(profiles, client, self._loop.put)
        self._pricing: list[asyncio.Task[None]] = []
        self._reflectors: list[Reflector[object]] = []
        self._parts: list[asyncio.Task[None]] = []
        self._followers = Parts()
        self._synced = False
        self._stopping = False
        """Whether we are on our way out in good order."""
        self._ending = False

    def unready(self) -> str:
        """Why the scheduler is not ready, empty when it is: it knows the whole cluster, whether or not it decides."""
        return "" if self._synced else "not every kind has been listed yet"

    def ending(self) -> str:
        """That the scheduler is about to end; empty while it is not."""
        return "the process is ending" if self._ending else ""

    def pod_resources(self) -> Render | None:
        """What pods request, for `/metrics/resources`; the leader tells it."""
        return snapshot(self.engine).render if self._leading() else None

    def collectors(self) -> list[Collector]:
        """What there is to measure."""
        skipped = SkippedObjects(lambda: ((each.left_out.kind, each.left_out.count) for each in self._reflectors))
        collectors: list[Collector] = [self.metrics, PriceMetrics(self._price_ages), skipped]
        if self._options.config_file is not None:
            collectors.append(self._reload_metrics)
        if self._leadership is not None:
            name = self._leadership.election.resource_name
            collectors.append(LeadershipMetrics(name, self._leadership.leading))
        return collectors

    def _price_ages(self) -> list[PriceAge]:
        return self._prices.ages()

    async def aclose(self) -> None:
        """Let go of the connections to extenders and to sources of prices, and of the journal."""
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)
        await self._prices.aclose()
        if self._extenders is not None:
            await self._extenders.close()

    async def failure(self) -> None:
        """Wait until a part of the running scheduler dies, and raise its error: half a scheduler is worse than none."""
        done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
        raise RuntimeError("a part of the scheduler ended by itself")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start everything and wait until the caches are filled, then decide, or stand by until it is our turn.

        Stops cleanly at the end of the block.
        """
        served = await reached(self._client)
        async with contextlib.AsyncExitStack() as stack:
            binding = asyncio.create_task(self._binder.run())
            tasks = [asyncio.create_task(self._loop.run()), binding, asyncio.create_task(self._recorder.run())]
            tasks.append(asyncio.create_task(dump_on_signal(self.engine)))
            tasks.append(asyncio.create_task(self._followers.failure()))
            self._start_extenders()
            stack.push_async_callback(cancel, tasks)
            stack.push_async_callback(self._drain, binding)
            stack.push_async_callback(self._followers.aclose)
            self._pricing = self._prices.start()
            self._followers.add(self._pricing)
            self._parts = tasks
            # A part that dies now would be waited for in vain.
            await first(self._fill(served), self.failure())
            self._synced = True
            if self._leadership is None:
                self._start_deciding()
            else:
                self._leadership.start(lambda: self._loop.ticked_s)
                reign = asyncio.create_task(first(self._leadership.lost(), self._reign(self._leadership)))
                stack.push_async_callback(cancel, [reign])
                self._parts.append(reign)
            if self._options.config_file is not None:
                reloader = asyncio.create_task(self._reloader(self._options.config_file).run())
                stack.push_async_callback(cancel, [reloader])
                self._parts.append(reloader)
            yield

    async def _fill(self, served: ServedResources) -> None:
        await self._settle(self._kinds, self._follow(self._kinds), served)
        await self._prices.settle()

    async def _reign(self, leadership: Leadership) -> None:
        """Wait until we lead, see what the leader before us did, and decide until we have lost; ends by raising.

        What a watch has not told us yet would let us give room away twice. So all that leaders write is read from the
        server anew: after the takeover nobody else writes, and a list that begins after it misses nothing.
        """
        term = await leadership.acquired()
        written = [each for each in self._reflectors if each.resource.plural in _WRITTEN_BY_LEADERS]
        synced = [reflector for reflector in written if reflector.state.phase in _FOLLOWED]
        for reflector in synced:
            reflector.refresh()
        for reflector in synced:
            await reflector.settled()
        if leadership.leading():
            self.term = self.engine.gangs.term = str(term)
            if self._journal is not None:
                self._journal.term(clock.now_s(), self.term)
            self._start_deciding()
        await leadership.lost()

    def _leading(self) -> bool:
        return self._leadership is None or self._leadership.leading()

    def _start_deciding(self) -> None:
        self._loop.start_deciding()
        log.info("scheduling", profiles=list(self.engine.runners), nodes=self.engine.state.node_count)

    # --- another configuration ---

    def _reloader(self, file: str) -> Reloader:
        return Reloader(file, self._configuration, self._reload, self._recorder.record, self._reload_metrics)

    async def _reload(self, configuration: Configuration, profiles: Sequence[Profile]) -> None:
        """Put a configuration in force; what can fail comes first. Kinds that nobody needs any more stay followed."""
        others = configuration.extenders != self._configuration.extenders
        extenders = self._extenders_of(configuration) if others else self._extenders
        followed = {kind.id for kind in self._kinds}
        new = [kind for kind in watched_kinds(profiles) if kind.id not in followed]
        self._kinds += new
        await self._settle(new, self._follow(new))
        await self._reprice(profiles)
        try:
            if others:
                # Binds and questions name extenders by their place in the configuration that they were decided with.
                self._loop.paused = True
                await self._loop.answered(_ANSWERS_S)
                await self._followers.drop(self._extending)
            settings = _settings(configuration, self._options)
            self._loop.reconfigure(self._acting(profiles), settings, document_of(configuration, profiles))
            if others:
                await self._replace_extenders(extenders)
        finally:
            self._loop.paused = False
        self._configuration, self.configz = configuration, configz(configuration, profiles)
        for reflector in self._reflectors:
            if reflector.resource.plural == "pods":
                reflector.refresh()

    async def _reprice(self, profiles: Sequence[Profile]) -> None:
        """Follow the prices of these profiles instead."""
        before, following = self._prices, self._pricing
        self._prices = Prices(profiles, self._client, self._loop.put)
        self._pricing = self._prices.start()
        self._followers.add(self._pricing)
        await self._prices.settle()
        await self._followers.drop(following)
        await before.aclose()

    def _extenders_of(self, configuration: Configuration) -> Extenders | None:
        """Those of a configuration. What is read for them must not use up the limit of the binds."""
        if not configuration.extenders:
            return None
        jitter = random.Random().random
        return Extenders(configuration.extenders, self._events_client, self._loop.put, jitter=jitter)

    def _start_extenders(self) -> None:
        self._extending = [] if self._extenders is None else [asyncio.create_task(self._extenders.run())]
        self._followers.add(self._extending)

    async def _replace_extenders(self, extenders: Extenders | None) -> None:
        """To be called when nobody asks those before any more; what they still had to answer is forgotten."""
        before, self._extenders = self._extenders, extenders
        self._start_extenders()
        if before is not None:
            await before.close()

    # --- following the cluster ---

    def _follow(self, kinds: Iterable[Kind]) -> list[Reflector[object]]:
        reflectors = [self._reflector(kind) for kind in kinds]
        self._reflectors += reflectors
        self._followers.add([asyncio.create_task(reflector.run()) for reflector in reflectors])
        return reflectors

    async def _settle(
        self, kinds: Iterable[Kind], reflectors: Iterable[Reflector[object]], served: ServedResources | None = None
    ) -> None:
        """Wait for the first list of every kind; what is not served or not allowed must not be essential."""
        missing: list[Missing] = []
        for kind, reflector in zip(kinds, reflectors, strict=True):
            state = await reflector.settled()
            if state.phase is Phase.SYNCED:
                continue
            if kind.name in _ESSENTIAL:
                raise StartError(f"{self._client.server}: cannot list {kind.plural}: {state.error or state.phase}")
            missing.append((kind, state, served is None or served.serves(reflector.resource)))
        tell_missing(missing)

    def _reflector(self, kind: Kind) -> Reflector[object]:
        intake = KindIntake(kind, self._loop.put)
        selector = UNFINISHED_PODS if kind.name == "Pod" else ""
        return Reflector(
            self._client,
            resource_of(kind),
            intake,
            parse=intake.parse,
            remains=intake.remains,
            jitter=random.Random().random,
            field_selector=selector,
            tells_refusal=False,
        )

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, RecordEvent):
            # Who lost the lease may find a pod bound where he wanted it, and must not tell it as his deed.
            if self._stopping or self._leading():
                self._recorder.record(command)
        elif isinstance(command, AskExtenders | AskPreemption):
            self._ask(command)
        else:
            self._binder.submit(command)

    def _ask(self, command: AskExtenders | AskPreemption) -> None:
        if self._extenders is not None:
            self._extenders.submit(command)

    async def _bind_by_extender(self, command: Bind) -> str | None:
        """Extenders write with their own hands, so the fence around our client does not stop them."""
        if not self._leading():
            return "this process is not the leader"
        return None if self._extenders is None else await self._extenders.bind(command)

    def _acting(self, profiles: Sequence[Profile]) -> Sequence[Profile]:
        """Profiles as they decide here. In a dry run nobody answers what PreBind would write, so it is left out.

        PostBind too: it gives up reservations (of volumes) that the objects themselves would show by then.
        """
        if not self._options.dry_run:
            return profiles
        return [profile.without(Point.PRE_BIND, Point.POST_BIND) for profile in profiles]

    def _pretend(self, command: Command) -> None:
        """With --dry-run nothing is written; a pod counts as bound where it would be.

        The watch alone says what is gone: a pod that would be evicted stays until it is deleted by somebody, and its
        room stays promised to the pod that would get it.
        """
        if isinstance(command, AskExtenders | AskPreemption):
            self._ask(command)  # questions change nothing
        elif (answer := answer_to(command)) is not None:
            self._loop.put(answer)

    async def _drain(self, binding: asyncio.Task[None]) -> None:
        """Finish what was begun. A standby waits for the lease, so it is given back before events are written."""
        self._loop.deciding, self._ending = False, True
        self._stopping = self._leading()
        drain_s = _DRAIN_S if self._leadership is None else _LEADER_DRAIN_S
        if self._stopping and not await self._binder.drained(drain_s):
            await self._client.finish(_ON_THE_WIRE_S)
        await cancel([binding])
        if self._leadership is not None:
            await self._leadership.aclose()
        await self._loop.heard(_ON_THE_WIRE_S)
        await self._recorder.flush(_DRAIN_S)


def _settings(configuration: Configuration, options: SchedulerOptions) -> EngineSettings:
    backoff = Backoff(configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s)
    return EngineSettings(backoff, options.seed, configuration.extenders)


def watched_kinds(profiles: Iterable[Profile]) -> list[Kind]:
    """Nodes, pods, and whatever the plugins of the profiles say they read and a server may have."""
    wanted = {kind for profile in profiles for plugin in profile.plugins for kind in plugin.kinds}
    table = TemplateTable()
    return [NODE, pod_kind(table), *(kind for kind in KINDS if kind.id in wanted and kind.served)]
