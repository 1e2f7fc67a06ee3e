"""Carries out what the engine orders for gangs that wait for nodes: ProvisioningRequests and what belongs to them.

Invariants:
- Every command is answered by one CapacityDone, whatever happens.
- Commands are carried out one after another, so their rate is bounded by the API server's answers, and two commands
  about one gang never overtake each other.
- A request exists only while its PodTemplates do: they are made before it and deleted after it. Cluster Autoscaler
  takes no request at all while one of them names a template that it cannot find.
- Members say that they consume a request before it is made, and no longer say so before it is deleted. A process that
  dies in between leaves something that the next leader completes, as all names follow from the gang.
- Nothing is sent where the server does not have such objects.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
import structlog

from moorage.adapters.kube.client import STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from moorage.adapters.kube.intake import resource_of
from moorage.adapters.kube.resources import POD_TEMPLATES, PODS
from moorage.core.commands import PodRef, ReleaseCapacity, RequestCapacity
from moorage.core.events import CapacityDone
from moorage.core.provisioning import CONSUMED, CONSUMED_CLASS, PROVISIONING_REQUEST
from moorage.wire.kinds import BY_ID
from moorage.wire.provisioning import request_body, template_body, template_name

CapacityCommand: TypeAlias = RequestCapacity | ReleaseCapacity
REQUESTS = resource_of(BY_ID[PROVISIONING_REQUEST])

log = structlog.get_logger()


class CapacityRequests:
    """Writes and deletes requests; `report` gets the answers, `served` says whether the server has such objects."""

    def __init__(
        self, client: KubeClient, report: Callable[[CapacityDone], None], *, served: Callable[[], bool]
    ) -> None:
        self._client = client
        self._report = report
        self._served = served
        self._waiting: asyncio.Queue[CapacityCommand] = asyncio.Queue()

    def submit(self, command: CapacityCommand) -> None:
        """Queue a command; never blocks. The engine has few of them open at a time."""
        self._waiting.put_nowait(command)

    async def run(self) -> None:
        """Carry out commands until cancelled."""
        while True:
            self._report(await self._carry_out(await self._waiting.get()))

    async def _carry_out(self, command: CapacityCommand) -> CapacityDone:
        if not self._served():
            return CapacityDone(command.gang, ok=False, message="ProvisioningRequests are not served", served=False)
        try:
            if isinstance(command, RequestCapacity):
                await self._request(command)
            else:
                await self._release(command)
        except KubeError as error:
            log.warning("capacity was not asked for", gang=command.gang.object_key, error=str(error))
            return CapacityDone(command.gang, ok=False, message=str(error), served=not isinstance(error, Forbidden))
        return CapacityDone(command.gang, ok=True)

    async def _request(self, command: RequestCapacity) -> None:
        for index, each in enumerate(command.sets):
            pod: dict[str, Any] = msgspec.json.decode(await self._client.get(PODS, each.pod.name, each.pod.namespace))
            if pod["metadata"]["uid"] != each.pod.uid:
                raise Conflict(f"pod {each.pod.key} is another one by now")
            with contextlib.suppress(AlreadyExists):
                await self._client.create(POD_TEMPLATES, template_body(command, index, pod), each.pod.namespace)
        await self._say(command.members, {CONSUMED: command.name, CONSUMED_CLASS: command.class_name})
        resource = self._client.in_use(REQUESTS)
        with contextlib.suppress(AlreadyExists):
            body = request_body(command) | {"apiVersion": resource.api_version}
            await self._client.create(resource, body, command.pod.namespace)

    async def _release(self, command: ReleaseCapacity) -> None:
        await self._say(command.members, {CONSUMED: None, CONSUMED_CLASS: None})
        if not command.uid:
            return
        namespace = command.gang.namespace
        with contextlib.suppress(NotFound):
            await self._client.delete(self._client.in_use(REQUESTS), command.name, namespace, uid=command.uid)
        for index in range(command.sets):
            with contextlib.suppress(NotFound):
                await self._client.delete(POD_TEMPLATES, template_name(command.name, index), namespace)

    async def _say(self, pods: Iterable[PodRef], annotations: dict[str, str | None]) -> None:
        """Write annotations, by the status, which we may write; pods that are gone, or are others by now, need none."""
        for pod in pods:
            body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
            with contextlib.suppress(NotFound, Conflict):
                await self._client.patch(
                    PODS, pod.name, body, pod.namespace, content_type=STRATEGIC_PATCH, subresource="status"
                )
