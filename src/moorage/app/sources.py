"""What a process follows while it runs: kinds that are watched, and sources that are polled.

Every source hands its events to `put`, is read once before the process acts, and is read again when the process takes
over from another leader. Its tasks are parts of the process: if one dies, the process ends.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Container, Iterable, Sequence
from math import inf
from typing import Protocol

import structlog
from prometheus_client.registry import Collector

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import ServedResources
from moorage.adapters.kube.intake import UNFINISHED_PODS, KindIntake, resource_of
from moorage.adapters.kube.reflector import Phase, Reflector, ReflectorState
from moorage.adapters.metrics.objects import SkippedObjects
from moorage.app.lifetime import Parts, StartError
from moorage.app.prices import Prices, Put
from moorage.core.events import Event
from moorage.framework.profiles import Profile
from moorage.wire.kinds import BY_ID, KINDS, NODE, Kind, pod_kind
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadkinds import workloads_in

_ESSENTIAL = ("Pod", "Node")
_LOOK_EVERY_S = 1.0
_FOLLOWED = frozenset({Phase.SYNCED, Phase.RETRYING})

log = structlog.get_logger()


def watched_kinds(profiles: Sequence[Profile], more: Iterable[str] = ()) -> list[Kind]:
    """Nodes, pods, what the plugins of the profiles read and a server may have, and the workloads that are gangs.

    Then `more`, by id.
    """
    wanted = {kind for profile in profiles for plugin in profile.plugins for kind in plugin.kinds}
    table = TemplateTable()
    kinds = [NODE, pod_kind(table), *(kind for kind in KINDS if kind.id in wanted and kind.served)]
    kinds += workloads_in(profiles).kinds
    known = {kind.id for kind in kinds}
    return [*kinds, *(BY_ID[name] for name in more if name not in known)]


class Source(Protocol):
    """Something that a process follows; everything is called in its event loop."""

    def start(self, served: ServedResources) -> None:
        """Begin to follow on a server that serves these."""

    async def settle(self) -> None:
        """Wait until everything was read once, or cannot be read; StartError if the process needs it."""

    async def refresh(self, resources: Container[str] | None) -> None:
        """Read what may have changed unseen again, of these resources or all, and wait until that is done."""

    def collectors(self) -> Sequence[Collector]:
        """What there is to measure."""

    async def aclose(self) -> None:
        """Close connections; the tasks have ended by then."""


class Following:
    """All sources of one process; `put` gets their events, in the event loop."""

    def __init__(self, client: KubeClient, kinds: Iterable[Kind], profiles: Sequence[Profile], put: Put) -> None:
        self.parts = Parts()
        """The tasks of all sources."""
        self.owners = Owners(profiles, put, self._look_for)
        self.watches = Watches(client, kinds, self.owners.put, self.parts)
        self.prices = Prices(profiles, client, put, self.parts)
        self._all: tuple[Source, ...] = (self.watches, self.prices)

    def _look_for(self, kind: str) -> None:
        self.watches.look_for(kind)

    async def fill(self, served: ServedResources) -> None:
        """Begin to follow, and wait until everything was read once."""
        for source in self._all:
            source.start(served)
        for source in self._all:
            await source.settle()

    async def refresh(self, resources: Container[str] | None = None) -> None:
        """List these resources, or all, again, and wait until that is done."""
        for source in self._all:
            await source.refresh(resources)

    def collectors(self) -> list[Collector]:
        """What there is to measure."""
        return [collector for source in self._all for collector in source.collectors()]

    async def aclose(self) -> None:
        """Stop following."""
        await self.parts.aclose()
        for source in self._all:
            await source.aclose()


class Owners:
    """Hands on what the watches bring, with the gangs that follow from the owners of pods."""

    def __init__(self, profiles: Sequence[Profile], put: Put, look_for: Callable[[str], None]) -> None:
        """`look_for` is called with a kind that pods wait for: it may have been installed just now."""
        self._put = put
        self._look_for = look_for
        self._looked_s: dict[str, float] = {}
        self._chains = workloads_in(profiles).chains()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, event: Event) -> None:
        """An event of a watch."""
        for each in self._chains.follow(event, time.monotonic()):
            self._put(each)
        if self._chains.awaited:
            self._look()
        if self._timer is None and self._chains.next_s is not None:
            self._wait()

    def _look(self) -> None:
        """Not more than once a second for any kind, as anybody may write pods."""
        now = time.monotonic()
        for kind in self._chains.awaited:
            if now - self._looked_s.get(kind, -inf) >= _LOOK_EVERY_S:
                self._looked_s[kind] = now
                self._look_for(kind)
        self._chains.awaited.clear()

    def reconfigure(self, profiles: Sequence[Profile]) -> None:
        """Other kinds are gangs from now on."""
        workloads = workloads_in(profiles)
        for each in self._chains.reconfigured(workloads.owners, workloads.marks):
            self._put(each)

    def _wait(self) -> None:
        """Until the next pod has waited long enough for an owner."""
        next_s = self._chains.next_s
        self._timer = None
        if next_s is not None:
            delay_s = max(next_s - time.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._settle)

    def _settle(self) -> None:
        for each in self._chains.settle(time.monotonic()):
            self._put(each)
        self._wait()


class Watches:
    """The kinds that are watched, with one reflector each."""

    def __init__(self, client: KubeClient, kinds: Iterable[Kind], put: Put, parts: Parts) -> None:
        self._client = client
        self._put = put
        self._parts = parts
        self._followed = {kind.id: (kind, _reflector(client, kind, put)) for kind in kinds}

    @property
    def _reflectors(self) -> list[Reflector[object]]:
        return [reflector for _, reflector in self._followed.values()]

    def start(self, served: ServedResources) -> None:
        """See `Source`."""
        self._parts.start(*(each.run(lacking=served.offered(each.resource) is None) for each in self._reflectors))

    async def settle(self) -> None:
        """See `Source`. Kinds that are not served or not allowed must not be essential."""
        await self._settle(self._followed.values())

    async def extend(self, kinds: Iterable[Kind]) -> None:
        """Follow these kinds too, and wait for their first lists; those that are followed already are left alone."""
        new = {kind.id: (kind, _reflector(self._client, kind, self._put)) for kind in kinds if kind.id not in self}
        self._followed |= new
        self._parts.start(*(reflector.run() for _, reflector in new.values()))
        await self._settle(new.values())

    async def _settle(self, followed: Iterable[tuple[Kind, Reflector[object]]]) -> None:
        withheld: list[tuple[str, ReflectorState]] = []
        absent: list[str] = []
        for kind, reflector in followed:
            state = await reflector.settled()
            if state.phase is not Phase.SYNCED and kind.name in _ESSENTIAL:
                raise StartError(f"{self._client.server}: cannot list {kind.plural}: {state.error or state.phase}")
            if state.phase is Phase.NOT_SERVED:
                absent.append(str(reflector.resource))
            elif state.phase is Phase.FORBIDDEN:
                withheld.append((kind.id, state))
        if absent:
            log.info("kinds are not served, looking again later", kinds=absent)
        if withheld:
            names = [name for name, _ in withheld]
            log.warning("kinds are left out until we may list and watch them", kinds=names, why=withheld[0][1].error)

    def look_for(self, kind_id: str) -> None:
        """Look at once whether a kind is served that was not."""
        _, reflector = self._followed.get(kind_id, (None, None))
        if reflector is not None and reflector.state.phase is Phase.NOT_SERVED:
            reflector.refresh()

    def serves(self, kind_id: str) -> bool:
        """Whether the server has a kind that is followed, and lets us read it."""
        _, reflector = self._followed.get(kind_id, (None, None))
        return reflector is not None and reflector.state.phase in _FOLLOWED

    def __contains__(self, kind_id: str) -> bool:
        return kind_id in self._followed

    def unlisted(self) -> str:
        """What `settle` still waits for, in words; empty if nothing."""
        waiting = [one for one in self._reflectors if one.state.phase in (Phase.STARTING, Phase.RETRYING)]
        return ", ".join(f"{one.resource.plural} ({one.state.error or one.state.phase})" for one in waiting)

    def relist(self, resources: Container[str] | None = None) -> list[Reflector[object]]:
        """List these resources, or all, again; returns the reflectors that do so."""
        wanted = [one for one in self._reflectors if resources is None or one.resource.plural in resources]
        listing = [reflector for reflector in wanted if reflector.state.phase in _FOLLOWED]
        for reflector in listing:
            reflector.refresh()
        return listing

    async def refresh(self, resources: Container[str] | None) -> None:
        """See `Source`."""
        for reflector in self.relist(resources):
            await reflector.settled()

    def collectors(self) -> list[Collector]:
        """See `Source`."""
        return [SkippedObjects(lambda: ((each.left_out.kind, each.left_out.count) for each in self._reflectors))]

    async def aclose(self) -> None:
        """See `Source`. The connections are the client's."""


def _reflector(client: KubeClient, kind: Kind, put: Put) -> Reflector[object]:
    intake = KindIntake(kind, put)
    return Reflector(
        client,
        resource_of(kind),
        intake,
        parse=intake.parse,
        remains=intake.remains,
        jitter=random.Random().random,
        field_selector=UNFINISHED_PODS if kind.name == "Pod" else "",
        tells_refusal=False,
    )
