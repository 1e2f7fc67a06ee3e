"""`moorage dashboard`: a live cluster or a journal in the browser; wiring only."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from moorage.adapters import clock
from moorage.adapters.dashboard.advice import adviser
from moorage.adapters.dashboard.backend import DashboardBackend, Refused, SeriesRequest, Surroundings
from moorage.adapters.dashboard.security import Guard
from moorage.adapters.dashboard.server import BOUNDS, application
from moorage.adapters.journal.reader import ReadError
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.listening import listening
from moorage.app.connection import connected, reached
from moorage.app.dashboard_journal import JournalShow
from moorage.app.dashboard_live import followers, reader, shown_kinds, writer
from moorage.app.lifetime import Parts, first
from moorage.app.look import Look, LookError
from moorage.app.process import run, until_stopped
from moorage.app.snapshot import list_objects
from moorage.app.sources import Following
from moorage.core.values import dataclass
from moorage.framework.configuration import Configuration
from moorage.framework.keeping import keeper_configuration
from moorage.framework.profiles import Profile
from moorage.framework.registry import Registry
from moorage.views.shadowview import WorldShadow
from moorage.views.world import Settled, World

TOKEN_BYTES = 24

log = structlog.get_logger()

Shown = tuple[DashboardBackend, Parts]
"""What answers requests, and the parts that must not end while it does."""
WhatIf = Callable[[list[dict[str, Any]], Mapping[str, Any]], dict[str, Any]]
"""(whole objects, the request) -> difference; ValueError with a text for people if that is not possible."""


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Options of the command."""

    host: str
    port: int
    kubeconfig: str | None = None
    journal: str | None = None
    allow_writes: bool = False
    token: str = ""
    """Empty: a new one."""
    hosts: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    """Other schedulers whose decisions are compared."""
    answers_to_all: bool = False
    what_if: WhatIf | None = None
    started: Callable[[str], None] = lambda _: None
    """Gets the address once pages are served."""


def run_dashboard(
    configuration: Configuration, profiles: Sequence[Profile], registry: Registry, options: DashboardOptions
) -> None:
    """Serve until SIGINT or SIGTERM."""
    run(until_stopped(serve(configuration, profiles, registry, options)), ReadError)


async def serve(
    configuration: Configuration, profiles: Sequence[Profile], registry: Registry, options: DashboardOptions
) -> None:
    """Serve until cancelled."""
    if options.journal is not None:
        shown = _journal(Path(options.journal), profiles, registry)
    else:
        shown = _live(configuration, profiles, options)
    async with shown as (backend, parts):
        guard = _guard(options)
        app = application(backend, guard)
        async with listening(app, options.host, options.port, bounds=BOUNDS) as url:
            options.started(f"{url}/#token={guard.token}")
            try:
                await first(backend.run(), parts.failure())
            finally:
                backend.close()


def _guard(options: DashboardOptions) -> Guard:
    token = options.token or secrets.token_urlsafe(TOKEN_BYTES)
    hosts = frozenset(host.lower() for host in options.hosts)
    return Guard(options.host, token, read_only=not options.allow_writes, more_hosts=hosts)


# A journal


@contextlib.asynccontextmanager
async def _journal(folder: Path, profiles: Sequence[Profile], registry: Registry) -> AsyncIterator[Shown]:
    show = await asyncio.to_thread(JournalShow, folder, profiles, registry)
    world = await asyncio.to_thread(show.at, show.now_s)
    around = Surroundings("journal", str(folder), lambda: show.now_s, span=show.span)
    backend = DashboardBackend(world, around)
    seeking = asyncio.Lock()

    async def seek(moment_s: float) -> None:
        async with seeking:
            try:
                until_s = await asyncio.to_thread(show.moment, moment_s)
                found = await asyncio.to_thread(show.at, until_s)
            except ReadError as error:
                raise Refused(str(error)) from None
            show.now_s, around.span = until_s, show.span
            await backend.replace(found)

    async def charts(asked: SeriesRequest) -> dict[str, Any]:
        async with seeking:
            try:
                return await asyncio.to_thread(show.charts, asked)
            except ReadError as error:
                raise Refused(str(error)) from None

    around.seek, around.series = seek, charts
    await backend.replace(world)
    yield backend, Parts()


# A live cluster


@contextlib.asynccontextmanager
async def _live(
    configuration: Configuration, profiles: Sequence[Profile], options: DashboardOptions
) -> AsyncIterator[Shown]:
    async with connected(configuration, options.kubeconfig, None) as (client, other_client):
        world = World(
            profiles,
            answers_to_all=options.answers_to_all,
            keeper=keeper_configuration(configuration),
            derives=True,
            trial=configuration.trial,
            shadow=WorldShadow(profiles, options.shadows) if options.shadows else None,
        )
        around = Surroundings(
            mode="live",
            title=client.server,
            now_s=clock.now_s,
            writes=options.allow_writes,
            apply=writer(other_client),
            suggest=adviser(reader(other_client)),
            what_if=None if options.what_if is None else _what_if(other_client, options.what_if),
        )
        backend = DashboardBackend(world, around)
        every = (*profiles, *(() if configuration.trial is None else configuration.trial.built))
        following = Following(client, shown_kinds(every), every, backend.put)
        more = followers(client, configuration, backend.put, clock.now_s)
        try:
            served = await reached(client)
            await first(following.fill(served), following.parts.failure())
            backend.put(Settled())
            await backend.take_over()
            following.parts.start(*(each.run() for each in more))
            yield backend, following.parts
        finally:
            await following.aclose()


def _what_if(client: KubeClient, answer: WhatIf) -> Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]:
    working = asyncio.Lock()

    async def ask(asked: Mapping[str, Any]) -> dict[str, Any]:
        if working.locked():
            raise Refused("another what-if is being computed; try again when it is done")
        try:
            async with working:
                found = await list_objects(Look(client))
                return await asyncio.to_thread(answer, found.objects, asked)
        except (LookError, KubeError, ValueError) as error:
            raise Refused(str(error)) from None

    return ask
