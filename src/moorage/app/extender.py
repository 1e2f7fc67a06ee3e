"""`moorage extender`: serves the plugins that a stock kube-scheduler does not have over HTTP."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog
from aiohttp import web

from moorage.adapters.certificates import Callers
from moorage.adapters.extender.handler import ExtenderHandler
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.extender.server import ExtenderSources, Rights, application, bounds_of
from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.listening import Bounds, listening
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.serving.certificate import Freshness, file_context, keep_fresh
from moorage.app.connection import connected, leadership_of, reached
from moorage.app.endpoint import CERTIFICATE_FLAGS, EndpointOptions
from moorage.app.leadership import Leadership
from moorage.app.lifetime import StartError
from moorage.app.process import Process, run, tuned, until_stopped
from moorage.app.sources import Following, watched_kinds
from moorage.core.commands import Bind
from moorage.core.events import BindDone, BindOutcome
from moorage.core.values import dataclass
from moorage.engine.extending import Extending
from moorage.framework.configuration import Configuration
from moorage.framework.extending import ExtenderConfiguration, extender_configuration
from moorage.framework.profiles import Profile

_TICK_S = 1.0
_STANDBY = "another replica is active"
_LOOK_S = 5.0
"""How often the files of certificates are checked."""

log = structlog.get_logger()


def run_extender(configuration: Configuration, profiles: Sequence[Profile], options: EndpointOptions) -> None:
    """Serve until SIGINT or SIGTERM; raises LeadershipLost when another replica takes over."""
    run(_main(configuration, profiles, options))


def _profile(settings: ExtenderConfiguration, profiles: Sequence[Profile]) -> Profile:
    """The profile that the document names; without one there must be only one."""
    names = [profile.scheduler_name for profile in profiles]
    if not settings.profile and len(profiles) > 1:
        known = ", ".join(names)
        raise StartError(f"there are several profiles ({known}); name one in the field profile of an {settings.kind}")
    return profiles[names.index(settings.profile) if settings.profile else 0]


@dataclass(frozen=True, slots=True)
class _Tls:
    """How HTTPS is served, and what keeps it up to date with its files."""

    context: ssl.SSLContext
    freshness: Freshness


def _tls(options: EndpointOptions) -> _Tls | None:
    options.check()
    files = options.certificate
    if files is None:
        if options.client_ca_file:
            raise StartError("--client-ca-file needs --tls-cert and --tls-key: client certificates need HTTPS")
        return None
    context = file_context(*files, CERTIFICATE_FLAGS)
    return _Tls(context, Freshness(context, *files, options.client_ca_file))


async def _main(configuration: Configuration, profiles: Sequence[Profile], options: EndpointOptions) -> None:
    settings = extender_configuration(configuration)
    tls = _tls(options)
    certified = options.callers.certified
    extending = Extending(_profile(settings, profiles), longest_wait_s=settings.longest_wait_s, certified=certified)
    where = options.address(settings.listen, "0.0.0.0:8888")
    leadership = leadership_of(settings.leader_election, configuration, options.kubeconfig)
    async with connected(configuration, options.kubeconfig, leadership) as (client, events_client):
        extender = ExtenderProcess(extending, settings, client, events_client, leadership, options.callers)
        chores = [tuned(extender)]
        if tls is not None:
            chores.append(keep_fresh(tls.freshness, _LOOK_S))
        await until_stopped(_serve(extender, where, None if tls is None else tls.context), *chores)


async def _serve(extender: ExtenderProcess, where: tuple[str, int], tls: ssl.SSLContext | None) -> None:
    bounds = extender.bounds()
    async with extender.running(), listening(extender.application(), *where, tls, bounds=bounds) as url:
        log.info("listening", url=url)
        if extender.binds_in_vain:
            log.warning(
                "no caller may bind: binds requires callers with a client certificate", remedy="give --client-ca-file"
            )
        await extender.work()


class ExtenderProcess(Process):
    """One extender on one API server. Without `leadership` it serves as soon as its caches are filled."""

    name = "extender"

    def __init__(
        self,
        extending: Extending,
        settings: ExtenderConfiguration,
        client: KubeClient,
        events_client: KubeClient,
        leadership: Leadership | None = None,
        callers: Callers | None = None,
    ) -> None:
        self._extending = extending
        self._settings = settings
        self._rights = Rights(callers or Callers(), settings.binds)
        self._binder = Binder(client, lambda _: None, jitter=random.Random().random)
        self._metrics = ExtenderMetrics(extending, lambda: not self.unready())
        self._handler = ExtenderHandler(extending, self._bind, self._metrics, carry_out=self._record)
        self._ticked_s = time.monotonic()
        profiles = [extending.profile]
        following = Following(client, watched_kinds(profiles), profiles, self._handler.put)
        super().__init__(client, events_client, following, leadership)

    def unready(self) -> str:
        """Why requests are not answered; empty when they are."""
        return self._unready or ("" if self.leading() else self.leaseless() or _STANDBY)

    def application(self) -> web.Application:
        """All endpoints."""
        page = MetricsPage(self._metrics, *self.collectors())
        return application(self._handler, ExtenderSources(self.unready, page.render), self._metrics, self._rights)

    @property
    def binds_in_vain(self) -> bool:
        """Whether binds are enabled, but callers cannot be authenticated."""
        return self._rights.binds and not self._rights.callers.certified

    def bounds(self) -> Bounds:
        """The resource limits of callers."""
        return bounds_of(self._settings.max_body_bytes, self._settings.request_timeout_s)

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        return (self._tick(),)

    async def _live(self) -> None:
        """Pods that the previous replica answered for may be bound by now although our watch has not shown it yet."""
        await self._fill(await reached(self._client))
        self._unready = _STANDBY
        await self._lead()

    async def _begin(self, term: str) -> None:  # noqa: ARG002 - terms mean nothing to an extender
        self._unready = ""
        profile = self._extending.profile
        log.info(
            "answering", plugins=[plugin.name for plugin in profile.plugins], nodes=self._extending.state.node_count
        )
        if not profile.plugins:
            log.warning("no plugin to ask: kube-scheduler has all of this profile", profile=profile.scheduler_name)

    def _heartbeat_s(self) -> float:
        return self._ticked_s

    async def _tick(self) -> None:
        """Heartbeats for the renewal of the lease."""
        while True:
            self._ticked_s = time.monotonic()
            await asyncio.sleep(_TICK_S)

    async def _bind(self, command: Bind) -> BindDone:
        try:
            async with asyncio.timeout(self._settings.caller_timeout_s):
                return await self._binder.bind(command)
        except TimeoutError:
            return BindDone(command.pod.uid, BindOutcome.FAILED, command.node, "the API server did not answer in time")
