"""What long-running commands have in common: connect, follow the cluster, become leader, work, shut down cleanly.

A process starts its parts, reaches the API server, fills its caches, and acts as soon as it leads, or at once if there
is no election. It ends on a signal, when it has lost the lease, or when one of its parts dies: half a process is worse
than none. Before it ends it stops following, finishes what it began, releases the lease, for which a standby waits, and
publishes its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Sequence
from typing import Any

from prometheus_client.registry import Collector

from moorage.adapters import clock
from moorage.adapters.certificates import CertificateError
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import ServedResources
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.events import EventRecorder
from moorage.adapters.listening import ListenError
from moorage.adapters.metrics.leadership import LeadershipMetrics
from moorage.adapters.process import tune_service
from moorage.app.connection import reached
from moorage.app.leadership import Leadership
from moorage.app.lifetime import Parts, StartError, first, stop_signal
from moorage.app.sources import Following
from moorage.core.commands import Command, RecordEvent

FLUSH_S = 2.0
UNLISTED = "not every kind has been listed yet"
STOPPING = "stopping"


def run(main: Coroutine[Any, Any, None], *reasons: type[Exception]) -> None:
    """Run a command to its end; each of the `reasons` becomes a StartError."""
    known: tuple[type[Exception], ...] = (KubeError, ListenError, CertificateError, *reasons)
    try:
        asyncio.run(main)
    except known as error:
        raise StartError(str(error)) from None


async def until_stopped(
    work: Coroutine[Any, Any, None], *chores: Coroutine[Any, Any, None], stop: Coroutine[Any, Any, None] | None = None
) -> None:
    """Work until SIGINT or SIGTERM, or until `stop` ends."""
    await first(stop or stop_signal(), clock.tell_of_jumps(), work, *chores)


class Process:
    """One process on one API server. Without a leadership it acts as soon as its caches are filled."""

    name = "process"
    written: Container[str] | None = None
    """The resources that a leader writes, which a new leader therefore lists again; None: any."""

    def __init__(
        self,
        client: KubeClient,
        events_client: KubeClient,
        following: Following,
        leadership: Leadership | None = None,
        published: Callable[[RecordEvent], None] = lambda _: None,
    ) -> None:
        """`published` is told of the events that were written."""
        self._client = client
        self._following = following
        self._leadership = leadership
        self._recorder = EventRecorder(events_client, jitter=random.Random().random, published=published)
        self._parts = Parts()
        self._filled = asyncio.Event()
        self._unready = UNLISTED

    # --- what others see ---

    def unready(self) -> str:
        """Why the process is not ready; empty once it knows the whole cluster, whether or not it acts.

        A standby that may not have the lease is not ready: it would never act.
        """
        return self._unready or self.leaseless()

    def leaseless(self) -> str:
        """Why this process can never act; empty if it may."""
        return "" if self._leadership is None else self._leadership.forbidden()

    async def filled(self) -> None:
        """Wait until the process knows the whole cluster."""
        await self._filled.wait()

    def collectors(self) -> list[Collector]:
        """The metrics of every process."""
        found = self._following.collectors()
        if self._leadership is not None:
            found.append(LeadershipMetrics(self._leadership.election.resource_name, self._leadership.leading))
        return found

    def leading(self) -> bool:
        """Whether this process leads, or takes part in no election."""
        return self._leadership is None or self._leadership.leading()

    def _record(self, command: Command) -> None:
        """Carry out what there is to tell users."""
        if isinstance(command, RecordEvent):
            self._recorder.record(command)

    # --- lifecycle ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the parts; shut them down cleanly at the end of the block."""
        self._parts.start(self._recorder.run(), *self._chores())
        try:
            yield
        finally:
            self._unready = STOPPING
            await self._following.aclose()
            await self._finish()
            await self._parts.aclose()

    async def work(self) -> None:
        """Run until a part dies or the lease is lost; ends by raising."""
        await first(self._live(), self._parts.failure(), self._following.parts.failure())
        raise RuntimeError(f"the {self.name} ended by itself")

    def _chores(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What runs from the start; none of it may end by itself."""
        return ()

    async def _live(self) -> None:
        """Everything from reaching the API server to the loss of the lease."""
        await self._fill(await reached(self._client))
        self._unready = ""
        await self._lead()

    async def _finish(self) -> None:
        """Finish what was begun: release the lease, and publish the remaining events."""
        await self._resign()
        await self._recorder.flush(FLUSH_S)

    async def _fill(self, served: ServedResources) -> None:
        """Fill the caches from the API server, which is known to answer."""
        await self._following.fill(served)
        self._filled.set()

    # --- leading ---

    async def _lead(self) -> None:
        """Wait until this process leads, catch up with the previous leader, and act; raises LeadershipLost.

        What a watch has not delivered yet may contradict what this process does. So what leaders write is listed again:
        after the takeover no other process writes, and a list that begins after it misses nothing.
        """
        leadership = self._leadership
        if leadership is None:
            await self._begin("")
            await asyncio.Event().wait()
        else:
            leadership.start(self._heartbeat_s)
            await first(leadership.lost(), self._take_over(leadership))

    async def _take_over(self, leadership: Leadership) -> None:
        term = await leadership.acquired()
        await self._following.refresh(self.written)
        if leadership.leading():
            await self._begin(str(term))
        await leadership.lost()

    async def _begin(self, term: str) -> None:
        """Act from now on, in this term; it is empty without an election."""

    def _heartbeat_s(self) -> float:
        """The last heartbeat of the work, by the monotonic clock; called in the thread of the election.

        Now, as in an election without a heartbeat, unless a process has work that can stall.
        """
        return time.monotonic()

    async def _resign(self) -> None:
        if self._leadership is not None:
            await self._leadership.aclose()


async def tuned(process: Process) -> None:
    """Tune the memory allocator and the garbage collector once the caches are filled."""
    await process.filled()
    tune_service(asyncio.get_running_loop())
    await asyncio.Event().wait()
