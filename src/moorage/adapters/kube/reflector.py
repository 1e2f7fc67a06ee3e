"""Follows one resource of the API server: a full list, then every change, for as long as the process lives.

Invariants:
- The sink sees `replaced` with everything that exists, then single changes in the server's order, until the next
  `replaced`. Nothing is handed over before the first list is complete.
- Whatever happens to the connection is repaired here: lost watches resume at the last version seen, versions that the
  server no longer has lead to a new list, failures are retried with growing, jittered pauses.
- A watch that is silent for longer than bookmarks can explain is taken for dead.
- An object that cannot be decoded does not affect others: it is counted, logged once and skipped. Its deletion takes
  effect all the same, as deletions are told by metadata alone.
- A kind that is not served is an empty one that may appear later. Only discovery can say so: a 404 by itself is an
  error like any other, and the core group is always served. A server checks permissions first, so that a kind that it
  does not have may be refused, too. A kind that is served in an older version is followed there, and the client is
  told, so that it is written in that version too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from enum import StrEnum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import describes, served_version
from moorage.adapters.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NoSuchPath,
    NotFound,
    ServerError,
    Timeout,
)
from moorage.adapters.kube.leftout import LeftOut
from moorage.adapters.kube.resources import Resource
from moorage.adapters.kube.watchstream import (
    BOOKMARK,
    DELETED,
    Garbage,
    LineSplitter,
    ObjectMeta,
    decode_event,
    decode_page,
    initial_events_end,
    metadata_of,
)
from moorage.core.values import dataclass

T = TypeVar("T")

log = structlog.get_logger()


class Sink(Protocol[T]):
    """Receives what a reflector sees. Called from the event loop; must not block. What it raises ends the reflector."""

    def replaced(self, objects: list[T]) -> None:
        """Everything that exists now; whatever is known beyond that is gone."""

    def upserted(self, obj: T) -> None:
        """An object was added or changed."""

    def deleted(self, meta: ObjectMeta) -> None:
        """An object was deleted."""


class Phase(StrEnum):
    """How a reflector is doing."""

    STARTING = "starting"
    SYNCED = "synced"
    NOT_SERVED = "not served"
    """The server does not serve the kind; we look again from time to time."""
    FORBIDDEN = "forbidden"
    """We lack the permission to list or watch; tried again from time to time."""
    RETRYING = "retrying"
    """The connection is lost; the copy may be out of date."""


@dataclass(frozen=True, slots=True)
class ReflectorState:
    """The phase, and for the unhappy ones the reason in one line."""

    phase: Phase
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReflectorPace:
    """Every duration and size of a reflector; tests shorten them."""

    silence_s: float = 90.0
    """Bookmarks arrive about once a minute, so this much silence means that the connection is dead."""
    first_silence_s: float = 15.0
    """The same before a streaming list is complete; after that, everything is listed in pages instead."""
    watch_s: float = 300.0
    """The server is asked to end a watch after this to twice this time, which spreads the load after its restart."""
    first_pause_s: float = 0.5
    longest_pause_s: float = 5.0
    """A server that is back is found within this time: without watches nothing can be decided."""
    look_again_s: float = 30.0
    """How often to look for a kind that is not served, or that we may not read."""
    stream_again_s: float = 3600.0
    """How long to list in pages after the server refused a streaming list."""
    page_size: int = 1000


class Reflector(Generic[T]):
    """Follows `resource` and hands what `parse` makes of each object to the sink.

    `parse` runs as objects arrive, so that a large list is never held as raw JSON. An object for which it raises,
    whatever that is, is left out; the sink gets what `remains` makes of it instead, if that is anything. `jitter` gives
    numbers between 0 and 1. With `tells_refusal` off, the code that waits for `settled` has to log that the kind may
    not be read, or is not served, from the start.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        sink: Sink[T],
        *,
        parse: Callable[[msgspec.Raw], T],
        remains: Callable[[msgspec.Raw], T | None] = lambda _: None,
        jitter: Callable[[], float],
        namespace: str | None = None,
        field_selector: str = "",
        label_selector: str = "",
        streaming: bool = True,
        tells_refusal: bool = True,
        pace: ReflectorPace | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.state = ReflectorState(Phase.STARTING)
        self.listed_count = 0
        """How many full lists were handed over."""
        self.paused_count = 0
        """How many pauses there were after failures."""
        self.left_out = LeftOut(resource)
        """What could not be read."""
        self._client = client
        self._sink = sink
        self._parse = parse
        self._remains = remains
        self._jitter = jitter
        self._wanted = resource
        self._namespace = namespace
        self._path = resource.path(namespace)
        self._selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {key: value for key, value in self._selectors.items() if value}
        self._tells_refusal = tells_refusal
        self._pace = pace or ReflectorPace()
        self._monotonic_s = monotonic_s
        self._stream_from_s = monotonic_s() if streaming else float("inf")
        self._version = ""
        self._last: msgspec.Raw | None = None
        self._garbage_at = ""
        self._failures = 0
        self._listed_at_s = float("-inf")
        self._settled = asyncio.Event()
        self._attempt: asyncio.Task[None] | None = None
        self._lacking = False

    async def run(self, *, lacking: bool = False) -> None:
        """Follow the resource until cancelled. `lacking`: discovery has just said that the server does not have it.

        Then the document of its group decides whether it is listed: that is cheaper than a watch, and never refused.
        """
        self._lacking = lacking
        while True:
            self._attempt = asyncio.ensure_future(self._attempted())
            try:
                await self._attempt
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Otherwise only the attempt was cancelled: `refresh` wants a new one.

    async def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Follow the resource while `work` goes on, until cancelled; what one of them raises ends both."""
        tasks = [asyncio.ensure_future(self.run()), asyncio.ensure_future(work)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self) -> ReflectorState:
        """Wait until the first list is handed over, or it is known why there is none."""
        await self._settled.wait()
        return self.state

    def refresh(self) -> None:
        """Ask for a new full list now; `settled` then waits for that one."""
        self._settled.clear()
        self._forget_version()
        if self._attempt is not None:
            self._attempt.cancel()

    def _forget_version(self) -> None:
        self._version, self._last = "", None

    async def _attempted(self) -> None:
        """One list or watch, and the pause that its end calls for."""
        version = self._resume_version()
        started_s = self._monotonic_s()
        try:
            if not version:
                if self._lacking and self.state.phase is Phase.STARTING and not await self._described():
                    await self._missing("the server does not have it")
                else:
                    await self._list()
                return
            await self._watch({"resourceVersion": version})
            if self._resume_version() == version and self._monotonic_s() - started_s < 1.0:
                raise ServerError("the server ends watches at once")
            self._failures = 0
        except Gone as error:
            await self._outdated(error)
        except Garbage as error:
            if self._resume_version() == self._garbage_at:
                self._forget_version()  # resumed there, the server sends the same again
            self._garbage_at = self._version
            await self._pause(Phase.RETRYING, error.message)
        except Forbidden as error:
            await self._refused(error)
        except (NotFound, NoSuchPath) as error:
            await self._not_there(error)
        except KubeError as error:
            await self._pause(Phase.RETRYING, str(error))

    def _resume_version(self) -> str:
        """Version to resume at. Read from the last object only when needed, which keeps it off the path of events."""
        if self._last is not None:
            last, self._last = self._last, None
            try:
                self._version = metadata_of(last).resource_version
            except Garbage:
                self._version = ""
        return self._version

    async def _outdated(self, error: ApiError) -> None:
        """The server has forgotten our version, as it does in an outage: list at once, unless that was just done."""
        listed_lately = self._monotonic_s() - self._listed_at_s < self._pace.longest_pause_s
        resumed = bool(self._version)
        self._forget_version()
        if listed_lately or not resumed:
            await self._pause(Phase.RETRYING, error.message)
        else:
            log.info("version is gone, listing anew", resource=str(self.resource), error=error.message)

    async def _refused(self, error: ApiError) -> None:
        """We may not read the kind, or the server does not have it."""
        missing = self.state.phase is Phase.NOT_SERVED
        if missing:
            with contextlib.suppress(KubeError):
                missing = not await self._described()
        if missing:
            await self._missing(error.message)
        else:
            await self._pause(Phase.FORBIDDEN, error.message)

    async def _described(self) -> bool:
        return await describes(self._client, self._wanted)

    async def _not_there(self, error: ApiError) -> None:
        """There is no such path: the kind is not served, or in another version, or something is wrong on the way."""
        found = await self._served()
        if found is None:
            await self._missing(error.message)
        elif found.version != self.resource.version:
            self._use(found)
        else:
            await self._pause(Phase.RETRYING, str(error))

    async def _served(self) -> Resource | None:
        """The resource in a version that the server has; None if it has none."""
        if self.state.phase is Phase.NOT_SERVED and not self._wanted.older:
            return None  # it is empty already
        try:
            return await served_version(self._client, self._wanted)
        except KubeError:
            return self.resource

    def _use(self, resource: Resource) -> None:
        """Follow the resource in another version from now on."""
        log.info("kind is served in another version", resource=str(resource))
        self._forget_version()
        self.resource, self._path = resource, resource.path(self._namespace)
        self._client.use(resource)

    async def _missing(self, error: str) -> None:
        """Treat the kind as an empty one, say so once, and wait before looking again."""
        self._forget_version()
        if self.state.phase is not Phase.NOT_SERVED:
            if not self._told_by_others(Phase.NOT_SERVED):
                log.info("kind is not served, looking again later", resource=str(self.resource), error=error)
            self._sink.replaced([])
        self._enter(Phase.NOT_SERVED, error)
        await asyncio.sleep(self._pace.look_again_s)

    async def _pause(self, phase: Phase, error: str) -> None:
        if (phase is not self.state.phase or self._failures == 0) and not self._told_by_others(phase):
            log.warning("watch interrupted", resource=str(self.resource), state=phase.value, error=error)
        longest_s = self._pace.look_again_s if phase is Phase.FORBIDDEN else self._pace.longest_pause_s
        ceiling_s = min(longest_s, self._pace.first_pause_s * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self.paused_count += 1
        self._enter(phase, error)
        await asyncio.sleep(ceiling_s * (0.5 + self._jitter() / 2))

    def _told_by_others(self, phase: Phase) -> bool:
        at_start = self.state.phase is Phase.STARTING and phase in {Phase.FORBIDDEN, Phase.NOT_SERVED}
        return at_start and not self._tells_refusal

    def _enter(self, phase: Phase, error: str = "") -> None:
        self.state = ReflectorState(phase, error)
        # A lost connection settles nothing; the caller decides how long to wait for a server.
        if phase in {Phase.SYNCED, Phase.NOT_SERVED, Phase.FORBIDDEN}:
            self._settled.set()

    async def _list(self) -> None:
        """Hand over everything that exists: by streaming if the server offers it, else in pages."""
        if self._monotonic_s() < self._stream_from_s:
            await self._list_in_pages()
            return
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._watch(query)
        except (Invalid, BadRequest):
            # Not in the server's words: they say "forbidden", which operators take for a missing right.
            if self._client.tell_once("streaming lists"):
                log.info("streaming lists are not served, using pages")
            self._stream_from_s = self._monotonic_s() + self._pace.stream_again_s
        except Timeout:
            if not self._resume_version():
                self._stream_from_s = self._monotonic_s() + self._pace.stream_again_s
            raise

    async def _list_in_pages(self) -> None:
        """List with a consistent read, page by page, so that memory holds one page of JSON at a time."""
        objects: list[T] = []
        query: dict[str, str | int] = {**self._selectors, "limit": self._pace.page_size}
        while True:
            page = decode_page(
                await self._client.request("GET", self._path, query=query, timeout_s=self._pace.silence_s)
            )
            for raw in page.items or ():
                self._parsed_into(objects.append, raw)
            if not page.metadata.continue_token:
                break
            query["continue"] = page.metadata.continue_token
        self._version = page.metadata.resource_version
        self._hand_over(objects)

    async def _watch(self, more: dict[str, str]) -> None:
        """Follow one watch until the server ends it."""
        query: dict[str, Any] = {
            **self._selectors,
            **more,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": int(self._pace.watch_s * (1 + self._jitter())),
        }
        async with self._client.stream(self._path, query=query, silence_s=self._pace.silence_s) as pieces:
            splitter = LineSplitter()
            if "sendInitialEvents" in more:
                await self._initial_events(self._patiently(pieces), splitter)
            else:
                self._enter(Phase.SYNCED)
            async for piece in pieces:
                self._changes(splitter.feed(piece))

    async def _patiently(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same pieces, as long as they keep coming."""
        while True:
            try:
                async with asyncio.timeout(self._pace.first_silence_s):
                    piece = await anext(pieces, None)
            except TimeoutError as silence:
                raise Timeout("the streaming list stands still") from silence
            if piece is None:
                return
            yield piece

    async def _initial_events(self, pieces: AsyncIterator[bytes], splitter: LineSplitter) -> None:
        """Collect what exists until the server says that this was all; changes in between are folded in."""
        found: dict[tuple[str | None, str], T] = {}
        async for piece in pieces:
            lines = splitter.feed(piece)
            for index, line in enumerate(lines):
                event = decode_event(line)
                if event.type == BOOKMARK:
                    version = initial_events_end(event.object)
                    if version is not None:
                        self._version = version
                        self._hand_over(list(found.values()))
                        self._changes(lines[index + 1 :])
                        return
                    continue
                meta = metadata_of(event.object)
                found.pop((meta.namespace, meta.name), None)
                if event.type != DELETED:
                    self._parsed_into(partial(found.__setitem__, (meta.namespace, meta.name)), event.object)
        raise ServerError("the streaming list ended before it was complete")

    def _changes(self, lines: list[bytes]) -> None:
        """Hand over single changes. This is the hot path: nothing here may cost more than decoding an envelope."""
        for line in lines:
            event = decode_event(line)
            if event.type == DELETED:
                meta = metadata_of(event.object)
                self.left_out.forget(meta)
                self._sink.deleted(meta)
            elif event.type != BOOKMARK:
                self._parsed_into(self._sink.upserted, event.object)
            self._last = event.object
        if lines:
            self._failures = 0

    def _parsed_into(self, take: Callable[[T], None], raw: msgspec.Raw) -> None:
        try:
            value = self._parse(raw)
        except Exception as failure:  # noqa: BLE001 - whatever one object brings about concerns that object alone
            self.left_out.add(raw, failure)
            rest = self._remains(raw)
            if rest is not None:
                take(rest)
        else:
            take(value)

    def _hand_over(self, objects: list[T]) -> None:
        self._last = None
        self._listed_at_s = self._monotonic_s()
        self._sink.replaced(objects)
        self.listed_count += 1
        self._failures = 0
        self._enter(Phase.SYNCED)
