"""All that `moorage simulate` reads, from a live cluster, at one moment; nothing is written to the cluster.

Secrets and ConfigMaps are never read. Prices that a configuration takes from another source are read once and become a
PriceList among the objects, so that a simulation needs nothing else.

`slimmed` removes from an object what placement does not need and outsiders should not see: see `LEFT_OUT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from moorage.adapters.kube.client import KubeClient
from moorage.app.look import Look, look
from moorage.app.prices import price_sources, read_prices
from moorage.core.capacity import Capacity
from moorage.core.events import Event, ObjectSeen
from moorage.core.prices import PRICE_LIST, PriceList, format_price
from moorage.core.values import dataclass
from moorage.framework.configuration import Configuration
from moorage.framework.pricing import CapacityType
from moorage.framework.profiles import Profile
from moorage.wire.kinds import KINDS
from moorage.wire.metadata import LAST_APPLIED
from moorage.wire.nesting import decode_whole
from moorage.wire.prices import PRICES_API
from moorage.wire.workloadkinds import workloads_in

LEFT_OUT = (
    "Secrets, ConfigMaps, finished pods, managedFields, the annotation of kubectl apply, and of containers the values "
    "of env, command, args, lifecycle and probes"
)
"""What a snapshot does not hold, for people."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_UNREAD = ("command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_CAPACITIES = {Capacity.SPOT: CapacityType.SPOT, Capacity.ON_DEMAND: CapacityType.ON_DEMAND}


@dataclass(slots=True)
class Snapshot:
    """A cluster at one moment."""

    server: str
    namespace: str = "default"
    """The namespace of the kubeconfig's context."""
    objects: list[dict[str, Any]] = field(default_factory=list)
    """Whole objects with apiVersion and kind, kind by kind."""
    warnings: list[str] = field(default_factory=list)


def take_snapshot(
    kubeconfig: str | None, configuration: Configuration | None = None, profiles: Sequence[Profile] = ()
) -> Snapshot:
    """Read a cluster; LookError if nodes and pods cannot be listed. Profiles say which prices are needed."""

    async def see(found: Look) -> Snapshot:
        snapshot = await list_objects(found, profiles)
        await _add_prices(profiles, found.client, snapshot)
        return snapshot

    return look(see, kubeconfig, configuration or Configuration())


async def list_objects(found: Look, profiles: Sequence[Profile] = ()) -> Snapshot:
    """All objects that a simulation reads; profiles may know kinds of workloads of their own."""
    snapshot = Snapshot(found.server, found.namespace, warnings=found.warnings)
    for kind in dict.fromkeys((*KINDS, *workloads_in(profiles).kinds)):
        if kind.served:
            api_version, raws = await found.kind(kind)
            head = {"apiVersion": api_version, "kind": kind.name}
            snapshot.objects += [{**head, **decode_whole(raw), **head} for raw in raws]
    return snapshot


# --- prices ---


async def _add_prices(profiles: Sequence[Profile], client: KubeClient, snapshot: Snapshot) -> None:
    """Read every source of prices once. Prices in the configuration itself need not be read."""
    seen: list[Event] = []
    snapshot.warnings += await read_prices(profiles, client, seen.append)
    keys = {source.key for source in price_sources(profiles)}
    events = (event for event in seen if isinstance(event, ObjectSeen) and event.kind == PRICE_LIST)
    lists = {event.key: event.value for event in events if event.key in keys}
    usable = [found for found in lists.values() if isinstance(found, PriceList) and found.rules and not found.stale]
    if len(usable) > 1:
        names = ", ".join(found.name for found in usable[1:])
        snapshot.warnings.append(f"prices are taken from {usable[0].name} only, and not from {names}")
    snapshot.objects += [_price_document(found) for found in usable[:1]]


def _price_document(found: PriceList) -> dict[str, Any]:
    """A PriceList as a document that `moorage.wire.prices` reads."""
    prices: list[dict[str, Any]] = []
    for rule in found.rules:
        price: dict[str, Any] = {"pricePerHour": format_price(rule.micros_per_hour)}
        if rule.labels:
            price["labels"] = dict(rule.labels)
        if rule.capacity in _CAPACITIES:
            price["capacityType"] = _CAPACITIES[rule.capacity].value
        prices.append(price)
    head = {"apiVersion": PRICES_API, "kind": PRICE_LIST, "metadata": {"name": "snapshot"}}
    return {**head, "currency": found.currency, "prices": prices}


# --- what is left out ---


def slimmed(body: dict[str, Any]) -> dict[str, Any]:
    """The object without what `LEFT_OUT` names; it is changed in place."""
    metadatas = [_part(body, "metadata")]
    for template in (_part(body, "spec", "template"), _part(body, "spec", "jobTemplate", "spec", "template")):
        metadatas.append(_part(template, "metadata"))
        _slim_containers(_part(template, "spec"))
    if body.get("kind") == "Pod":
        _slim_containers(_part(body, "spec"))
    for metadata in metadatas:
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(LAST_APPLIED, None)
            if not annotations:
                del metadata["annotations"]
    return body


def _slim_containers(spec: dict[str, Any]) -> None:
    for container in _containers(spec):
        for name in _UNREAD:
            container.pop(name, None)
        for variable in container.get("env") or ():
            if isinstance(variable, dict):
                variable.pop("value", None)


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in _CONTAINERS:
        for container in spec.get(group) or ():
            if isinstance(container, dict):
                yield container


def _part(body: dict[str, Any], *path: str) -> dict[str, Any]:
    """The mapping at a path; an empty, unconnected one if there is none."""
    for step in path:
        found = body.get(step)
        body = found if isinstance(found, dict) else {}
    return body
