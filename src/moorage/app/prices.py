"""The prices that the profiles of a process need, followed while it runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Container, Iterable
from dataclasses import replace

import structlog
from prometheus_client.registry import Collector

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import ServedResources
from moorage.adapters.kube.prices import ConfigMapReader, PriceFollower, make_reader
from moorage.adapters.kube.transport import AiohttpTransport
from moorage.adapters.metrics.prices import PriceAge, PriceMetrics
from moorage.app.lifetime import Parts
from moorage.core.events import Event, ObjectSeen
from moorage.core.prices import PRICE_LIST
from moorage.framework.pricing import PriceSource
from moorage.framework.profiles import Profile
from moorage.plugins.cost_aware import price_readers

_SETTLE_S = 15.0

Put = Callable[[Event], None]

log = structlog.get_logger()


def price_sources(profiles: Iterable[Profile]) -> list[PriceSource]:
    """Where prices come from, each source once: if profiles differ, the shorter interval counts."""
    found: dict[str, PriceSource] = {}
    for plugin in price_readers(profiles):
        source = plugin.source
        if source is not None:
            other = found.get(source.key, source)
            poll_s, stale_s = min(source.poll_s, other.poll_s), min(source.stale_after_s, other.stale_after_s)
            found[source.key] = replace(other, poll_s=poll_s, stale_after_s=stale_s)
    return list(found.values())


class Prices:
    """Follows every source of prices by polling it (`app/sources.py`); `put` gets the events."""

    def __init__(self, profiles: Iterable[Profile], client: KubeClient, put: Put, parts: Parts) -> None:
        self._client = client
        self._put = put
        self._parts = parts
        self._polls = _Polls(profiles, client, put)

    def start(self, served: ServedResources | None = None) -> None:  # noqa: ARG002 - part of the interface
        """Start to poll."""
        self._polls.start(self._parts)

    async def settle(self) -> None:
        """Wait until every source was polled once, but not for long if one does not answer."""
        await self._polls.settle()

    async def follow(self, profiles: Iterable[Profile]) -> None:
        """Follow the prices of these profiles instead, as soon as they were read once."""
        before, self._polls = self._polls, _Polls(profiles, self._client, self._put)
        self.start()
        await self.settle()
        await self._parts.drop(before.tasks)
        await before.aclose()

    async def refresh(self, resources: Container[str] | None = None) -> None:
        """Nothing to do: prices are polled, so no update is missed."""

    def ages(self) -> list[PriceAge]:
        """How old the prices of each source are."""
        return self._polls.ages()

    def complaints(self) -> list[str]:
        """Why sources could not be read last time, one line each."""
        return [each.error for each in self._polls.followers if each.error]

    def collectors(self) -> list[Collector]:
        """How old prices are."""
        return [PriceMetrics(self.ages)]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._polls.aclose()


async def read_prices(profiles: Iterable[Profile], client: KubeClient, put: Put) -> list[str]:
    """Poll every source once; returns the problems, a line each."""
    parts = Parts()
    prices = Prices(profiles, client, put, parts)
    prices.start()
    try:
        await prices.settle()
    finally:
        await parts.aclose()
        await prices.aclose()
    return [f"prices cannot be read, so nodes have none: {why}" for why in prices.complaints()]


class _Polls:
    """The sources of some profiles, each with its poller."""

    def __init__(self, profiles: Iterable[Profile], client: KubeClient, put: Put) -> None:
        profiles = list(profiles)
        self._sources = price_sources(profiles)
        self._own = [plugin.own for plugin in price_readers(profiles) if plugin.own is not None]
        self._client = client
        self._put = put
        self._transport: AiohttpTransport | None = None
        self.followers: list[PriceFollower] = []
        self.tasks: list[asyncio.Task[None]] = []
        if any(plugin.own is None and plugin.source is None for plugin in price_readers(profiles)):
            log.warning("CostAware has neither prices nor a source of them, so no node has a price")

    def start(self, parts: Parts) -> None:
        """Start to poll; prices in arguments become an event at once, for cost figures."""
        for own in self._own:
            self._put(ObjectSeen(PRICE_LIST, own.key, own))
        if not self._sources:
            return
        transport = self._transport = AiohttpTransport(connections=len(self._sources))
        jitter = random.Random().random
        for source in self._sources:
            reader = make_reader(source, self._client, transport, jitter)
            follower = PriceFollower(source, reader, self._put)
            self.followers.append(follower)
            watching = [reader.reflector.run()] if isinstance(reader, ConfigMapReader) else []
            self.tasks += parts.start(follower.run(), *watching)

    async def settle(self) -> None:
        try:
            async with asyncio.timeout(_SETTLE_S):
                for follower in self.followers:
                    await follower.settled()
        except TimeoutError:
            log.warning("not every source of prices has answered yet")

    def ages(self) -> list[PriceAge]:
        if not self.followers:
            return [PriceAge(source.key, stale=True, confirmed_s=None) for source in self._sources]
        return [PriceAge(each.source.key, each.stale, each.confirmed_s) for each in self.followers]

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
