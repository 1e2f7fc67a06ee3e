"""`moorage scheduler`: a scheduler beside or instead of kube-scheduler, for pods that name one of its profiles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import field, replace
from typing import Any

import structlog
from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.journal.writer import JournalError
from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.extenders import Extenders
from moorage.adapters.kube.provisioning import CapacityRequests
from moorage.adapters.kube.reviews import AccessReviews
from moorage.adapters.metrics.podresources import snapshot
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.reloads import ReloadMetrics
from moorage.adapters.metrics.scheduler import SchedulerMetrics
from moorage.adapters.metrics.trials import TrialMetrics
from moorage.adapters.probing import Render
from moorage.adapters.serving.access import Gate
from moorage.adapters.serving.configz import configz
from moorage.adapters.serving.endpoints import EndpointSources
from moorage.adapters.serving.server import ServingOptions, serving
from moorage.adapters.serving.zpages import Component
from moorage.adapters.tracing.settings import TracingError
from moorage.app.connection import connected, leadership_of, reached
from moorage.app.decisions import DecisionLog, accounts_at
from moorage.app.dump import dump_on_signal
from moorage.app.identity import own_pod
from moorage.app.journal import JournalOptions, document_of, open_journal
from moorage.app.leadership import Leadership
from moorage.app.lifetime import first
from moorage.app.loop import DecisionLoop
from moorage.app.process import STOPPING, UNLISTED, Process, run, tuned, until_stopped
from moorage.app.queuestatus import write_queue_statuses
from moorage.app.reload import REPORTER, Reloader
from moorage.app.selfcheck import SelfCheck
from moorage.app.sources import Following, watched_kinds
from moorage.app.tracing import Traces, traces_of
from moorage.app.trialkeeping import TrialKeeping
from moorage.core.annotations import TERM_ANNOTATION
from moorage.core.commands import (
    AskExtenders,
    AskPreemption,
    Bind,
    Command,
    RecordEvent,
    ReleaseCapacity,
    RequestCapacity,
)
from moorage.core.echo import answer_to
from moorage.core.events import ConfigurationChanged, TermBegan, TrialRecalled, TrialRefused
from moorage.core.objects import NAMESPACE
from moorage.core.provisioning import PROVISIONING_REQUEST
from moorage.core.values import dataclass
from moorage.engine.context import Observer
from moorage.engine.engine import Engine
from moorage.engine.obstacles import obstacle
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile
from moorage.framework.runner import Runner
from moorage.wire.kinds import Kind

_ANSWERS_S = 30.0
"""How long a change of extenders waits for binds that they may be carrying out."""
_DRAIN_S = 5.0
_LEADER_DRAIN_S = 1.0
"""A standby takes over within 3 s of the end of the leader. Binds that are not sent by then are left to it."""
_ON_THE_WIRE_S = 0.5
"""How long the answers to binds that were sent are awaited, so that a pod that is bound gets its event too."""
_REVIEWS_QPS, _REVIEWS_BURST = 20.0, 40
"""Requests for metrics with made-up tokens must not keep the API server busy."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Options of the command."""

    kubeconfig: str | None = None
    dry_run: bool = False
    verbosity: int = 0
    seed: int = 0
    serving: ServingOptions | None = None
    """Where health and metrics are served; None: nowhere."""
    authentication_kubeconfig: str | None = None
    """Credentials for authenticating readers of metrics; None: the scheduler's own."""
    authorization_kubeconfig: str | None = None
    """Credentials for authorizing readers of metrics; None: the scheduler's own."""
    component: Component = field(default_factory=lambda: Component("moorage", ""))
    """Name and version, as served."""
    config_file: str | None = None
    """The configuration file, which is followed for changes; None: there is none."""
    journal: JournalOptions | None = None
    """Where the journal is written; None: nowhere."""
    check_invariants: bool = False
    """Whether the engine's invariants are checked between turns."""


def run_scheduler(configuration: Configuration, profiles: Sequence[Profile], options: SchedulerOptions) -> None:
    """Schedule until SIGINT or SIGTERM; raises LeadershipLost when another replica takes over."""
    run(_main(configuration, profiles, options), JournalError, TracingError)


