"""Publishes Kubernetes events (`events.k8s.io/v1`) about pods, without ever holding up a decision.

Invariants:
- `record` neither waits nor raises. When the queue is full the event is dropped and counted.
- Equal events (same pod, reason, action, note, reporter) within six minutes are one object with a series. The first
  repetition is written at once, later ones at most every `series_s`; what is left is written when the recorder stops.
- An event is written at most once, also when the answer to its creation was lost or is late: one request about it is
  under way at a time, and it is created under the same name again, so that AlreadyExists means that it is done.
- Events let binds go first, but not for long: from when one that tells of a bind has waited for `late_s`, more and more
  requests run at once. Those that tell of a bind go before all others: there may be thousands of pods that fit nowhere.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import MERGE_PATCH, KubeClient
from moorage.adapters.kube.errors import AlreadyExists, ApiError, KubeError, NotFound
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.resources import EVENTS
from moorage.core.commands import PodRef, RecordEvent
from moorage.core.values import dataclass
from moorage.wire.events import event_namespace, event_object

NAME_LIMIT = 220
"""The API server refuses longer ones."""
SERIES_END_S = 360.0
ATTEMPTS = 8
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
QUIET_S = 60.0
SCHEDULED = "Scheduled"
"""The reason of events that tell of a bind."""

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Entry:
    """An event and its repetitions."""

    command: RecordEvent
    first_s: float
    last_s: float
    name: str
    count: int = 1
    written_count: int = 0
    written_s: float = float("-inf")
    queued: bool = True
    """Whether it waits to be published, or is being published."""
    queued_s: float = 0.0


class EventRecorder:
    """Records events and publishes them with `workers` requests at once, and with more while they lag.

    The later the event that is taken, the more: `late_workers` when it has waited for twice `late_s`, which is above 0.

    `now_s` is the time; `jitter` gives numbers between 0 and 1; `published` is told of every write
    that succeeded. Give it a client of its own if decisions and events must not share a rate limit.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        jitter: Callable[[], float],
        hostname: str | None = None,
        workers: int = 16,
        late_workers: int = 96,
        late_s: float = 1.0,
        queue_limit: int = 50_000,
        remembered_limit: int = 4096,
        series_s: float = 30.0,
        now_s: Callable[[], float] = clock.now_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        published: Callable[[RecordEvent], None] = lambda _: None,
    ) -> None:
        self.dropped_count = 0
        """Events that were never published: the queue was full, or the server refused them."""
        self._client = client
        self._jitter = jitter
        self._hostname = hostname or socket.gethostname()
        self._workers = workers
        self._late_workers = late_workers
        self._late_s = late_s
        self._extra_count = 0
        self._remembered_limit = remembered_limit
        self._series_s = series_s
        self._now_s = now_s
        self._sleep = sleep
        self._published = published
        self._queue: asyncio.PriorityQueue[tuple[int, int, _Entry]] = asyncio.PriorityQueue(queue_limit)
        self._order = itertools.count()
        self._entries: OrderedDict[RecordEvent, _Entry] = OrderedDict()
        self._stamp = 0
        self._flushing = False
        self._complained_s = float("-inf")

    @property
    def pending(self) -> int:
        """How many events wait to be published."""
        return self._queue.qsize()

    def record(self, command: RecordEvent) -> None:
        """Take note of an event. Costs microseconds; the work is done by `run`."""
        now_s = self._now_s()
        entry = self._entries.get(command)
        if entry is None or now_s - entry.last_s > SERIES_END_S:
            entry = _Entry(command, now_s, now_s, self._unique_name(command.pod, now_s))
            if self._enqueued(entry):
                self._remember(entry)
            return
        entry.count += 1
        entry.last_s = now_s
        self._entries.move_to_end(command)
        first_repetition = entry.written_count == 1
        if not entry.queued and (first_repetition or now_s - entry.written_s >= self._series_s):
            self._enqueued(entry)

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep())
            for _ in range(self._workers):
                tasks.create_task(self._work(tasks))

    async def flush(self, timeout_s: float) -> bool:
        """Publish everything, series too; False when that takes longer. `run` must still be running."""
        self._flushing = True
        self._enqueue_unwritten(self._now_s())
        try:
            await asyncio.wait_for(self._queue.join(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _enqueued(self, entry: _Entry) -> bool:
        try:
            self._queue.put_nowait((_urgency(entry), next(self._order), entry))
        except asyncio.QueueFull:
            self._drop("the queue of events is full")
            return False
        entry.queued = True
        entry.queued_s = self._now_s()
        return True

    def _remember(self, entry: _Entry) -> None:
        self._entries[entry.command] = entry
        self._entries.move_to_end(entry.command)
        if len(self._entries) > self._remembered_limit:
            _, forgotten = self._entries.popitem(last=False)
            if forgotten.count > forgotten.written_count and not forgotten.queued:
                self._enqueued(forgotten)

    def _unique_name(self, pod: PodRef, now_s: float) -> str:
        self._stamp = max(self._stamp + 1, int(now_s * 1e9))
        return f"{pod.name[:NAME_LIMIT]}.{self._stamp:x}"

    async def _sweep(self) -> None:
        """Write the repetitions that were held back, and forget series that have ended."""
        while True:
            await self._sleep(self._series_s)
            now_s = self._now_s()
            self._enqueue_unwritten(now_s - self._series_s)
            self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        for command in [entry.command for entry in self._entries.values() if self._is_over(entry, now_s)]:
            del self._entries[command]

    def _is_over(self, entry: _Entry, now_s: float) -> bool:
        """Whether no repetition is expected any more; a pod is bound once, so that what tells of it is soon over."""
        lasts_s = SERIES_END_S if _urgency(entry) else self._series_s
        return not entry.queued and now_s - entry.last_s > lasts_s

    def _enqueue_unwritten(self, written_before_s: float) -> None:
        for entry in self._entries.values():
            if not entry.queued and entry.count > entry.written_count and entry.written_s <= written_before_s:
                self._enqueued(entry)

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            _, _, entry = await self._queue.get()
            await self._take(entry, tasks)

    async def _catch_up(self, tasks: asyncio.TaskGroup) -> None:
        """Work beside the others for as long as events are late."""
        try:
            while not self._queue.empty() and await self._take(self._queue.get_nowait()[2], tasks):
                pass
        finally:
            self._extra_count -= 1

    async def _take(self, entry: _Entry, tasks: asyncio.TaskGroup) -> bool:
        """Publish an event, and call for help if it is late; whether it is."""
        lateness = (self._now_s() - entry.queued_s) / self._late_s - 1.0
        late = not _urgency(entry) and lateness > 0.0
        if late and self._extra_count < self._late_workers * min(lateness, 1.0):
            self._extra_count += 1
            tasks.create_task(self._catch_up(tasks))
        try:
            written = await self._publish(entry)
            entry.queued = False
            if written and entry.count > entry.written_count and self._is_pressing(entry):
                self._enqueued(entry)  # repeated meanwhile
        finally:
            self._queue.task_done()
        return late

    def _is_pressing(self, entry: _Entry) -> bool:
        """Whether repetitions are written at once: the first ones, and those that would not be written later."""
        return entry.written_count == 1 or self._flushing or self._entries.get(entry.command) is not entry

    async def _publish(self, entry: _Entry) -> bool:
        """Write what was not written yet; whether that succeeded."""
        for attempt in range(ATTEMPTS):
            count = entry.count
            if count <= entry.written_count:
                return True
            try:
                await self._write(entry)
            except AlreadyExists:
                # The answer to an earlier attempt was lost; only repetitions are left to write.
                entry.written_count = max(entry.written_count, 1)
                continue
            except KubeError as error:
                final = isinstance(error, ApiError) and 400 <= error.status < 500 and error.status != 429
                if final or attempt + 1 >= ATTEMPTS:
                    self._drop(str(error))
                    return False
                ceiling_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)
                await self._sleep(ceiling_s * (0.5 + self._jitter() / 2))
            else:
                entry.written_count = max(entry.written_count, count)
                entry.written_s = self._now_s()
                self._published(entry.command)
                return True
        self._drop("the server says of every new name that it is taken, and that it is not there")
        return False

    async def _write(self, entry: _Entry) -> None:
        namespace = event_namespace(entry.command)
        if entry.written_count:
            try:
                await self._client.patch(
                    EVENTS, entry.name, {"series": _series(entry)}, namespace, content_type=MERGE_PATCH
                )
            except NotFound:
                # The server forgets events after an hour; the series goes on as a new event.
                entry.name, entry.written_count = self._unique_name(entry.command.pod, self._now_s()), 0
            else:
                return
        await self._client.create(EVENTS, self._body(entry), namespace)

    def _body(self, entry: _Entry) -> dict[str, Any]:
        instance = f"{entry.command.reporter}-{self._hostname}"
        body = event_object(entry.command, entry.name, micro_time(entry.first_s), instance)
        if entry.count > 1:
            body["series"] = _series(entry)
        return body

    def _drop(self, why: str) -> None:
        self.dropped_count += 1
        now_s = self._now_s()
        if now_s - self._complained_s >= QUIET_S:
            self._complained_s = now_s
            log.warning("events are being dropped", dropped=self.dropped_count, error=why)


def _urgency(entry: _Entry) -> int:
    return 0 if entry.command.reason == SCHEDULED else 1


def _series(entry: _Entry) -> dict[str, Any]:
    return {"count": entry.count, "lastObservedTime": micro_time(entry.last_s)}
