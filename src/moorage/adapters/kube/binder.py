"""Carries out the engine's commands: bind, evict, write status, and write other objects for a pod's sake.

What came of it goes back as events.

Invariants:
- Outcomes are values. Every Bind is answered by one BindDone, every DeletePod by one DeleteDone, every PatchObject by
  one PatchDone, whatever happens, unless the binder is stopped.
- The truth is on the server: after any error, a 404 too, the pod is read again before an outcome is reported, for as
  long as it takes to reach the server. It is gone if the server says so of this very pod, or has another one of its
  name. What the server does later, such as a bind that it took after all, the watch will show.
- Commands on the same pod are carried out one after another, in order (`podlines`); words, which are conditions and
  nominations that nothing waits for, never overtake a bind. A bind, a gang's record or an eviction overtakes the words
  of its own pod that were not sent yet, and these are dropped: who reads them would be told what is no longer so.
- Everything names the pod by uid too, so that a new pod of the same name is never touched.
- Binds and records go before evictions, so that a gang whose victims are gone starts while those of others leave, and
  evictions before words. For a namespace that is alone at most `in_flight` requests run at once, one in `EVICTING` of
  them evictions and one in `CALM` words. Namespaces share fairly (`lanes`): slow binds of one hold up no other.
- Words have a rate limit of their own, so that they do not use up that of the binds.
- A pod that is given devices is bound only once its status says which (`wire.assignments`).
- What has changed since the decision is looked at when the first byte of a bind is about to go out (`obstacle`).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.errors import BadRequest, Conflict, Forbidden, KubeError, NotFound, Overtaken, ServerError
from moorage.adapters.kube.lanes import Lanes
from moorage.adapters.kube.objects import patch_object
from moorage.adapters.kube.podlines import WORDS, PodCommand, PodLine, PodLines
from moorage.adapters.kube.podstatus import StatusPatches
from moorage.adapters.kube.podview import PodView, read_pod
from moorage.adapters.kube.resources import PODS
from moorage.core.commands import Bind, DeletePod, PatchObject, PatchPodStatus, PodRef
from moorage.core.events import BindDone, BindOutcome, DeleteDone, PatchDone, StatusDone
from moorage.wire.assignments import condition_of_assignment

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
STATUS_ATTEMPTS = 4
EVICTING = 4
"""Evictions of hundreds of pods leave the API server room for the binds of those that they are made for."""
CALM = 16
"""Few words are under way at a time: each is a place ahead of the next bind in a busy API server, and one of a large
pod costs that more than a bind."""
_BOUND = BindOutcome.BOUND

log = structlog.get_logger()


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
        most = (2 * max(1, in_flight // EVICTING), 2 * max(1, in_flight // CALM))
        self._lanes: Lanes[tuple[PodLine, int]] = Lanes(2 * in_flight, *most)
        self._lines = PodLines(lambda line, lane: self._lanes.put(line.namespace, (line, lane), lane))

    @property
    def pending(self) -> int:
        """How many pods have commands that are not finished."""
        return len(self._lines)

    @property
    def overtaken_count(self) -> int:
        """How many words were dropped, as a bind, a record or an eviction of their pod overtook them."""
        return self._lines.overtaken_count

    def submit(self, command: PodCommand) -> None:
        """Queue a command; never blocks. How far decisions run ahead is bounded by the engine's budget, not here."""
        self._lines.submit(command)

    async def run(self) -> None:
        """Carry out commands until cancelled."""
        await self._lanes.work(self._take_on)

    async def drained(self, timeout_s: float) -> bool:
        """Wait until every command is finished; False when that takes longer than `timeout_s`."""
        return await self._lanes.drained(timeout_s)

    async def _take_on(self, item: tuple[PodLine, int]) -> None:
        """Carry out the next command of a pod, and queue the one after it."""
        line, lane = item
        command = self._lines.take(line, lane)
        if command is None:
            return
        try:
            if lane == WORDS and isinstance(command, PatchPodStatus):
                await self._say(command, line)
            else:
                await self._carry_out(command)
        finally:
            self._lines.done(line)

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

    async def _say(self, command: PatchPodStatus, line: PodLine) -> None:
        """Write words, unless something that matters comes before the first byte has gone out."""
        sent = False

        def check() -> None:
            nonlocal sent
            if line.hurried:
                raise Overtaken("the pod is on its way")
            sent = True

        saying = asyncio.ensure_future(self.patch_status(command, check, line.hurry))
        hurrying = asyncio.ensure_future(line.hurry.wait())
        try:
            await asyncio.wait({saying, hurrying}, return_when=asyncio.FIRST_COMPLETED)
            said = sent and (await saying).ok if not saying.done() else saying.result().ok
        finally:
            saying.cancel()
            hurrying.cancel()
        if not said and line.hurried:
            self._lines.unsaid(line, command)

    async def bind(self, command: Bind) -> BindDone:
        """Bind a pod now, and say what came of it."""
        pod = command.pod
        why = "" if self._obstacle is None else self._obstacle(command)
        if why:
            return BindDone(pod.uid, BindOutcome.FAILED, command.node, why)
        if command.assigned is not None:
            recorded = await self.patch_status(PatchPodStatus(pod, condition_of_assignment(command.assigned)))
            if not recorded.ok:
                return await self._bind_truth(command, f"the devices of the pod: {recorded.message}")
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

    async def patch_status(
        self,
        command: PatchPodStatus,
        check: Callable[[], None] | None = None,
        hurry: asyncio.Event | None = None,
    ) -> StatusDone:
        """Write condition and nominated node now. A pod that is gone needs none; other failures are logged.

        `check` is called when the first byte is about to go out; `hurry` ends the pauses between attempts, and those.
        """
        body, uid, token = self._patches.of(command), command.pod.uid, command.token
        for attempt in itertools.count():
            try:
                await self._patch(command.pod, body, calm=hurry is not None, check=check)
            except (NotFound, Conflict, Overtaken) as error:
                return StatusDone(uid, ok=False, message=str(error), token=token)
            except KubeError as error:
                final = isinstance(error, Forbidden | BadRequest) or attempt == STATUS_ATTEMPTS - 1
                if final:
                    pod = command.pod.key
                    log.warning("pod status not written", pod=pod, error=str(error))
                    return StatusDone(uid, ok=False, message=str(error), token=token)
                await self._rest(attempt, hurry)
            else:
                self._patches.written(command)
                return StatusDone(uid, ok=True, token=token)
        raise AssertionError

    async def _patch(
        self,
        pod: PodRef,
        status: Mapping[str, Any],
        *,
        calm: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(
            PODS,
            pod.name,
            body,
            pod.namespace,
            content_type=STRATEGIC_PATCH,
            subresource="status",
            calm=calm,
            check=check,
        )

    async def _rest(self, attempt: int, hurry: asyncio.Event | None) -> None:
        """Pause before another attempt, at most until something that matters is to be done for the pod."""
        if hurry is None:
            await self._pause(attempt)
            return
        pausing, hurrying = asyncio.ensure_future(self._pause(attempt)), asyncio.ensure_future(hurry.wait())
        try:
            await asyncio.wait({pausing, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pausing.cancel()
            hurrying.cancel()

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
