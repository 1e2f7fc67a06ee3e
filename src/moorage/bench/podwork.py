"""Which pods a virtual kubelet has to start or to end, and when: a sink of the pod reflector and a queue of work.

Invariants: a pod is in the queue at most once; it is started at most once unless starting failed; a deleted pod is not
started any more; a pod whose grace period was shortened ends earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from moorage.adapters.kube.errors import ApiError, Conflict, NotFound
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.bench.virtualnodes import FINAL_PHASES, KubeletPod, remaining_grace_s

Deed = Callable[[KubeletPod], Awaitable[None]]

log = structlog.get_logger()


class PodWork:
    """Receives what the reflector sees and passes pods to `start` and `end`; `runs_here` says which nodes are ours."""

    def __init__(self, start: Deed, end: Deed, runs_here: Callable[[str], bool]) -> None:
        self._start = start
        self._end = end
        self._runs_here = runs_here
        self._pods: dict[str, KubeletPod] = {}
        self._started: set[str] = set()
        self._waiting: set[str] = set()
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # When the grace periods of deleted pods are over, on the loop's clock.
        self._ends_at_s: dict[str, float] = {}

    def replaced(self, objects: list[KubeletPod]) -> None:
        """Take over everything that exists."""
        present = {pod.metadata.uid for pod in objects}
        for uid in [uid for uid in self._pods if uid not in present]:
            self._forget(uid)
        for pod in objects:
            self.upserted(pod)

    def upserted(self, obj: KubeletPod) -> None:
        """Take over the newest state of a pod and plan what is to be done about it."""
        self._pods[obj.metadata.uid] = obj
        if self._runs_here(obj.spec.node_name):
            self._plan(obj)

    def deleted(self, meta: ObjectMeta) -> None:
        """Forget a pod that is gone."""
        self._forget(meta.uid or "")

    def reconsider(self) -> None:
        """Look at all known pods again, after the set of our nodes has changed."""
        for pod in self._pods.values():
            if self._runs_here(pod.spec.node_name):
                self._plan(pod)

    def close(self) -> None:
        """Drop all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def carry_out(self, retry_s: float) -> None:
        """Work through the queue until cancelled; several of these may run side by side."""
        while True:
            uid = await self._queue.get()
            self._waiting.discard(uid)
            pod = self._pods.get(uid)
            if pod is None or not self._runs_here(pod.spec.node_name):
                continue
            try:
                await self._act(pod)
            except (NotFound, Conflict):
                # Gone, or another pod of the same name by now; the watch tells.
                continue
            except ApiError as error:
                log.warning("virtual kubelet will try again", pod=pod.metadata.name, error=error.message)
                self._started.discard(uid)
                self._put(uid, retry_s)

    def _plan(self, pod: KubeletPod) -> None:
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp is not None:
            now_s = asyncio.get_running_loop().time()
            end_s = now_s + remaining_grace_s(pod, datetime.now(UTC))
            # Later news of the same deletion may bring the end nearer, but never put it off.
            self._ends_at_s[uid] = min(end_s, self._ends_at_s.get(uid, end_s))
            self._put(uid, self._ends_at_s[uid] - now_s)
        elif pod.status.phase == "Pending" and uid not in self._started:
            self._put(uid, 0.0)

    def _put(self, uid: str, delay_s: float) -> None:
        if timer := self._timers.pop(uid, None):
            timer.cancel()
        if delay_s > 0:
            self._timers[uid] = asyncio.get_running_loop().call_later(delay_s, self._put, uid, 0.0)
        elif uid not in self._waiting:
            self._waiting.add(uid)
            self._queue.put_nowait(uid)

    async def _act(self, pod: KubeletPod) -> None:
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp is not None:
            # It may be in the queue since before it was deleted; then a timer is set already.
            if uid not in self._timers:
                await self._end(pod)
        elif pod.status.phase not in FINAL_PHASES and uid not in self._started:
            self._started.add(uid)
            await self._start(pod)

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._started.discard(uid)
        self._ends_at_s.pop(uid, None)
        if timer := self._timers.pop(uid, None):
            timer.cancel()
