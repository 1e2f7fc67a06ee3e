"""Pods that are alike share one `PodTemplate`.

`TemplateTable` remembers, by the bytes of a pod's parts, what was made of them. A pod that looks like one seen before
costs one dictionary lookup; a new one is parsed part by part, and if its template equals a known one, written
differently, the known one is used. The table is bounded: entries not used for a long time are forgotten, which costs a
repeated parse and nothing else, since templates compare by value.
"""

from __future__ import annotations

from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from moorage.core.limits import CONTAINERS, REMEMBERED_POD_BYTES, REMEMBERED_PODS, TEMPLATE_BYTES, Cutter
from moorage.core.pods import PodTemplate, PodVolume
from moorage.core.requests import effective_requests
from moorage.core.resources import Requests
from moorage.wire.podspec import PodStatusWire, PodWire
from moorage.wire.podtemplate import ParsedPod, parse_pod, with_status
from moorage.wire.volumes import parse_volumes

K = TypeVar("K")
V = TypeVar("V")
Key: TypeAlias = tuple[object, ...]

_NO_STATUS = PodStatusWire()
_BETWEEN = b"\0"
"""Separates joined parts; JSON text cannot contain it."""
_PART_BYTES = 64
"""What a name in a key takes, about."""
_MOST_RESIZES = 64
"""Distinct resize states remembered per template; more come only from endless resizing."""


class _Recent(Generic[K, V]):
    """A mapping of bounded size: forgets what has not been asked for during the last `limit` insertions, or during the
    last insertions that weigh `most_bytes` together.
    """

    __slots__ = ("_left_bytes", "_limit", "_most_bytes", "_old", "_young")

    def __init__(self, limit: int, most_bytes: int) -> None:
        self._limit = limit
        self._most_bytes = self._left_bytes = most_bytes
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        if len(self._young) >= self._limit or size > self._left_bytes:
            self._old, self._young = self._young, {}
            self._left_bytes = self._most_bytes
        self._left_bytes -= size
        self._young[key] = value, size


class PodEntry:
    """What was made of the parts of a pod."""

    __slots__ = ("_by_status", "_parsed", "template")

    def __init__(self, parsed: ParsedPod, template: PodTemplate) -> None:
        self.template = template
        self._parsed = parsed
        self._by_status: dict[Key, Requests] = {}

    def requests(self, status: PodStatusWire, *, resize_infeasible: bool) -> Requests:
        """What a bound pod in this state takes from its node; the template's very object where nothing differs."""
        key = _status_key(status, resize_infeasible)
        found = self._by_status.get(key)
        if found is None:
            informed = with_status(self._parsed.resources, status, resize_infeasible=resize_infeasible)
            found = effective_requests(informed)
            if found == self.template.requests:
                found = self.template.requests
            if len(self._by_status) >= _MOST_RESIZES:
                self._by_status.clear()
            if len(key[0]) <= TEMPLATE_BYTES:
                self._by_status[key] = found
        return found


class TemplateTable:
    """Interns templates. Owned by whoever decodes pods; not to be shared between threads."""

    __slots__ = ("_entries", "_templates")

    def __init__(self, limit: int = REMEMBERED_PODS, most_bytes: int = REMEMBERED_POD_BYTES) -> None:
        self._entries: _Recent[Key, PodEntry] = _Recent(limit, most_bytes)
        self._templates: _Recent[PodTemplate, PodTemplate] = _Recent(limit, most_bytes)

    def __len__(self) -> int:
        """The number of templates that are remembered."""
        return len(self._templates)

    def intern(self, template: PodTemplate) -> PodTemplate:
        """The one template of this value."""
        known = self._templates.get(template)
        if known is None:
            self._templates.put(template, template, template.size)
            return template
        return known

    def entry(self, wire: PodWire) -> PodEntry:
        """What the parts of this pod mean; raises `FieldError` where they cannot be understood."""
        volumes: tuple[PodVolume, ...] = ()
        images: tuple[str, ...] = ()
        cutter = Cutter()
        if wire.spec.volumes:
            volumes, images = parse_volumes(wire.metadata.name, wire.spec.volumes, cutter)
        _cut_containers(wire, cutter)
        key, size = _pod_key(wire, volumes, images)
        if cutter.excess:
            key = (*key, *cutter.excess)
        entry = self._entries.get(key) if size <= TEMPLATE_BYTES else None
        if entry is None:
            parsed = parse_pod(wire, volumes, images, cutter)
            if size > TEMPLATE_BYTES:
                return PodEntry(parsed, parsed.template)
            entry = PodEntry(parsed, self.intern(parsed.template))
            self._entries.put(key, entry, size + parsed.template.size)
        return entry


def _cut_containers(wire: PodWire, cutter: Cutter) -> None:
    """Containers, and what is said about them, beyond the limit are dropped from the frame before anybody looks."""
    spec, status = wire.spec, wire.status
    if spec.containers is not None and len(spec.containers) > CONTAINERS:
        spec.containers = list(cutter.cut(spec.containers, CONTAINERS, "spec.containers"))
    if spec.init_containers is not None and len(spec.init_containers) > CONTAINERS:
        spec.init_containers = list(cutter.cut(spec.init_containers, CONTAINERS, "spec.initContainers"))
    if status is not None:
        told, path = status.container_statuses, "status.containerStatuses"
        if told is not None and len(told) > CONTAINERS:
            status.container_statuses = list(cutter.cut(told, CONTAINERS, path))
        told, path = status.init_container_statuses, "status.initContainerStatuses"
        if told is not None and len(told) > CONTAINERS:
            status.init_container_statuses = list(cutter.cut(told, CONTAINERS, path))


def _pod_key(wire: PodWire, volumes: tuple[PodVolume, ...], images: tuple[str, ...]) -> tuple[Key, int]:
    """The parts that decide the template, as they came, and their size in bytes, about.

    Raw parts are joined: one hash is cheaper than many.
    """
    metadata, spec, status = wire.metadata, wire.spec, wire.status or _NO_STATUS
    raw = [
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.topology_spread_constraints,
        spec.tolerations,
        spec.resource_claims,
        spec.scheduling_group,
        status.resource_claim_statuses,
    ]
    named: list[str | int | None] = [metadata.namespace, spec.scheduler_name, spec.priority, spec.preemption_policy]
    named += (spec.host_network, spec.host_users, len(spec.init_containers or ()))
    for container in chain(spec.init_containers or (), spec.containers or ()):
        raw += (container.resources, container.ports, container.restart_policy_rules)
        named += (container.name, container.image, container.restart_policy)
    joined = _BETWEEN.join(raw)
    return (joined, tuple(named), volumes, images), len(joined) + _PART_BYTES * (len(named) + len(volumes))


def _status_key(status: PodStatusWire, resize_infeasible: bool) -> tuple[bytes, tuple[str, ...], bool]:
    """The parts that decide the requests of a bound pod besides its template, as they came."""
    raw = [status.resources, status.allocated_resources]
    names: list[str] = []
    for container in chain(status.init_container_statuses or (), status.container_statuses or ()):
        raw += (container.allocated_resources, container.resources)
        names.append(container.name)
    return _BETWEEN.join(raw), tuple(names), resize_infeasible
