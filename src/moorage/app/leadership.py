"""Leadership of a process: the election runs in a thread, so that busy work does not cost the lease.

The thread has its own event loop, its own credentials and its own connections. It renews the lease only while the work
has a recent heartbeat, and it survives work that hangs: when leadership is lost and the process does not end soon
after, the thread ends it. A leader must check `leading` before it decides, and again before it writes (see
adapters/kube/fence.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.lease import LeaderElector
from moorage.adapters.kube.leaserecord import Term
from moorage.framework.configuration import LeaderElection

LOST_EXIT_CODE = 1
"""As kube-scheduler exits when it loses its lease."""
EXIT_GRACE_S = 3.0
"""How long a process that lost the lease may take to end by itself."""
RELEASE_S = 5.0
"""How long a process waits for its lease to be released: less than others would wait for it to expire."""


class LeadershipLost(Exception):  # noqa: N818 - named after what happened, as its outcome is an exit, not a fault
    """Another process may lead from now on; the text is one line."""


class Leadership:
    """One process in one election: `start`, `acquired`, work, `lost` or `aclose`.

    Created, started and closed in the event loop of the work; `leading` may be called from anywhere. `connect` is
    called in the thread of the election. `end_process` is called there, with the reason, when the work hangs.
    """

    def __init__(
        self,
        election: LeaderElection,
        connect: Callable[[], KubeClient],
        *,
        identity: str | None = None,
        end_process: Callable[[str], None] | None = None,
    ) -> None:
        self.election = election
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._connect = connect
        self._end_process = end_process or _end_process
        self._heartbeat_s: Callable[[], float] | None = None
        self._elector: LeaderElector | None = None
        self._given_up = False
        self._thread: threading.Thread | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._acquired: Future[Term] = Future()
        self._ended: Future[str] = Future()
        """Why this process no longer leads; empty after a release."""
        self._closed = threading.Event()

    def leading(self) -> bool:
        """Whether this process leads at this moment."""
        elector = self._elector
        return elector is not None and not self._given_up and elector.leading()

    def forbidden(self) -> str:
        """Why this process can never lead, as it may not read or write the lease; empty while it may. From anywhere."""
        elector = self._elector
        why = "" if elector is None else elector.forbidden
        return f"the lease {elector.name} cannot be had: {why}" if elector is not None and why else ""

    def start(self, heartbeat_s: Callable[[], float]) -> None:
        """Take part from now on. `heartbeat_s` returns the monotonic time of the work's last heartbeat."""
        self._heartbeat_s = heartbeat_s
        # A daemon: if the work fails, the process must not wait for its lease.
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)
        self._thread.start()

    def note(self, key: str, text: str) -> None:
        """Have an annotation of the Lease written by the leader, as soon as possible; may be called from anywhere."""
        elector = self._elector
        if elector is None or not self._started.done():
            return
        elector.note(key, text)
        with contextlib.suppress(RuntimeError):  # the thread has ended
            self._started.result()[0].call_soon_threadsafe(elector.hurry)

    def noted(self, key: str) -> str | None:
        """An annotation of the Lease as it was last seen or written."""
        return None if self._elector is None else self._elector.noted(key)

    async def acquired(self) -> Term:
        """Wait until this process leads."""
        return await asyncio.shield(asyncio.wrap_future(self._acquired))

    async def lost(self) -> None:
        """Wait until this process no longer leads; raises LeadershipLost."""
        reason = await asyncio.shield(asyncio.wrap_future(self._ended))
        raise LeadershipLost(f"leadership lost: {reason or 'the lease was released'}")

    async def aclose(self) -> None:
        """Write nothing more, release the lease if this process holds it, and leave the election."""
        self._given_up = True
        self._closed.set()
        if self._thread is None:
            return
        with contextlib.suppress(TimeoutError, KubeError):
            async with asyncio.timeout(RELEASE_S):
                loop, stop = await asyncio.shield(asyncio.wrap_future(self._started))
                with contextlib.suppress(RuntimeError):  # it has ended already
                    loop.call_soon_threadsafe(stop.set)
                await asyncio.shield(asyncio.wrap_future(self._ended))

    # --- in the thread ---

    def _run(self) -> None:
        try:
            reason = asyncio.run(self._elect())
        except BaseException as error:  # noqa: BLE001 - what waits must learn of it
            for future in (self._started, self._acquired):
                if not future.done():
                    future.set_exception(error)
            self._ended.set_exception(error)
            reason = str(error)
        else:
            self._ended.set_result(reason)
        if reason and not self._closed.wait(EXIT_GRACE_S):
            self._end_process(reason)

    async def _elect(self) -> str:
        async with self._connect() as client:
            elector = LeaderElector(client, self.election, self.identity, heartbeat_s=self._heartbeat_s)
            stop = asyncio.Event()
            self._elector = elector
            self._started.set_result((asyncio.get_running_loop(), stop))
            following = asyncio.create_task(elector.follow())
            leading = asyncio.create_task(self._lead(elector))
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait([following, leading, stopping], return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()  # it never ends by itself
                reason = leading.result() if leading.done() else ""
            finally:
                for task in (following, leading, stopping):
                    task.cancel()
                await asyncio.gather(following, leading, stopping, return_exceptions=True)
            # Work that hangs cannot write any more, so a standby need not wait until the lease expires.
            if not reason or elector.hung():
                await elector.release()
            return reason

    async def _lead(self, elector: LeaderElector) -> str:
        self._acquired.set_result(await elector.acquire())
        return await elector.hold()


def _end_process(reason: str) -> None:
    """End a process that cannot end itself, with the line that it would have printed."""
    sys.stderr.write(f"error: leadership lost: {reason}\n")
    sys.stderr.flush()
    os._exit(LOST_EXIT_CODE)
