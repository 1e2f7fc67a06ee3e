"""`moorage webhook`: assigns pods the rule of their placement strategy while they are being created."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import socket
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.presence import Company, Presence
from moorage.adapters.kube.registration import Registration
from moorage.adapters.listening import listening
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.serving.certificate import Freshness, keep_fresh
from moorage.adapters.serving.probes import Address, Probes, probed
from moorage.adapters.webhook.certificates import merged_bundle
from moorage.adapters.webhook.elder import Elder
from moorage.adapters.webhook.handler import WebhookHandler
from moorage.adapters.webhook.metrics import WebhookMetrics
from moorage.adapters.webhook.renewal import LOOK_S, FileRenewal, Renewal, SelfRenewal
from moorage.adapters.webhook.server import BOUNDS, application
from moorage.app.connection import connected, reached
from moorage.app.endpoint import EndpointOptions
from moorage.app.identity import own_address, own_namespace
from moorage.app.process import FLUSH_S, STOPPING, Process, run, tuned, until_stopped
from moorage.app.sources import Following
from moorage.core.arrivals import NODE_CLAIM
from moorage.core.strategies import STRATEGY_KINDS
from moorage.core.values import dataclass
from moorage.engine.admission import Admission
from moorage.framework.admitting import WebhookConfiguration, webhook_configuration
from moorage.framework.configuration import Configuration
from moorage.wire.kinds import BY_ID
from moorage.wire.webhooks import (
    Terms,
    WebhookService,
    ca_bundle,
    host_names,
    new_configuration,
    trued_configuration,
)

_TICK_S = 1.0
_LOOK_S = 5.0
"""How often the file of client CAs is checked."""
_HEARD_S = 1.0
"""API servers usually learn of a change of their webhook configurations within this time."""
_FOLLOW_S = 2.0
"""How often older replicas are tried anew."""
_MOST_ELDERS = 8
_ELSEWHERE = "default"
"""Namespace of a webhook that runs outside the cluster."""
_LABEL_LIMIT = 63

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WebhookOptions(EndpointOptions):
    """Options of the command. Without certificates: those of the configuration, or self-signed ones."""

    self_signed: bool = False
    """Certificates are self-signed, whatever the configuration says."""
    metrics_at: Address | None = None
    health_at: Address | None = None


def run_webhook(configuration: Configuration, options: WebhookOptions) -> None:
    """Serve until SIGINT or SIGTERM."""
    run(_main(configuration, options))


async def _main(configuration: Configuration, options: WebhookOptions) -> None:
    settings = webhook_configuration(configuration)
    options.check()
    where = options.address(settings.listen, "0.0.0.0:9443")
    async with connected(configuration, options.kubeconfig, None) as (client, events_client):
        process = WebhookProcess(settings, client, events_client, where, options)
        page = MetricsPage(process.metrics, *process.collectors())
        probes = Probes(options.metrics_at, options.health_at, process.unready, page.render)
        stop = _stopped(process, settings.shutdown_delay_s)
        await until_stopped(_serve(process, probes, where), tuned(process), stop=stop)


async def _serve(process: WebhookProcess, probes: Probes, where: Address) -> None:
    tls = process.renewal.serving.context
    served = listening(process.application(), *where, tls, bounds=BOUNDS)
    async with probed(probes) as urls, process.running(), served as url:
        log.info("listening", url=url, **urls)
        await process.work()


async def _stopped(process: WebhookProcess, delay_s: float) -> None:
    """Wait for a signal; after SIGTERM, but not after SIGINT, requests are answered until API servers send no more."""
    asked: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.put_nowait, number)
    received = await asked.get()
    process.stopping()
    log.info("stopping")
    if received == signal.SIGTERM:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asked.get(), delay_s)


class WebhookProcess(Process):
    """One webhook on one API server; it serves from the start, and is ready when it knows the whole cluster."""

    name = "webhook"

    def __init__(
        self,
        settings: WebhookConfiguration,
        client: KubeClient,
        events_client: KubeClient,
        where: Address,
        options: WebhookOptions,
    ) -> None:
        self._settings = settings
        self._options = options
        self._host = where[0]
        self._namespace = own_namespace()
        self._service = WebhookService(
            settings.service_namespace or self._namespace or _ELSEWHERE, settings.service_name
        )
        me = f"moorage-webhook-{socket.gethostname().lower()[:40].strip('.-')}-{secrets.token_hex(3)}"
        self.admission = Admission(
            excluded=self._excluded(),
            ledger_s=settings.ledger_s,
            longest_wait_s=settings.longest_wait_s,
            fallback_s=settings.fallback_s,
            me=me,
        )
        jitter = random.Random().random
        make = self._new_registration if settings.url else None
        self.metrics = WebhookMetrics(self.admission, lambda: self.renewal.serving.expires_s)
        self._registration = Registration(
            client,
            settings.webhook_name,
            self._true_registration,
            make=make,
            reconciled=self.metrics.reconciling.reconciled,
            jitter=jitter,
        )
        self.renewal = self._renewal(options)
        self._clients = Freshness(self.renewal.serving.context, None, None, options.client_ca_file)
        self._elder = Elder(urlsplit(settings.url).hostname or self._service.host_names[0], self._trusted)
        self._company = Company()
        self._followed = ""
        """The address of the replica that this one follows; empty if it follows none."""
        self._company_changed = asyncio.Event()
        self._handler = WebhookHandler(self.admission, self.metrics, carry_out=self._record, forward=self._ask_elder)
        kinds = [BY_ID[name] for name in ("Pod", "Node", NODE_CLAIM, *sorted(STRATEGY_KINDS))]
        super().__init__(client, events_client, Following(client, kinds, (), self._handler.put))
        component = (settings.webhook_name or "moorage-webhook")[:_LABEL_LIMIT].strip(".-")
        self._presence = Presence(
            client,
            self._service.namespace,
            component,
            me,
            self._company_is,
            address=own_address(*where),
            jitter=jitter,
        )
        self._ready = asyncio.Event()

    # --- what others see ---

    def unready(self) -> str:
        """Why the webhook is not ready; empty when it is."""
        waiting = "" if self._ready.is_set() else self._following.watches.unlisted()
        return f"{self._unready}: {waiting}" if waiting else self._unready

    async def ready(self) -> None:
        """Wait until the webhook is ready for the first time."""
        await self._ready.wait()

    def stopping(self) -> None:
        """Stop being ready."""
        self._unready = STOPPING

    def application(self) -> web.Application:
        """What is served over HTTPS."""
        unready = lambda: "" if self._ready.is_set() else self.unready()  # noqa: E731 - it answers until it ends
        return application(self._handler.mutate, self.metrics, self._options.callers, unready)

    # --- lifecycle ---

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        return self._tick(), keep_fresh(self._clients, _LOOK_S)

    async def _finish(self) -> None:
        await super()._finish()
        await self._parts.aclose()  # those that would register this replica again
        await self._elder.aclose()
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._presence.leave()
                await self._registration.withdraw()

    async def _live(self) -> None:
        """Fill the caches, register at the API server, and renew the certificate when it is due."""
        served = await reached(self._client)
        self._parts.start(self._presence.run())
        if self._settings.webhook_name:
            self._parts.start(self._registration.run())
        await self._fill(served)
        self._unready = "looking for other replicas"
        await self._presence.settled()
        if self._settings.webhook_name:
            self._unready = f"MutatingWebhookConfiguration {self._settings.webhook_name} is being written"
            await self._register()
        await self._follow()
        self._parts.start(self._keep_following())
        self._unready = ""
        self._ready.set()
        log.info("ready for placement", nodes=self.admission.state.node_count, pods=self.admission.roster.pod_count)
        await self._await_files()
        await self.renewal.run()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._handler.tick()

    # --- other replicas ---

    def _company_is(self, company: Company) -> None:
        if company == self._company:
            return
        if company.others != self._company.others:
            log.info("other replicas", number=company.others)
        self._company = company
        self.admission.peers, self.admission.sole = company.others, company.followed
        self._company_changed.set()

    async def _keep_following(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FOLLOW_S):  # not wait_for, which may miss that it is cancelled
                    await self._company_changed.wait()
            await self._follow()

    async def _follow(self) -> None:
        """Follow the oldest replica that can be asked from now on, and let the others know."""
        self._company_changed.clear()
        found = name = ""
        for elder, address in self._company.elders[:_MOST_ELDERS]:
            if await self._elder.answers(address):
                name, found = elder, address
                break
        if found != self._followed:
            log.info("placement is decided by another replica" if found else "placement is decided here", replica=name)
        self._followed, self.admission.follows = found, bool(found)
        await self._presence.follow(name)

    async def _ask_elder(self, review: bytes) -> bytes | None:
        answer = await self._elder.ask(self._followed, review) if self._followed else None
        if answer is None:
            self.admission.follows = False
            self._company_changed.set()
        return answer

    def _trusted(self) -> bytes:
        return ca_bundle(self._registration.current or {})

    # --- registration at the API server ---

    async def _register(self) -> None:
        name = self._settings.webhook_name
        found = await self._registration.looked()
        if isinstance(self.renewal, SelfRenewal):
            self.renewal.reissue()
        await self._registration.ensured()
        if self._registration.problem:
            log.warning("webhook configuration cannot be kept up to date", name=name, why=self._registration.problem)
        elif self._registration.current is None:
            log.warning("there is no such MutatingWebhookConfiguration yet, so the webhook is not called", name=name)
        elif found != self._registration.current:
            await asyncio.sleep(_HEARD_S)

    async def _announce(self) -> bool:
        if not self._settings.webhook_name:
            return True
        await self._registration.ensured()
        return not self._registration.problem

    async def _await_files(self) -> None:
        """Where a certificate may be mounted and is not: renew that of our own until it is."""
        files = self._settings.certificate_file, self._settings.key_file
        if not isinstance(self.renewal, SelfRenewal) or not all(files) or self._options.self_signed:
            return
        own = asyncio.create_task(self.renewal.run())
        try:
            while not all(map(_has_content, files)):  # noqa: ASYNC110 - a mounted Secret changes without an event
                await asyncio.sleep(LOOK_S)
        finally:
            own.cancel()
            await asyncio.gather(own, return_exceptions=True)
        mounted = FileRenewal(*files, self._announce, self.renewal.serving)
        self.renewal = mounted
        await mounted.take_over(self._settings.certificate_spread_s)

    def _renewal(self, options: WebhookOptions) -> Renewal:
        settings = self._settings
        if options.certificate is not None:
            return FileRenewal(*options.certificate, self._announce)
        if not options.self_signed and _has_content(settings.certificate_file) and _has_content(settings.key_file):
            return FileRenewal(settings.certificate_file, settings.key_file, self._announce)
        return SelfRenewal(
            self._names,
            self._announce,
            lifetime_s=settings.certificate_lifetime_s,
            spread_s=settings.certificate_spread_s,
        )

    def _names(self) -> list[str]:
        """The names under which the webhook may be called."""
        local = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
        if self._host not in ("0.0.0.0", "::"):  # noqa: S104 - compared with, never bound to
            local.append(self._host)
        current = self._registration.current
        found = host_names(current if current is not None else new_configuration(self._terms(), lambda _: b""))
        return list(dict.fromkeys([*self._service.host_names, *found, *local]))

    def _excluded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, [*self._settings.excluded_namespaces, self._namespace])))

    def _terms(self) -> Terms:
        settings = self._settings
        return Terms(settings.webhook_name, self._excluded(), self._service, settings.url)

    def _bundle(self, present: bytes) -> bytes:
        authorities: Iterable[bytes] = self.renewal.authorities
        if not authorities:
            return present  # another component manages the CA bundle, such as cert-manager
        return merged_bundle(present, authorities, datetime.now(UTC))

    def _true_registration(self, found: dict[str, object]) -> dict[str, object]:
        return trued_configuration(found, self._terms(), self._bundle)

    def _new_registration(self) -> dict[str, object]:
        return new_configuration(self._terms(), self._bundle)


def _has_content(file: str) -> bool:
    try:
        return bool(file) and Path(file).stat().st_size > 0
    except OSError:
        return False