async def _main(configuration: Configuration, profiles: Sequence[Profile], options: SchedulerOptions) -> None:
    # A dry run writes no lease either, and needs none.
    election = None if options.dry_run else configuration.leader_election
    leadership = leadership_of(election, configuration, options.kubeconfig)
    traces = traces_of(configuration, options.component.version)
    exporting = contextlib.nullcontext() if traces is None else traces.exporting()
    with exporting:
        async with connected(configuration, options.kubeconfig, leadership) as (client, events_client):
            scheduler = Scheduler(configuration, profiles, options, client, events_client, leadership, traces)
            await until_stopped(_serve(scheduler, configuration, options), tuned(scheduler))


async def _serve(scheduler: Scheduler, configuration: Configuration, options: SchedulerOptions) -> None:
    served = _served(scheduler, configuration, options)
    async with contextlib.aclosing(scheduler), served, scheduler.running():
        await scheduler.work()


@contextlib.asynccontextmanager
async def _served(scheduler: Scheduler, configuration: Configuration, options: SchedulerOptions) -> AsyncIterator[None]:
    """Serve health, metrics and configuration, from before the first request to the API server until the very end."""
    if options.serving is None:
        yield
        return
    page = MetricsPage(*scheduler.collectors())
    async with _reviews(configuration, options) as reviews:
        gate = Gate(reviews, options.serving.always_allowed)
        sources = EndpointSources(
            options.component,
            {
                "shutdown": scheduler.ending,
                "sched-handler-sync": scheduler.unlisted,
                "leader-election-rights": scheduler.leaseless,
            },
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
    """The client for authenticating and authorizing readers of metrics; rate limited, and not that of the binds."""
    connection = configuration.client_connection
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for file in (options.authentication_kubeconfig, options.authorization_kubeconfig):
            own = load_credentials(options.kubeconfig, connection.kubeconfig, server=connection.server)
            credentials = load_credentials(file) if file else own
            client = KubeClient(credentials, qps=_REVIEWS_QPS, burst=_REVIEWS_BURST)
            clients.append(await stack.enter_async_context(client))
        yield AccessReviews(*clients)


class Scheduler(Process):
    """One engine on one API server."""

    name = "scheduler"
    written = frozenset({"pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "resourceclaims", "podgroups"})
    """What a leader changes when it places pods, and the nodes. Of other kinds a standby knows as much as it does."""

    def __init__(
        self,
        configuration: Configuration,
        profiles: Sequence[Profile],
        options: SchedulerOptions,
        client: KubeClient,
        events_client: KubeClient,
        leadership: Leadership | None = None,
        traces: Traces | None = None,
    ) -> None:
        self.term = ""
        """The term in which this process leads; empty without leader election, and while it does not lead."""
        self.configz = configz(configuration, profiles)
        """The configuration in force, as a document."""
        self._configuration = configuration
        self._options = options
        accounts = accounts_at(options.verbosity)
        self._traces = traces
        observers = [*([] if accounts is None else [accounts.note]), *([] if traces is None else [traces.pods.attempt])]
        settings = self._settings_of(configuration)
        self.engine = Engine(self._acting(profiles), settings, observer=_in_turn(observers))
        if traces is not None:
            traces.pods.equip(self.engine)  # before the metrics, whose clocks go around it
        self._journal = open_journal(
            options.journal,
            self.engine,
            document_of(configuration, profiles),
            seed=options.seed,
            version=options.component.version,
        )
        self.metrics = SchedulerMetrics(self.engine)
        self._reload_metrics = ReloadMetrics()
        self._events_client = events_client
        carry_out = self._pretend if options.dry_run else self._carry_out
        self._loop = DecisionLoop(
            self.engine,
            carry_out,
            metrics=self.metrics,
            decision_log=DecisionLog.of(options.verbosity, self.engine, accounts, dry_run=options.dry_run),
            leading=self.leading,
            tick_s=math.inf if leadership is None else leadership.election.renew_deadline_s / 2,
            journal=self._journal,
            selfcheck=SelfCheck(self.engine) if options.check_invariants else None,
            traces=None if traces is None else traces.pods,
        )
        jitter = random.Random().random
        every = settings.every(profiles)
        following = Following(client, _kinds_of(every, settings), every, self._loop.put)
        told = {} if traces is None else {"published": traces.pods.published}
        super().__init__(client, events_client, following, leadership, **told)
        self._extenders = self._extenders_of(configuration)
        self._extending: list[asyncio.Task[None]] = []
        self._binder = Binder(
            client,
            self._loop.put,
            jitter=jitter,
            annotations=None if leadership is None else lambda: {TERM_ANNOTATION: self.term},
            delegate=self._bind_by_extender,
            obstacle=functools.partial(obstacle, self.engine.state, self.engine.bindings),
        )
        self._binding: list[asyncio.Task[None]] = []
        self._capacity = CapacityRequests(
            client, self._loop.put, served=lambda: following.watches.serves(PROVISIONING_REQUEST)
        )
        self._carriers: dict[type, Callable[[Any], None]] = {
            RecordEvent: self._publish,
            AskExtenders: self._ask,
            AskPreemption: self._ask,
            RequestCapacity: self._capacity.submit,
            ReleaseCapacity: self._capacity.submit,
        }
        """Command -> what carries it out; the binder carries out all others."""
        self._trial = TrialKeeping(self.engine, leadership, self._tell_of_trial, now_s=clock.now_s)
        self._stopping = False
        """Whether the process is shutting down cleanly."""

    def unlisted(self) -> str:
        """Why the scheduler does not know the whole cluster yet; empty when it does, whether or not it decides."""
        return "" if self._filled.is_set() else UNLISTED

    def ending(self) -> str:
        """Says that the scheduler is shutting down; empty while it is not."""
        return "the process is ending" if self._unready == STOPPING else ""

    def pod_resources(self) -> Render | None:
        """What pods request, for `/metrics/resources`; only the leader serves it."""
        return snapshot(self.engine).render if self.leading() else None

    def collectors(self) -> list[Collector]:
        """The metrics."""
        reloads = [] if self._options.config_file is None else [self._reload_metrics]
        traces = [] if self._traces is None else [self._traces.metrics]
        return [self.metrics, TrialMetrics(self.engine), *reloads, *traces, *super().collectors()]

    async def aclose(self) -> None:
        """Close the connections to extenders, and the journal."""
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)
        if self._extenders is not None:
            await self._extenders.close()

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        statuses = [] if self._options.dry_run else [write_queue_statuses(self.engine, self._client, self._acts)]
        return self._loop.run(), dump_on_signal(self.engine), self._trial.run(self._acts), *statuses

    def _acts(self) -> bool:
        """Whether this process places pods at present."""
        return self._loop.deciding and self.leading()

    async def _live(self) -> None:
        """Decide, or stand by until this process leads, once the caches are filled; follow the configuration file."""
        served = await reached(self._client)
        self._binding = self._parts.start(self._binder.run(), self._capacity.run())
        self._start_extenders()
        await self._fill(served)
        self._unready = ""
        file = self._options.config_file
        await first(self._lead(), *([] if file is None else [self._reloader(file).run()]))

    async def _begin(self, term: str) -> None:
        if term:
            self.term = term
            await self._loop.tell(TermBegan(term))
        await self._loop.tell(TrialRecalled(self._trial.recall()))
        if self._configuration.trial is not None and self._leadership is None and not self._options.dry_run:
            log.warning("nothing is kept of the trial without leader election: it begins anew with every start")
        self._loop.start_deciding()
        log.info("scheduling", profiles=list(self.engine.runners), nodes=self.engine.state.node_count)

    def _heartbeat_s(self) -> float:
        return self._loop.ticked_s

    # --- another configuration ---

    def _reloader(self, file: str) -> Reloader:
        return Reloader(
            file,
            self._configuration,
            self._reload,
            self._recorder.record,
            self._reload_metrics,
            refuse_trial=lambda message: self._loop.tell(TrialRefused(message)),
        )

    async def _reload(self, configuration: Configuration, profiles: Sequence[Profile]) -> None:
        """Put a configuration in force; what can fail comes first. Kinds that are no longer needed stay followed."""
        others = configuration.extenders != self._configuration.extenders
        extenders = self._extenders_of(configuration) if others else self._extenders
        settings = self._settings_of(configuration)
        every = settings.every(profiles)
        self._following.owners.reconfigure(every)
        await self._following.watches.extend(_kinds_of(every, settings))
        await self._following.prices.follow(every)
        try:
            if others:
                # Binds and requests identify extenders by their index in the configuration that they were decided with.
                self._loop.paused = True
                await self._loop.answered(_ANSWERS_S)
                await self._parts.drop(self._extending)
            document = document_of(configuration, profiles)
            await self._loop.tell(ConfigurationChanged(document, self._acting(profiles), settings))
            if self._traces is not None:
                self._traces.pods.equip(self.engine)
            self.metrics.reequip()
            if others:
                await self._replace_extenders(extenders)
        finally:
            self._loop.paused = False
        self._configuration, self.configz = configuration, configz(configuration, profiles)
        self._following.watches.relist({"pods"})

    def _extenders_of(self, configuration: Configuration) -> Extenders | None:
        """The extenders of a configuration. What is read for them must not use up the rate limit of the binds."""
        if not configuration.extenders:
            return None
        jitter = random.Random().random
        return Extenders(configuration.extenders, self._events_client, self._loop.put, jitter=jitter)

    def _start_extenders(self) -> None:
        self._extending = [] if self._extenders is None else self._parts.start(self._extenders.run())

    async def _replace_extenders(self, extenders: Extenders | None) -> None:
        """To be called when the previous ones are no longer called; answers that they still owe are dropped."""
        before, self._extenders = self._extenders, extenders
        self._start_extenders()
        if before is not None:
            await before.close()

    # --- what was decided ---

    def _carry_out(self, command: Command) -> None:
        self._carriers.get(type(command), self._binder.submit)(command)

    def _publish(self, command: RecordEvent) -> None:
        # A process that lost the lease may find a pod bound where it wanted it; this is not its own bind to report.
        if self._stopping or self.leading():
            self._recorder.record(command)

    def _ask(self, command: AskExtenders | AskPreemption) -> None:
        if self._extenders is not None:
            self._extenders.submit(command)

    async def _bind_by_extender(self, command: Bind) -> str | None:
        """Extenders write with their own clients, which the fence around ours does not stop."""
        if not self.leading():
            return "this process is not the leader"
        return None if self._extenders is None else await self._extenders.bind(command)

    def _acting(self, profiles: Sequence[Profile]) -> Sequence[Profile]:
        """The profiles as this process runs them. A dry run leaves PreBind out, as its writes are not carried out.

        PostBind too: it gives up reservations (of volumes) that the objects themselves would show by then.
        """
        if not self._options.dry_run:
            return profiles
        return [profile.without(Point.PRE_BIND, Point.POST_BIND) for profile in profiles]

    def _settings_of(self, configuration: Configuration) -> EngineSettings:
        settings = EngineSettings.of(configuration, self._options.seed)
        if settings.trial is None:
            return settings
        return replace(settings, trial=replace(settings.trial, built=tuple(self._acting(settings.trial.built))))

    def _tell_of_trial(self, kind: str, reason: str, note: str) -> None:
        if not self._options.dry_run:
            self._recorder.record(RecordEvent(own_pod(self._configuration), kind, reason, "Trying", note, REPORTER))

    def _pretend(self, command: Command) -> None:
        """With --dry-run nothing is written; a pod counts as bound where it would be.

        Only the watch says that a pod is gone: one that would be evicted stays until it is really deleted, and the
        preemptor stays nominated.
        """
        if isinstance(command, AskExtenders | AskPreemption):
            self._ask(command)  # calling extenders changes nothing
        elif (answer := answer_to(command)) is not None:
            self._loop.put(answer)

    async def _finish(self) -> None:
        """Finish what was begun. A standby waits for the lease, so it is released before events are written."""
        self._loop.deciding = False
        self._stopping = self.leading()
        drain_s = _DRAIN_S if self._leadership is None else _LEADER_DRAIN_S
        if self._stopping and not await self._binder.drained(drain_s):
            await self._client.finish(_ON_THE_WIRE_S)
        await self._parts.drop(self._binding)
        if self._stopping:
            self._trial.keep(always=True)
        await self._resign()
        await self._loop.applied(_ON_THE_WIRE_S)
        await self._recorder.flush(_DRAIN_S)


def _in_turn(observers: Sequence[Observer]) -> Observer | None:
    """An observer that tells all of them; None if there is none, so that the engine calls nothing."""
    if len(observers) <= 1:
        return next(iter(observers), None)

    def tell(runner: Runner, cycle: Cycle) -> None:
        for observer in observers:
            observer(runner, cycle)

    return tell


def _kinds_of(profiles: Sequence[Profile], settings: EngineSettings) -> list[Kind]:
    """What is watched; a trial may select namespaces by label."""
    selects = settings.trial is not None and settings.trial.pods.namespace_selector is not None
    return watched_kinds(profiles, (NAMESPACE,) if selects else ())
