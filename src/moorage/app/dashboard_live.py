"""The dashboard on a live cluster: watches of its own for what is shown, and the user's rights for what is written.

In addition to what the profiles read, it follows Moorage's leases and the events by which schedulers and the keeper
report evictions. Users that may not read those see a shorter timeline and lose nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from moorage.adapters.dashboard.backend import Refused, StrategyChange
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from moorage.adapters.kube.intake import resource_of
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import LEASES, Resource
from moorage.adapters.kube.watchstream import ObjectMeta, decode_page
from moorage.app.devices import DEVICE_OBJECTS
from moorage.app.sources import watched_kinds
from moorage.core.events import TrialRecalled
from moorage.core.gangs import GROUP_KINDS
from moorage.core.strategies import STRATEGY_KINDS
from moorage.core.times import time_s
from moorage.core.topology import LEVEL_KINDS
from moorage.engine.keeping.notes import KeeperReason
from moorage.framework.configuration import Configuration
from moorage.framework.keeping import keeper_configuration
from moorage.framework.profiles import Profile
from moorage.views.previews import rules_of
from moorage.views.words import POD, Happening, HappeningKind
from moorage.wire.eventviews import CoreEventView, decode_core_event
from moorage.wire.kinds import BY_ID, Kind
from moorage.wire.leases import LeaseSpecWire, LeaseWire, decode_lease
from moorage.wire.nesting import decode_whole
from moorage.wire.trialrecords import TRIAL_ANNOTATION, trial_record

_READ = (*sorted(STRATEGY_KINDS), "PodDisruptionBudget", *GROUP_KINDS, *sorted(LEVEL_KINDS), *DEVICE_OBJECTS)
"""What the pages read in addition to the profiles."""
_CORE_EVENTS = Resource("", "v1", "events", kind="Event")
_REASONS = {
    "Preempted": HappeningKind.ANNOUNCED,
    "TaintManagerEviction": HappeningKind.ANNOUNCED,
    **dict.fromkeys(map(str, KeeperReason), HappeningKind.KEPT),
}
"""Reasons of events that become lines of the timeline; what pods and nodes show themselves is not among them."""
_EVICTING = frozenset(
    {
        "TaintManagerEviction",
        KeeperReason.SPOT_FALLBACK,
        KeeperReason.SPOT_RETURN,
        KeeperReason.ON_DEMAND_RETURN,
        KeeperReason.PLACEMENT_REPAIR,
        KeeperReason.REPACK,
    }
)
"""Reasons of evictions that their pods do not show; pods that were preempted show it."""
_SPARED = "Cancelling"
"""How the message begins when a pod is not evicted after all."""
_RAW_S = 5.0

Put = Callable[[Happening | TrialRecalled], None]


def shown_kinds(profiles: Sequence[Profile]) -> list[Kind]:
    """The kinds to follow: what the profiles read and what the pages show."""
    return watched_kinds(profiles, _READ)


class _Occurrences:
    """Turns events of one reason into lines of the timeline, with their own times."""

    def __init__(self, put: Put, now_s: Callable[[], float]) -> None:
        self._put = put
        self._now_s = now_s

    def replaced(self, objects: list[CoreEventView]) -> None:
        for each in sorted(objects, key=attrgetter("time_text")):
            self._tell(each)

    def upserted(self, obj: CoreEventView) -> None:
        self._tell(obj)

    def deleted(self, meta: ObjectMeta) -> None:
        """Events expire; what happened stays true."""

    def _tell(self, event: CoreEventView) -> None:
        about = event.involved_object
        told_s = time_s(event.time_text)
        at_s = self._now_s() if told_s is None else told_s
        what = _REASONS.get(event.reason, HappeningKind.ANNOUNCED)
        facts = {
            "message": event.message,
            "evicts": event.reason in _EVICTING and not event.message.startswith(_SPARED),
        }
        self._put(Happening(at_s, what, POD, f"{about.namespace}/{about.name}", facts))


class _Holders:
    """A lease with another holder is a change of the leader; the scheduler's also has the record of a trial."""

    def __init__(self, put: Put, now_s: Callable[[], float]) -> None:
        self._put = put
        self._now_s = now_s
        self._known: dict[str, str] = {}
        self._trials: dict[str, str | None] = {}
        """What leases say of a trial; only the scheduler's does."""

    def replaced(self, objects: list[LeaseWire]) -> None:
        for each in objects:
            self.upserted(each)

    def upserted(self, obj: LeaseWire) -> None:
        name = f"{obj.metadata.namespace}/{obj.metadata.name}"
        text = (obj.metadata.annotations or {}).get(TRIAL_ANNOTATION)
        if text != self._trials.get(name):
            self._trials[name] = text
            self._put(TrialRecalled(None if text is None else trial_record(text)))
        holder = (obj.spec or LeaseSpecWire()).holder_identity or ""
        if self._known.get(name) != holder:
            self._known[name] = holder
            self._put(Happening(self._now_s(), HappeningKind.LEASE, "Lease", name, {"holder": holder}))

    def deleted(self, meta: ObjectMeta) -> None:
        self._known.pop(meta.key, None)


