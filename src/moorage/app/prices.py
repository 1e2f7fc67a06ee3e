"""The prices that the profiles of a process need, followed for as long as it lives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.prices import ConfigMapReader, PriceFollower, make_reader
from moorage.adapters.kube.transport import AiohttpTransport
from moorage.adapters.metrics.prices import PriceAge, PriceMetrics
from moorage.app.lifetime import cancel
from moorage.core.events import Event, ObjectSeen
from moorage.core.prices import PRICE_LIST
from moorage.framework.pricing import PriceSource
from moorage.framework.profiles import Profile
from moorage.plugins.cost_aware import price_readers

_SETTLE_S = 15.0

log = structlog.get_logger()


def price_sources(profiles: Iterable[Profile]) -> list[PriceSource]:
    """Where prices come from, each place once: where profiles differ, the more impatient one counts."""
    found: dict[str, PriceSource] = {}
    for plugin in price_readers(profiles):
        source = plugin.source
        if source is not None:
            other = found.get(source.key, source)
            poll_s, stale_s = min(source.poll_s, other.poll_s), min(source.stale_after_s, other.stale_after_s)
            found[source.key] = replace(other, poll_s=poll_s, stale_after_s=stale_s)
    return list(found.values())


class Prices:
    """Follows every source; `put` gets the events. `start` it inside the event loop, and `aclose` it there."""

    def __init__(self, profiles: Iterable[Profile], client: KubeClient, put: Callable[[Event], None]) -> None:
        profiles = list(profiles)
        self.sources = price_sources(profiles)
        self._own = [plugin.own for plugin in price_readers(profiles) if plugin.own is not None]
        self._client = client
        self._put = put
        self._followers: list[PriceFollower] = []
        self._transport: AiohttpTransport | None = None
        if any(plugin.own is None and plugin.source is None for plugin in price_readers(profiles)):
            log.warning("CostAware has neither prices nor a source of them, so that no node has a price")

    async def read_once(self) -> list[str]:
        """Ask every source once, and end; what went wrong, a line each."""
        tasks = self.start()
        try:
            await self.settle()
        finally:
            await cancel(tasks)
            await self.aclose()
        return [f"prices cannot be read, so that nodes have none: {why}" for why in self.complaints()]

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to follow; the tasks never end by themselves. Prices of arguments are told at once, for figures."""
        for own in self._own:
            self._put(ObjectSeen(PRICE_LIST, own.key, own))
        if not self.sources:
            return []
        transport = self._transport = AiohttpTransport(connections=len(self.sources))
        jitter = random.Random().random
        chores: list[Coroutine[Any, Any, None]] = []
        for source in self.sources:
            reader = make_reader(source, self._client, transport, jitter)
            follower = PriceFollower(source, reader, self._put)
            self._followers.append(follower)
            chores.append(follower.run())
            if isinstance(reader, ConfigMapReader):
                chores.append(reader.reflector.run())
        return [asyncio.create_task(chore) for chore in chores]

    async def settle(self) -> None:
        """Wait until every source was asked once; one that does not answer holds up nobody for long."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                for follower in self._followers:
                    await follower.settled()
        except TimeoutError:
            log.warning("not every source of prices has answered yet")

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._transport is not None:
            await self._transport.aclose()

    def complaints(self) -> list[str]:
        """Why sources could not be read last time, one line each."""
        return [each.error for each in self._followers if each.error]

    def metrics(self) -> list[PriceMetrics]:
        """What there is to measure; nothing without sources."""
        return [PriceMetrics(self.ages)] if self.sources else []

    def ages(self) -> list[PriceAge]:
        """How old the prices of each source are."""
        if not self._followers:
            return [PriceAge(source.key, stale=True, confirmed_s=None) for source in self.sources]
        return [PriceAge(each.source.key, each.stale, each.confirmed_s) for each in self._followers]
