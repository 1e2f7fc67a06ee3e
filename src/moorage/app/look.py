"""One look at a live cluster, for commands that need no watch: kinds are listed, each once, and nothing is written.

The lists are of one moment as far as the server still knows it. Kinds that it does not have are empty, and so are those
that we may not list, with a warning. Without nodes and pods there is nothing to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.discovery import served_resources
from moorage.adapters.kube.errors import ApiError, Forbidden, KubeError, NotServed
from moorage.adapters.kube.intake import UNFINISHED_PODS, KindIntake
from moorage.adapters.kube.listing import Lister
from moorage.adapters.kube.resources import Resource
from moorage.core.events import Event
from moorage.core.gangs import GROUP_KINDS
from moorage.framework.configuration import Configuration
from moorage.framework.workloadkinds import WorkloadKindsArgs
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, Kind, pod_kind
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadkinds import workloads_of
from moorage.wire.workloadrows import PLAIN_OWNERS

_ESSENTIAL = ("Node", "Pod")

Seen = TypeVar("Seen")


class LookError(Exception):
    """The cluster cannot be read; the text is one line."""


class Found(NamedTuple):
    """The objects of a kind."""

    api_version: str
    """That they were listed in; of a kind that there is none of, the best one."""
    raws: list[msgspec.Raw]


class Look:
    """Lists what a server has; `warnings` says what could not be seen."""

    def __init__(self, client: KubeClient, namespace: str = "default") -> None:
        self.client = client
        self.server = client.server
        self.namespace = namespace
        """The namespace of the kubeconfig's context."""
        self.warnings: list[str] = []
        self._lister = Lister(client)

    async def kind(self, kind: Kind) -> Found:
        """All objects of a kind, finished pods excepted, in the best version that the server has."""
        selector = UNFINISHED_PODS if kind.name == "Pod" else ""
        for version, api_version in zip(kind.versions, kind.api_versions, strict=True):
            resource = Resource(kind.group, version, kind.plural, kind.namespaced, kind.name)
            try:
                return Found(api_version, await self._listed(resource, selector))
            except NotServed:
                continue
        if kind.name in _ESSENTIAL:
            raise LookError(f"{self.server}: has no {kind.plural}; is this the address of a Kubernetes API server?")
        return Found(kind.api_versions[0], [])

    async def gang_events(self) -> list[Event]:
        """Pods, and what says which gangs they are in, of one moment."""
        workloads = workloads_of([WorkloadKindsArgs()])
        served = await served_resources(self.client)
        named = [BY_ID[name] for name in (*GROUP_KINDS, *PLAIN_OWNERS)]
        events: list[Event] = []
        for kind in (*named, *workloads.kinds, pod_kind(TemplateTable())):
            if served.find(kind.group, kind.plural, kind.versions) is None:
                continue
            intake = KindIntake(kind, events.append)
            for raw in (await self.kind(kind)).raws:
                value = self.read(kind, raw)
                if value is not None:
                    intake.upserted(value)
        return workloads.chains().filter(events)

    async def resource(self, resource: Resource, selector: str = "") -> list[msgspec.Raw]:
        """All objects of a resource that a selector of fields lets through."""
        try:
            return await self._listed(resource, selector)
        except NotServed:
            return []

    async def _listed(self, resource: Resource, selector: str) -> list[msgspec.Raw]:
        """Raises NotServed where the server has no such kind."""
        try:
            return await self._lister.everything(resource, field_selector=selector)
        except NotServed:
            raise
        except ApiError as error:
            if isinstance(error, Forbidden) and resource.kind not in _ESSENTIAL:
                self.warnings.append(f"{resource.plural} cannot be listed, so they are left out: {error}")
                return []
            # Without an answer the error names the server itself.
            said = f"{self.server}: cannot list {resource.plural}: {error}" if error.status else str(error)
            raise LookError(said) from None

    def read(self, kind: Kind, raw: msgspec.Raw) -> Any:
        """The core value of an object; None, with a warning, if it cannot be read."""
        try:
            return kind.decode(raw)
        except WireError as error:
            self.warnings.append(f"left out, it cannot be read: {error}")
            return None


def look(see: Callable[[Look], Awaitable[Seen]], kubeconfig: str | None, configuration: Configuration) -> Seen:
    """What is seen of the cluster that the kubeconfig or the configuration names; LookError if it cannot be read."""

    async def connected() -> Seen:
        connection = configuration.client_connection
        credentials = load_credentials(kubeconfig, connection.kubeconfig)
        async with KubeClient(credentials, qps=connection.qps, burst=connection.burst) as client:
            return await see(Look(client, credentials.namespace))

    try:
        return asyncio.run(connected())
    except KubeError as error:
        raise LookError(str(error)) from None
