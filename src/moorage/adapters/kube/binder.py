"""Carries out the engine's commands: bind, evict, write status, and write other objects for a pod's sake.

What came of it goes back as events.

Invariants:
- Outcomes are values. Every Bind is answered by one BindDone, every DeletePod by one DeleteDone, every PatchObject by
  one PatchDone, whatever happens, unless the binder is stopped.
- The truth is on the server: after any error, a 404 too, the pod is read again before an outcome is reported, for as
  long as it takes to reach the server. It is gone if the server says so of this very pod, or has another one of its
  name. What the server does later, such as a bind that it took after all, the watch will show.
- Commands on the same pod are carried out one after another, in order; a status patch must never overtake a bind.
- Everything names the pod by uid too, so that a new pod of the same name is never touched.
- Binds and evictions go before status patches when there is a queue; for a namespace that is alone at most `in_flight`
  requests run at once, and one in `CALM` of them at most are status patches that nothing waits for: a thousand pods
  that fit nowhere hold up no bind. Namespaces share fairly (`lanes`): slow binds of one hold up no other.
- What has changed since the decision is looked at when the first byte of a bind is about to go out (`obstacle`).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.errors import BadRequest, Conflict, Forbidden, KubeError, NotFound, Overtaken, ServerError
from moorage.adapters.kube.lanes import Lanes
from moorage.adapters.kube.objects import patch_object
from moorage.adapters.kube.podstatus import StatusPatches
from moorage.adapters.kube.podview import PodView, read_pod
from moorage.adapters.kube.resources import PODS
from moorage.core.commands import Bind, DeletePod, PatchObject, PatchPodStatus, PodRef
from moorage.core.events import BindDone, BindOutcome, DeleteDone, PatchDone, StatusDone

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
STATUS_ATTEMPTS = 4
CALM = 16
"""Few status patches are under way at a time: each is a place ahead of the next bind wherever requests wait in line,
at the client's rate limit and in a busy API server, and one of a large pod costs the latter more than a bind."""
_BOUND = BindOutcome.BOUND

PodCommand: TypeAlias = Bind | DeletePod | PatchPodStatus | PatchObject

log = structlog.get_logger()


def _is_urgent(command: PodCommand) -> bool:
    return bool(command.token) if isinstance(command, PatchPodStatus) else True


