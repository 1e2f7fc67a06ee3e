"""A process's own picture of the cluster: one reflector per kind, whose events go to whoever keeps the picture."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import ServedResources
from moorage.adapters.kube.intake import UNFINISHED_PODS, KindIntake, resource_of
from moorage.adapters.kube.reflector import Phase, Reflector, ReflectorState
from moorage.core.events import Event
from moorage.wire.kinds import Kind

_ESSENTIAL = ("Pod", "Node")
_FOLLOWED = frozenset({Phase.SYNCED, Phase.RETRYING})

log = structlog.get_logger()


Missing = tuple[Kind, ReflectorState, bool]
"""A kind that could not be listed, why, and whether the server has it at all."""


def tell_missing(missing: Iterable[Missing]) -> None:
    """One line for all kinds that we may not read; what the server does not have, the reflectors have told of."""
    withheld = [(kind, state) for kind, state, served in missing if served and state.phase is Phase.FORBIDDEN]
    if withheld:
        kinds, (_, first) = [kind.id for kind, _ in withheld], withheld[0]
        log.warning("kinds are left out until we may list and watch them", kinds=kinds, why=first.error)


class CacheError(Exception):
    """Something without which there is no picture cannot be listed; the text is one line."""


class Caches:
    """Follows kinds of objects; `put` gets every event, in the event loop."""

    def __init__(self, client: KubeClient, kinds: Iterable[Kind], put: Callable[[Event], None]) -> None:
        self._client = client
        self._kinds = list(kinds)
        self._reflectors = [_reflector(client, kind, put) for kind in self._kinds]

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to follow; the tasks never end by themselves."""
        return [asyncio.create_task(reflector.run()) for reflector in self._reflectors]

    async def settle(self, served: ServedResources) -> None:
        """Wait for the first list of every kind; what is not served or not allowed must not be essential."""
        missing: list[Missing] = []
        for kind, reflector in zip(self._kinds, self._reflectors, strict=True):
            state = await reflector.settled()
            if state.phase is Phase.SYNCED:
                continue
            if kind.name in _ESSENTIAL:
                raise CacheError(f"{self._client.server}: cannot list {kind.plural}: {state.error or state.phase}")
            missing.append((kind, state, served.serves(reflector.resource)))
        tell_missing(missing)

    def skipped(self) -> Iterable[tuple[str, int]]:
        """Every kind, and how often an object of it could not be read."""
        return ((each.left_out.kind, each.left_out.count) for each in self._reflectors)

    def unlisted(self) -> str:
        """What `settle` still waits for, in words; empty if nothing."""
        waiting = [one for one in self._reflectors if one.state.phase in (Phase.STARTING, Phase.RETRYING)]
        return ", ".join(f"{one.resource.plural} ({one.state.error or one.state.phase})" for one in waiting)

    async def refresh(self) -> None:
        """Read everything from the server anew, and wait until that is done."""
        followed = [reflector for reflector in self._reflectors if reflector.state.phase in _FOLLOWED]
        for reflector in followed:
            reflector.refresh()
        for reflector in followed:
            await reflector.settled()


def _reflector(client: KubeClient, kind: Kind, put: Callable[[Event], None]) -> Reflector[object]:
    intake = KindIntake(kind, put)
    return Reflector(
        client,
        resource_of(kind),
        intake,
        parse=intake.parse,
        remains=intake.remains,
        jitter=random.Random().random,
        field_selector=UNFINISHED_PODS if kind.name == "Pod" else "",
        tells_refusal=False,
    )
