"""Answers requests: a world in its own thread, an inbox for events, and the pages as JSON bytes.

Everything that touches the world runs in one worker thread, one thing at a time, so the event loop stays free to serve.
News are told a few times a second at most, however much happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, TypeVar

import msgspec

from moorage.adapters.dashboard.hub import Hub
from moorage.core.values import dataclass
from moorage.views.chartpage import charts_page
from moorage.views.pages import node_page, search, summary
from moorage.views.placements import StrategyLocation, strategies_page, takes_strategy
from moorage.views.podpage import pod_page
from moorage.views.previews import check_strategy, preview
from moorage.views.queues import queue_page
from moorage.views.repack import repack_page
from moorage.views.sharespage import shares_page
from moorage.views.spotpage import spot_page
from moorage.views.trialpage import trial_page
from moorage.views.world import Told, World

T = TypeVar("T")
NEWS_PAUSE_S = 0.25
_GZIP_LEVEL = 1
_QUEUE_ROWS = 300
_TIMELINE_ROWS = 500


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """What was asked for cannot be done; the text is one line for people."""


@dataclass(frozen=True, slots=True)
class StrategyChange:
    """A strategy to be written: where, and what. `key` is the annotation; empty for a PlacementPolicy."""

    kind: str
    namespace: str
    name: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """A range of time that charts show, in at most so many points of at least this length."""

    since_s: float
    until_s: float
    points: int
    step_s: float = 0.0


async def _no_change(change: StrategyChange) -> None:
    raise Refused(f"{change.kind} {change.namespace}/{change.name} cannot be changed here: this is only a record")


@dataclass(slots=True)
class Surroundings:
    """What the backend cannot know by itself."""

    mode: str
    """`live`, `demo` or `journal`."""
    title: str
    """Which cluster it is, for people."""
    now_s: Callable[[], float]
    writes: bool = False
    apply: Callable[[StrategyChange], Awaitable[None]] = _no_change
    suggest: Callable[[World, str, float], list[dict[str, Any]]] | None = None
    """(world, pod, now) -> suggestions; called in the world's thread."""
    what_if: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """What is asked for -> difference; takes its time elsewhere."""
    seek: Callable[[float], Awaitable[None]] | None = None
    """Show the moment of a journal."""
    series: Callable[[SeriesRequest], Awaitable[dict[str, Any]]] | None = None
    """The charts of a range, where the world does not have them itself."""
    span: tuple[float, float] | None = None
    """First and last moment of a journal."""
    notes: list[str] = field(default_factory=list)
    """What is worth knowing about what is shown, one line each."""


