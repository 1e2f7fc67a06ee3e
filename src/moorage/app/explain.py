"""`moorage explain` on a live cluster: lists what the profiles read, judges one pod, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.errors import ApiError, Forbidden, KubeError, NotServed
from moorage.adapters.kube.intake import UNFINISHED_PODS, KindIntake, resource_of
from moorage.adapters.kube.listing import Lister
from moorage.app.prices import read_prices
from moorage.app.sources import watched_kinds
from moorage.core.events import Event, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import EngineSettings
from moorage.engine.opinion import Opinion, form_opinion
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.wire.errors import WireError
from moorage.wire.kinds import Kind
from moorage.wire.nesting import decode_whole
from moorage.wire.rewriting import Rewriter

_ESSENTIAL = ("Node", "Pod")


class ExplainError(Exception):
    """The cluster cannot be read; the text is one line."""


@dataclass(slots=True)
class ClusterPicture:
    """A cluster at one moment, as events for an engine."""

    server: str
    namespace: str
    """The namespace of the kubeconfig's context."""
    events: list[Event] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    bodies: dict[tuple[str, str, str], tuple[Kind, msgspec.Raw]] = field(default_factory=dict)
    """(kind, namespace, name) -> the object as the server returned it."""

    def raw(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """An object whole, as plain values; None if there is none."""
        found = self.bodies.get((kind, namespace, name))
        if found is None:
            return None
        body: dict[str, Any] = decode_whole(found[1])
        return {"apiVersion": found[0].api_versions[0], "kind": kind, **body}

    @property
    def pods(self) -> list[Pod]:
        """All pods that have not finished."""
        return [event.pod for event in self.events if isinstance(event, PodSeen)]


@dataclass(frozen=True, slots=True)
class Judge:
    """The profiles and settings to judge with."""

    configuration: Configuration
    profiles: Sequence[Profile]
    answers_to_all: bool = False

    def opinion(self, picture: ClusterPicture, pod: Pod, now_s: float | None = None) -> Opinion:
        """What these profiles say about one of the pods."""
        world = [event for event in picture.events if not (isinstance(event, PodSeen) and event.pod is pod)]
        now_s = clock.now_s() if now_s is None else now_s
        return form_opinion(
            self.profiles,
            EngineSettings(),
            world,
            pod,
            now_s,
            answers_to_all=self.answers_to_all,
            rewriter=Rewriter(picture.raw),
        )


def take_picture(judge: Judge, kubeconfig: str | None) -> ClusterPicture:
    """List all that the profiles read; ExplainError if nodes and pods cannot be listed."""
    try:
        return asyncio.run(_listed(judge, kubeconfig))
    except KubeError as error:
        raise ExplainError(str(error)) from None


async def _listed(judge: Judge, kubeconfig: str | None) -> ClusterPicture:
    connection = judge.configuration.client_connection
    credentials = load_credentials(kubeconfig, connection.kubeconfig)
    async with KubeClient(credentials, qps=connection.qps, burst=connection.burst) as client:
        picture = ClusterPicture(client.server, credentials.namespace)
        lister = Lister(client)
        for kind in watched_kinds(judge.profiles):
            await _list_kind(lister, kind, picture)
        picture.warnings += await read_prices(judge.profiles, client, picture.events.append)
    return picture


async def _list_kind(lister: Lister, kind: Kind, picture: ClusterPicture) -> None:
    """A kind that the server does not have is empty; so is one that we may not list, with a warning."""
    selector = UNFINISHED_PODS if kind.name == "Pod" else ""
    try:
        found = await lister.everything(resource_of(kind), field_selector=selector)
    except (Forbidden, NotServed) as error:
        if kind.name in _ESSENTIAL:
            raise ExplainError(f"{picture.server}: cannot list {kind.plural}: {error}") from None
        if isinstance(error, Forbidden):
            picture.warnings.append(f"{kind.plural} cannot be listed, so rules that read them see none: {error}")
        return
    except ApiError as error:
        # Without an answer the error names the server itself.
        said = f"{picture.server}: cannot list {kind.plural}: {error}" if error.status else str(error)
        raise ExplainError(said) from None
    intake = KindIntake(kind, picture.events.append)
    for raw in found:
        try:
            value = intake.parse(raw)
            intake.upserted(value)
            picture.bodies[kind.name, getattr(value, "namespace", ""), value.name] = (kind, raw)
        except WireError as error:
            picture.warnings.append(f"left out, it cannot be read: {error}")