def followers(client: KubeClient, configuration: Configuration, put: Put, now_s: Callable[[], float]) -> list[Any]:
    """Reflectors for what only the timeline shows."""
    jitter = random.Random().random
    found: list[Any] = [
        Reflector(
            client,
            _CORE_EVENTS,
            _Occurrences(put, now_s),
            parse=decode_core_event,
            jitter=jitter,
            field_selector=f"reason={reason}",
        )
        for reason in _REASONS
    ]
    keeper = keeper_configuration(configuration).leader_election
    elections = [configuration.leader_election, *([] if keeper is None else [keeper])]
    found += [
        Reflector(
            client,
            LEASES,
            _Holders(put, now_s),
            parse=decode_lease,
            jitter=jitter,
            namespace=election.resource_namespace,
            field_selector=f"metadata.name={election.resource_name}",
        )
        for election in elections
    ]
    return found


def writer(client: KubeClient) -> Callable[[StrategyChange], Awaitable[None]]:
    """Writes strategies with the rights of the client."""

    async def apply(change: StrategyChange) -> None:
        kind = BY_ID.get(change.kind)
        if kind is None or change.kind not in STRATEGY_KINDS:
            raise Refused(f"{change.kind} has no strategy")
        body: dict[str, Any] = {"metadata": {"annotations": {change.key: change.text}}}
        if not change.key:
            body = {"spec": {"rules": rules_of(change.text)}}
        try:
            await client.patch(resource_of(kind), change.name, body, change.namespace)
        except (Forbidden, NotFound, Conflict, ApiError) as error:
            raise Refused(f"the API server refused it: {error}") from None

    return apply


def reader(client: KubeClient) -> Callable[[str, str, str], Mapping[str, Any] | None]:
    """Reads whole objects for the thread of the world, which waits for them."""
    loop = asyncio.get_running_loop()

    async def read(kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        # A list of one: users that may watch may list, and need no other permission.
        query = {"fieldSelector": f"metadata.name={name}"}
        try:
            resource = client.in_use(resource_of(kind))
            page = decode_page(await client.list(resource, namespace or None, query=query))
        except KubeError:
            return None
        if not page.items:
            return None
        return {"apiVersion": resource.api_version, "kind": kind.name, **decode_whole(page.items[0])}

    def raw(name_of_kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        kind = BY_ID.get(name_of_kind)
        if kind is None:
            return None
        waiting = asyncio.run_coroutine_threadsafe(read(kind, namespace, name), loop)
        try:
            return waiting.result(_RAW_S)
        except TimeoutError:
            waiting.cancel()
            return None

    return raw