class DashboardBackend:
    """Answers for one world."""

    def __init__(self, world: World, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.hub = Hub()
        self._world = world
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dashboard")
        self._inbox: list[Told] = []
        self._wake = asyncio.Event()
        self._number = 0
        """Of the last news. Belongs to the world's thread."""
        self._published = 0
        self._snapshot: tuple[int, bytes] | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()

    # --- what happens ---

    def put(self, *told: Told) -> None:
        """Something happened; only in the event loop's thread."""
        self._inbox += told
        self._wake.set()

    def put_from_elsewhere(self, told: list[Told]) -> None:
        """Something happened; from any other thread. Ignored once the backend is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.put, *told)

    async def run(self) -> None:
        """Take over what happens and tell the news, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.take_over()
            await asyncio.sleep(NEWS_PAUSE_S)

    async def take_over(self) -> None:
        """Take over everything that was put so far."""
        told, self._inbox = self._inbox, []
        number, news = await self.ask(lambda world: self._told(world, told))
        if news:
            self._published = number
            self.hub.publish(number, news)

    async def replace(self, world: World) -> None:
        """Show another world from now on; all browsers reload."""

        def exchange(_: World) -> None:
            self._world, self._snapshot = world, None
            self._world.nodes.changes()
            self._number += 1

        await self.ask(exchange)
        self._published = self._number
        self.hub.reset()

    def close(self) -> None:
        """End everything."""
        self._closed = True
        self.hub.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, question: Callable[[World], T]) -> T:
        """Ask the world in its thread."""
        if self._closed:
            raise Refused("the dashboard is being stopped")
        return await self._loop.run_in_executor(self._thread, lambda: question(self._world))

    def _told(self, world: World, told: list[Told]) -> tuple[int, bytes]:
        now = self.surroundings.now_s()
        world.tell(told, now)
        rows, gone = world.nodes.changes()
        self._number += 1
        self._snapshot = None
        return self._number, msgspec.json.encode({"nodes": rows, "gone": gone, "summary": summary(world, now)})

    # --- pages ---

    async def snapshot(self) -> bytes:
        """Everything that a visitor needs first, compressed."""
        return await self.ask(self._snapshot_of)

    def _snapshot_of(self, world: World) -> bytes:
        if self._snapshot is None or self._snapshot[0] != self._number:
            around = self.surroundings
            document = {
                "number": self._number,
                "mode": around.mode,
                "title": around.title,
                "writes": around.writes,
                "whatif": around.what_if is not None,
                "suggests": around.suggest is not None,
                "span": around.span,
                "notes": around.notes,
                "nodes": world.nodes.everything(),
                "summary": summary(world, around.now_s()),
            }
            self._snapshot = (self._number, gzip.compress(msgspec.json.encode(document), _GZIP_LEVEL))
        return self._snapshot[1]

    @property
    def last(self) -> int:
        """The number of the newest news that were told."""
        return self._published

    async def queue(self, place: str) -> dict[str, Any]:
        """The pending pods."""
        return await self.ask(lambda world: queue_page(world, _QUEUE_ROWS, place))

    async def trial(self) -> dict[str, Any]:
        """A configuration on trial."""
        return await self.ask(trial_page)

    async def queues(self) -> dict[str, Any]:
        """The tree of queues."""
        return await self.ask(shares_page)

    async def node(self, name: str) -> dict[str, Any]:
        """One node."""

        def answer(world: World) -> dict[str, Any]:
            node = world.node(name)
            if node is None:
                raise Refused(f"there is no node {name} any more")
            return node_page(world, node)

        return await self.ask(answer)

    async def search(self, text: str) -> dict[str, Any]:
        """Pods and nodes by name."""
        return await self.ask(lambda world: search(world, text))

    async def pod(self, key: str) -> dict[str, Any]:
        """One pod, judged."""

        def answer(world: World) -> dict[str, Any]:
            pod = world.pod(key)
            if pod is None:
                raise Refused(f"there is no pod {key} any more")
            return pod_page(world, pod, self.surroundings.now_s())

        return await self.ask(answer)

    async def suggestions(self, key: str) -> dict[str, Any]:
        """What would help a pod."""
        suggest = self.surroundings.suggest
        if suggest is None:
            raise Refused("suggestions need whole objects, which a journal does not have")
        return {"suggestions": await self.ask(lambda world: suggest(world, key, self.surroundings.now_s()))}

    async def strategies(self) -> dict[str, Any]:
        """Target and actual."""
        return await self.ask(strategies_page)

    async def spot(self) -> dict[str, Any]:
        """Notices, moves and money."""
        return await self.ask(spot_page)

    async def repack(self) -> dict[str, Any]:
        """Which moves would empty nodes, or make room for pods that wait."""
        now = self.surroundings.now_s()
        return await self.ask(lambda world: repack_page(world, now))

    async def shadow(self) -> dict[str, Any]:
        """How decisions of another scheduler compare, if one is compared."""
        now = self.surroundings.now_s()
        return await self.ask(lambda world: {"on": False} if world.shadow is None else world.shadow.page(now))

    async def timeline(self, since: int) -> dict[str, Any]:
        """What happened after an entry."""

        def answer(world: World) -> dict[str, Any]:
            return {"last": world.timeline.last, "entries": world.timeline.since(since, _TIMELINE_ROWS)}

        return await self.ask(answer)

    async def series(self, asked: SeriesRequest) -> dict[str, Any]:
        """The charts of a range of time."""
        if self.surroundings.series is not None:
            return await self.surroundings.series(asked)

        def answer(world: World) -> dict[str, Any]:
            world.series.measure(self.surroundings.now_s())
            return charts_page(world.series, asked.since_s, asked.until_s, asked.points, asked.step_s)

        return await self.ask(answer)

    async def check(self, text: str) -> dict[str, Any]:
        """Whether a strategy can be read; needs no world."""
        return check_strategy(text)

    async def preview(self, namespace: str, kind: str, name: str, text: str) -> dict[str, Any]:
        """What a strategy would do to a workload."""
        now = self.surroundings.now_s()
        return await self.ask(lambda world: preview(world, namespace, kind, name, text, now))

    async def apply(self, change: StrategyChange) -> None:
        """Write a strategy, if that is allowed and only where strategies are written."""
        if not self.surroundings.writes:
            raise Refused("nothing can be changed here; start the dashboard with --allow-writes")
        location = StrategyLocation(change.kind, change.namespace, change.name, change.key)
        if not await self.ask(lambda world: takes_strategy(world, location)):
            where = f"{change.kind} {change.namespace}/{change.name}"
            raise Refused(f"{where} has no strategy there; take one that the page of strategies shows")
        await self.surroundings.apply(change)
