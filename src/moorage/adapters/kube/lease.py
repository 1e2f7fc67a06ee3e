"""Leader election on a Lease, with the rules of client-go, so that both kinds of replicas can share a lease.

Invariants:
- The lease of another holder is respected for its duration after its last observed change, by our own monotonic clock.
  Clocks of different machines are never compared. A deleted lease counts as unchanged.
- Every write has the resource version that it is based on as precondition; of two concurrent writes, one is refused.
- A candidate that stops waits for its own last write, and releases the lease that it may have taken: no stopped process
  holds the lease.
- `leading` is true only while the last renewal that succeeded began less than the renew deadline ago, which is shorter
  than the lease: a leader knows that it has lost the lease before another candidate can take it.
- While we lead, the lease names us. If it names another holder, we have lost it at once. A deleted lease is created
  again, in the same term.
- Nothing is acquired or renewed unless the work that the lease is for is alive (`heartbeat_s`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Callable

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import Conflict, Forbidden, KubeError, NotFound
from moorage.adapters.kube.leaserecord import (
    Lease,
    LeaseRecord,
    Term,
    changed_lease,
    new_lease,
    parse_lease,
)
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import LEASES
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.framework.configuration import LeaderElection

JITTER_FACTOR = 1.2
"""As in client-go: a standby waits for one to 2.2 retry periods."""
CONFLICT_PAUSE_S = 0.05
RELEASED_S = 1
"""Duration that a released lease carries, as client-go writes it."""

log = structlog.get_logger()
"""Names of leases are in the text: operators search for whole lines, as client-go writes them."""


class LeaderElector:
    """Takes part in one election. Belongs to one event loop; only `leading` may be called from any thread.

    `acquire` waits until we lead, `hold` renews until we do not, `release` ends it well. `follow` runs beside them and
    watches the Lease, so that changes are seen without waiting for a timer. `heartbeat_s` gives the monotonic time of
    the last sign of life of the work. `jitter` gives numbers between 0 and 1, `now_s` the time that is stamped.
    """

    def __init__(
        self,
        client: KubeClient,
        election: LeaderElection,
        identity: str,
        *,
        heartbeat_s: Callable[[], float] | None = None,
        jitter: Callable[[], float] = random.random,
        now_s: Callable[[], float] = clock.now_s,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.name = f"{election.resource_namespace}/{election.resource_name}"
        self._client = client
        self._election = election
        self._heartbeat_s = heartbeat_s or monotonic_s
        self._jitter = jitter
        self._now_s = now_s
        self._monotonic_s = monotonic_s
        self._duration_s = math.ceil(election.lease_duration_s)
        self._lease: Lease | None = None
        self._record = LeaseRecord()
        """As last seen or written; it outlives the deletion of the Lease."""
        self._changed_s = -math.inf
        self._leads = False
        self._valid_until_s = -math.inf
        self._underway: asyncio.Task[bytes] | None = None
        """The last write, until it has succeeded: the server may carry it out even if we stopped waiting for it."""
        self.forbidden = ""
        """Why the lease may not be taken, as the API server said at the last attempt; empty if it may."""
        self._said = ""
        self._notes: dict[str, str] = {}
        """Annotations that every write of ours has; replaced, never changed, as another thread sets them."""
        self._woken = asyncio.Event()

    def leading(self) -> bool:
        """Whether we lead at this moment."""
        return self._leads and self._monotonic_s() < self._valid_until_s

    @property
    def holder(self) -> str:
        """The current leader as far as we know; empty if there is none."""
        return self._record.holder

    def note(self, key: str, text: str) -> None:
        """Have an annotation written with the next renewal and all that follow; may be called from any thread."""
        self._notes = {**self._notes, key: text}

    def noted(self, key: str) -> str | None:
        """An annotation of the Lease as it was last seen or written; may be called from any thread."""
        lease = self._lease
        return None if lease is None else lease.note(key)

    def hurry(self) -> None:
        """Renew now rather than when it is due."""
        self._woken.set()

    async def follow(self) -> None:
        """Watch the Lease until cancelled. Without the permission to do so, timers have to be enough."""
        where = self._election
        reflector = Reflector(
            self._client,
            LEASES,
            _LeaseSink(self._saw),
            parse=parse_lease,
            jitter=self._jitter,
            namespace=where.resource_namespace,
            field_selector=f"metadata.name={where.resource_name}",
        )
        await reflector.run()

    async def acquire(self) -> Term:
        """Wait until we lead."""
        log.info("attempting to acquire leader lease %s...", self.name, identity=self.identity)
        while not await self._acquired():
            retry_s = self._election.retry_period_s * (1 + JITTER_FACTOR * self._jitter())
            left_s = self._changed_s + self._record.duration_s - self._monotonic_s()
            await self._pause(min(retry_s, left_s) if left_s > 0 else retry_s)
        log.info("successfully acquired lease %s", self.name, term=str(self._record.term))
        return self._record.term

    async def hold(self) -> str:
        """Renew the lease for as long as that works; the reason why it does not any more."""
        problem, pause_s = "", self._election.retry_period_s
        while True:
            await self._pause(pause_s)
            lost = self.hung() or self._expired(problem)
            if not lost:
                limit_s = min(self._request_s(), self._valid_until_s - self._monotonic_s())
                problem, pause_s = await self._renewed(limit_s)
                lost = self._taken()
            if lost:
                self._leads = False
                log.info("stopped leading, lease %s is lost", self.name, reason=lost)
                return lost

    async def release(self) -> None:
        """Release the lease, if it is ours, so that a standby need not wait until it expires."""
        self._leads = False
        try:
            async with asyncio.timeout(self._request_s()):
                if self._underway is not None:
                    await asyncio.wait([self._underway], timeout=self._request_s() / 2)
                    await self._look()
                with contextlib.suppress(Conflict, NotFound):
                    await self._given_back()
                    return
                # It was changed since our last write: check whether it still names us.
                await self._look()
                await self._given_back()
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released, it expires by itself", lease=self.name, error=_text(error))

    def hung(self) -> str:
        """Why the work counts as hung; empty while it does not."""
        silent_s = self._monotonic_s() - self._heartbeat_s()
        if silent_s <= self._election.renew_deadline_s:
            return ""
        return f"the loop of this process has shown no sign of life for {silent_s:.1f} s"

    # --- one attempt ---

    async def _acquired(self) -> bool:
        if self.hung():
            return False
        try:
            async with asyncio.timeout(self._request_s()):
                taken = await self._try()
        except Conflict as error:
            log.debug("failed to acquire lease %s", self.name, error=error.message)
            return False
        except Forbidden as error:
            self.forbidden = error.message
            self._complain(error.message)
            return False
        except (KubeError, TimeoutError) as error:
            self._complain(_text(error))
            return False
        self.forbidden = ""
        if not taken:
            log.debug("lock is held by %s and has not yet expired", self._record.holder)
            log.debug("failed to acquire lease %s", self.name)
        return taken

    async def _renewed(self, limit_s: float) -> tuple[str, float]:
        """Try once; what went wrong, and how long to wait before the next time."""
        retry_s = self._election.retry_period_s
        try:
            async with asyncio.timeout(limit_s):
                if await self._try():
                    self._said = ""
                    log.debug("successfully renewed lease %s", self.name)
        except Conflict as error:
            return _text(error), min(CONFLICT_PAUSE_S, retry_s)
        except (KubeError, TimeoutError) as error:
            self._complain(_text(error))
            return _text(error), retry_s
        return "", retry_s

    async def _try(self) -> bool:
        """Take or keep the lease; False if another candidate holds it."""
        if self._leads and self._lease is not None:
            with contextlib.suppress(Conflict, NotFound):
                await self._write(self._lease)
                return True
        lease = await self._look()
        if self._held_by_another() or (self._leads and self._taken()):
            return False
        await self._write(lease)
        return True

    async def _look(self) -> Lease | None:
        where = self._election
        try:
            self._see(parse_lease(await self._client.get(LEASES, where.resource_name, where.resource_namespace)))
        except NotFound:
            self._lease = None
        return self._lease

    async def _write(self, lease: Lease | None) -> None:
        """Write that we lead from now on, into the Lease as we know it or into a new one."""
        began_s, moment = self._monotonic_s(), micro_time(self._now_s())
        ours = self._record.holder == self.identity
        never = lease is None and not self._record.duration_s
        record = LeaseRecord(
            self.identity,
            self._duration_s,
            self._record.acquired if ours else moment,
            moment,
            self._record.transitions if ours or never else self._record.transitions + 1,
        )
        await self._put(lease, record)
        self._valid_until_s = began_s + self._election.renew_deadline_s
        self._leads = True

    async def _given_back(self) -> None:
        if self._lease is None or self._record.holder != self.identity:
            return
        moment = micro_time(self._now_s())
        await self._put(self._lease, LeaseRecord("", RELEASED_S, moment, moment, self._record.transitions))
        log.info("released lease %s", self.name)

    async def _put(self, lease: Lease | None, record: LeaseRecord) -> None:
        if self._underway is not None:
            self._underway.cancel()
        self._underway = asyncio.create_task(self._sent(lease, record))
        self._underway.add_done_callback(_heard)
        # A request cannot be taken back: a cancelled attempt leaves it running, and `release` waits for it.
        answer = await asyncio.shield(self._underway)
        self._underway = None
        self._see(parse_lease(answer))

    async def _sent(self, lease: Lease | None, record: LeaseRecord) -> bytes:
        namespace, name = self._election.resource_namespace, self._election.resource_name
        if lease is None:
            return await self._client.create(LEASES, new_lease(namespace, name, record, self._notes), namespace)
        return await self._client.replace(LEASES, name, changed_lease(lease, record, self._notes), namespace)

    # --- what we know ---

    def _see(self, lease: Lease) -> None:
        """Take note of the Lease; the time of its last change is the time at which we saw it change."""
        self._lease = lease
        if lease.record == self._record:
            return
        if lease.record.holder not in {"", self._record.holder, self.identity}:
            log.info("new leader elected", lease=self.name, leader=lease.record.holder)
        self._record = lease.record
        self._changed_s = self._monotonic_s()

    def _saw(self, lease: Lease | None) -> None:
        """The watch speaks; None: the Lease does not exist. It may lag behind what we read or wrote ourselves.

        So it never decides anything: it restarts the timer of a standby, and makes every candidate read the Lease.
        """
        holder = "" if lease is None else lease.record.holder
        if not self._leads and lease is not None:
            self._see(lease)
        if holder != self.identity if self._leads else not holder:
            self._woken.set()

    def _held_by_another(self) -> bool:
        holder = self._record.holder
        fresh = self._monotonic_s() < self._changed_s + self._record.duration_s
        return holder not in {"", self.identity} and fresh

    def _taken(self) -> str:
        if self._record.holder == self.identity:
            return ""
        return f"the lease {self.name} " + (
            f"is held by {self._record.holder}" if self._record.holder else "has no holder"
        )

    def _expired(self, problem: str) -> str:
        if self._monotonic_s() < self._valid_until_s:
            return ""
        why = f": {problem}" if problem else ""
        return f"the lease {self.name} was not renewed within {self._election.renew_deadline_s:g} s{why}"

    # --- waiting ---

    def _request_s(self) -> float:
        """Limit of one attempt: a dead connection must not cost the whole deadline."""
        return self._election.renew_deadline_s / 2

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):  # not wait_for, which may miss that it is cancelled
                await self._woken.wait()
        self._woken.clear()

    def _complain(self, problem: str) -> None:
        """Say what is wrong, once for as long as it is the same."""
        if problem != self._said:
            self._said = problem
            log.error("failed to acquire or renew lease, trying again", lease=self.name, error=problem)


class _LeaseSink:
    """The sink of the reflector that follows one Lease."""

    def __init__(self, saw: Callable[[Lease | None], None]) -> None:
        self._saw = saw

    def replaced(self, objects: list[Lease]) -> None:
        self._saw(objects[0] if objects else None)

    def upserted(self, obj: Lease) -> None:
        self._saw(obj)

    def deleted(self, _meta: ObjectMeta) -> None:
        self._saw(None)


def _heard(task: asyncio.Task[bytes]) -> None:
    """Retrieve the result of a request that is no longer awaited; asyncio would warn otherwise."""
    if not task.cancelled():
        task.exception()


def _text(error: Exception) -> str:
    return str(error) or "no answer in time"
