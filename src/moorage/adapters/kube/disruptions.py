"""Carries out what only the keeper orders: evictions through the eviction API, writes on nodes, and what nodes left.

Invariants:
- Every eviction and every write is answered by one event, whatever happens.
- Pods are deleted without grace only after the API server has said that their node does not exist.
- A pod counts as gone only if the API server says so of this very pod when it is read again, whatever the eviction was
  answered with.
- Evictions name the pod's uid, and writes the node's, so that nothing of the same name is ever touched.
- A budget's refusal is an answer like any other: the sender of the eviction knows until when it makes sense to ask
  again, so nothing is tried twice here.
- Commands go out in the order in which they came, nodes before pods; for a namespace that is alone at most `in_flight`
  run at once. Namespaces share fairly (`lanes`): slow evictions of one hold up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import structlog

from moorage.adapters.kube.client import MERGE_PATCH, KubeClient
from moorage.adapters.kube.errors import Conflict, KubeError, NotFound, TooManyRequests
from moorage.adapters.kube.lanes import Lanes
from moorage.adapters.kube.podview import read_pod
from moorage.adapters.kube.resources import NODES, PODS
from moorage.core.commands import ClearNode, EvictPod, PatchNode, PodRef
from moorage.core.events import EvictDone, EvictOutcome, NodePatched

EVICTION_TIMEOUT_S = 10.0

Disruption: TypeAlias = EvictPod | PatchNode | ClearNode

log = structlog.get_logger()


class Disruptions:
    """Carries out commands with a fixed number of workers; `report` gets the answers."""

    def __init__(
        self, client: KubeClient, report: Callable[[EvictDone | NodePatched], None], *, in_flight: int = 16
    ) -> None:
        self._client = client
        self._report = report
        self._lanes: Lanes[Disruption] = Lanes(2 * in_flight, 2 * in_flight)

    def submit(self, command: Disruption) -> None:
        """Queue a command; never blocks."""
        namespace = command.pod.namespace if isinstance(command, EvictPod) else ""
        self._lanes.put(namespace, command, lane=1 if namespace else 0)

    async def run(self) -> None:
        """Carry out commands until cancelled."""
        await self._lanes.work(self._carry_out)

    async def drained(self, timeout_s: float) -> bool:
        """Wait until every command is answered; False when that takes longer than `timeout_s`."""
        return await self._lanes.drained(timeout_s)

    async def _carry_out(self, command: Disruption) -> None:
        if isinstance(command, EvictPod):
            self._report(await self.evict(command))
        elif isinstance(command, PatchNode):
            self._report(await self.patch(command))
        else:
            await self.clear(command)

    async def evict(self, command: EvictPod) -> EvictDone:
        """Ask for an eviction now, once."""
        pod = command.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = PODS.path(pod.namespace, pod.name, "eviction")
        try:
            encoded = msgspec.json.encode(body)
            await self._client.request("POST", path, body=encoded, timeout_s=EVICTION_TIMEOUT_S, retries=0)
        except (NotFound, Conflict) as error:
            return EvictDone(pod.uid, await self._after_refusal(pod), str(error))
        except TooManyRequests as error:
            return EvictDone(pod.uid, EvictOutcome.REFUSED, str(error))
        except KubeError as error:
            return EvictDone(pod.uid, EvictOutcome.FAILED, str(error))
        return EvictDone(pod.uid, EvictOutcome.EVICTED)

    async def _after_refusal(self, pod: PodRef) -> EvictOutcome:
        """What is true after the server did not find the pod, or found another one in its place."""
        try:
            view = await read_pod(self._client, pod)
        except KubeError:
            return EvictOutcome.FAILED
        return EvictOutcome.GONE if view is None or view.is_going else EvictOutcome.FAILED

    async def patch(self, command: PatchNode) -> NodePatched:
        """Write on a node now."""
        body: dict[str, object] = {"metadata": {"uid": command.uid, "annotations": dict(command.annotations)}}
        if command.unschedulable is not None:
            body["spec"] = {"unschedulable": command.unschedulable or None}
        try:
            await self._client.patch(NODES, command.node, body, content_type=MERGE_PATCH)
        except KubeError as error:
            gone = isinstance(error, NotFound) and error.about(NODES.plural, command.node)
            return NodePatched(command, ok=gone, message="" if gone else str(error))
        return NodePatched(command, ok=True)

    async def clear(self, command: ClearNode) -> int:
        """Delete what a node that is gone has left, now; how many pods that were."""
        try:
            await self._client.get(NODES, command.node)
        except KubeError as error:
            if isinstance(error, NotFound) and error.about(NODES.plural, command.node):
                return sum(await asyncio.gather(*map(self._remove, command.pods)))
            log.warning("cannot tell whether a node is gone", node=command.node, why=str(error))
        else:
            log.info("a node is there, its pods stay", node=command.node)
        return 0

    async def _remove(self, pod: PodRef) -> bool:
        try:
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_period_s=0)
        except (NotFound, Conflict):
            return False
        except KubeError as error:
            log.warning("pod not deleted", pod=pod.key, why=str(error))
            return False
        return True