class Binder:
    """Carries out commands with a fixed number of workers.

    `report` gets the answers. `annotations` gives what every Binding carries, such as the leadership term.
    `delegate` carries out binds that name an extender: the empty text for success, else why not, None to decline.
    `obstacle` says what has come between a decision and its bind, empty if nothing has; it must cost next to nothing.
    `jitter` gives numbers between 0 and 1, `now_s` the time.
    """

    def __init__(
        self,
        client: KubeClient,
        report: Callable[[BindDone | DeleteDone | PatchDone | StatusDone], None],
        *,
        jitter: Callable[[], float],
        in_flight: int = 64,
        annotations: Callable[[], Mapping[str, str]] | None = None,
        delegate: Callable[[Bind], Awaitable[str | None]] | None = None,
        obstacle: Callable[[Bind], str] | None = None,
        now_s: Callable[[], float] = clock.now_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._report = report
        self._jitter = jitter
        self._annotations = annotations
        self._delegate = delegate
        self._sleep = sleep
        self._patches = StatusPatches(now_s)
        self._obstacle = obstacle
        # Twice what a namespace may have alone.
        self._lanes: Lanes[PodCommand] = Lanes(2 * in_flight, 2 * max(1, in_flight // CALM))
        self._behind: dict[str, deque[PodCommand]] = {}
        """Per uid with a command queued or running: the commands that wait for it."""

    @property
    def pending(self) -> int:
        """How many pods have commands that are not finished."""
        return len(self._behind)

    def submit(self, command: PodCommand) -> None:
        """Queue a command; never blocks. How far decisions run ahead is bounded by the engine's budget, not here."""
        waiting = self._behind.get(command.pod.uid)
        if waiting is not None:
            waiting.append(command)
            return
        self._behind[command.pod.uid] = deque()
        self._enqueue(command)

    async def run(self) -> None:
        """Carry out commands until cancelled."""
        await self._lanes.work(self._take_on)

    async def drained(self, timeout_s: float) -> bool:
        """Wait until every command is finished; False when that takes longer than `timeout_s`."""
        return await self._lanes.drained(timeout_s)

    def _enqueue(self, command: PodCommand) -> None:
        self._lanes.put(command.pod.namespace, command, urgent=_is_urgent(command))

    async def _take_on(self, command: PodCommand) -> None:
        """Carry out a command, and queue the next one for the same pod."""
        try:
            await self._carry_out(command)
        finally:
            waiting = self._behind[command.pod.uid]
            if waiting:
                self._enqueue(waiting.popleft())
            else:
                del self._behind[command.pod.uid]

    async def _carry_out(self, command: PodCommand) -> None:
        match command:
            case Bind():
                self._report(await self.bind(command))
            case DeletePod():
                self._report(await self.delete(command))
            case PatchObject():
                self._report(await patch_object(self._client, command, self._pause))
            case PatchPodStatus():
                outcome = await self.patch_status(command)
                if command.token:
                    self._report(outcome)

    async def bind(self, command: Bind) -> BindDone:
        """Bind a pod now, and say what came of it."""
        pod = command.pod
        why = "" if self._obstacle is None else self._obstacle(command)
        if why:
            return BindDone(pod.uid, BindOutcome.FAILED, command.node, why)
        if command.extender is not None and self._delegate is not None:
            said = await self._delegate(command)
            if said is not None:
                return await self._bind_truth(command, said) if said else BindDone(pod.uid, _BOUND, command.node)
        metadata: dict[str, Any] = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        annotations = {**command.annotations, **({} if self._annotations is None else self._annotations())}
        if annotations:
            metadata["annotations"] = annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": command.node},
        }
        try:
            check = None if self._obstacle is None else functools.partial(self._check, command)
            answer = await self._client.create(
                PODS, body, pod.namespace, name=pod.name, subresource="binding", check=check
            )
            if not answer.startswith(b"{"):
                raise ServerError("the answer to the bind is not the API server's")
        except KubeError as error:
            return await self._bind_truth(command, str(error))
        return BindDone(pod.uid, BindOutcome.BOUND, command.node)

    def _check(self, command: Bind) -> None:
        """Called when the first byte is about to go out."""
        why = "" if self._obstacle is None else self._obstacle(command)
        if why:
            raise Overtaken(why)

    async def _bind_truth(self, command: Bind, message: str) -> BindDone:
        uid = command.pod.uid
        try:
            view = await self._read(command.pod)
        except KubeError as error:
            return BindDone(uid, BindOutcome.FAILED, command.node, f"{message}; reading the pod: {error}")
        if view is None:
            return BindDone(uid, BindOutcome.GONE, message=message)
        node = view.spec.node_name
        if not node:
            return BindDone(uid, BindOutcome.FAILED, command.node, message)
        if node == command.node:
            return BindDone(uid, BindOutcome.BOUND, node)
        return BindDone(uid, BindOutcome.ELSEWHERE, node, message)

    async def delete(self, command: DeletePod) -> DeleteDone:
        """Evict a pod now: mark it as a disruption target, then delete it."""
        pod = command.pod
        try:
            await self._patch(pod, self._patches.disruption_target(command.reason, command.message))
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except KubeError as error:
            return await self._delete_truth(pod, str(error))
        return DeleteDone(pod.uid, ok=True)

    async def _delete_truth(self, pod: PodRef, message: str) -> DeleteDone:
        try:
            view = await self._read(pod)
        except KubeError as error:
            return DeleteDone(pod.uid, ok=False, message=f"{message}; reading the pod: {error}")
        gone = view is None or view.is_going
        return DeleteDone(pod.uid, ok=gone, message="" if gone else message)

    async def patch_status(self, command: PatchPodStatus) -> StatusDone:
        """Write condition and nominated node now. A pod that is gone needs none; other failures are logged."""
        body, uid, token = self._patches.of(command), command.pod.uid, command.token
        for attempt in itertools.count():
            try:
                await self._patch(command.pod, body)
            except (NotFound, Conflict) as error:
                return StatusDone(uid, ok=False, message=str(error), token=token)
            except KubeError as error:
                final = isinstance(error, Forbidden | BadRequest) or attempt == STATUS_ATTEMPTS - 1
                if final:
                    pod = command.pod.key
                    log.warning("pod status not written", pod=pod, error=str(error))
                    return StatusDone(uid, ok=False, message=str(error), token=token)
                await self._pause(attempt)
            else:
                self._patches.written(command)
                return StatusDone(uid, ok=True, token=token)
        raise AssertionError

    async def _patch(self, pod: PodRef, status: Mapping[str, Any]) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(
            PODS, pod.name, body, pod.namespace, content_type=STRATEGIC_PATCH, subresource="status"
        )

    async def _read(self, pod: PodRef) -> PodView | None:
        """Read the pod, trying until the server answers; None when it, or the pod of that uid, does not exist."""
        for attempt in itertools.count():
            try:
                return await read_pod(self._client, pod)
            except (Forbidden, BadRequest):
                raise
            except KubeError:
                await self._pause(attempt)
        raise AssertionError

    async def _pause(self, attempt: int) -> None:
        ceiling_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt, 20))
        await self._sleep(ceiling_s * (0.5 + self._jitter() / 2))
