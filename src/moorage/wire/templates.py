"""Pods that are alike share one `PodTemplate`.

`TemplateTable` remembers, by the bytes of a pod's parts, what was made of them. A pod that looks like one seen before
costs one dictionary lookup; a new one is parsed part by part, and if its template equals a known one, written
differently, the known one is used. A template is remembered for as long as it is referenced, and the latest ones a
while longer; to forget one costs a repeated parse and nothing else, since templates compare by value.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain
from typing import TypeAlias
from weakref import ref

from moorage.core.limits import CONTAINERS, REMEMBERED_POD_BYTES, REMEMBERED_PODS, TEMPLATE_BYTES, Cutter, Excess
from moorage.core.pods import PodTemplate, PodVolume
from moorage.core.requests import effective_requests
from moorage.core.resources import Requests
from moorage.wire.podspec import PodStatusWire, PodWire
from moorage.wire.podtemplate import ParsedPod, parse_pod, with_status
from moorage.wire.volumes import parse_volumes

StatusKey: TypeAlias = tuple[bytes, tuple[str, ...], bool]
PodKey: TypeAlias = tuple[
    bytes, tuple[str | int | None, ...], tuple[PodVolume, ...], tuple[str, ...], tuple[Excess, ...]
]

_NO_STATUS = PodStatusWire()
_BETWEEN = b"\0"
"""Separates joined parts; JSON text cannot contain it."""
_PART_BYTES = 64
"""What a name in a key takes, about."""
_MOST_RESIZES = 64
"""Distinct resize states remembered per template; more come only from endless resizing."""


class PodEntry:
    """What was made of the parts of a pod; for as long as the template lives."""

    __slots__ = ("_by_status", "_resources", "devices", "template")

    def __init__(self, template: ref[PodTemplate], parsed: ParsedPod) -> None:
        self.template = template
        self.devices = parsed.devices
        """The shared devices of pods with these parts, which are no part of the template."""
        self._resources = parsed.resources
        self._by_status: dict[StatusKey, Requests] = {}

    def requests(self, template: PodTemplate, status: PodStatusWire, *, resize_infeasible: bool) -> Requests:
        """What a bound pod in this state takes from its node; the template's very object where nothing differs."""
        key = _status_key(status, resize_infeasible)
        found = self._by_status.get(key)
        if found is None:
            informed = with_status(self._resources, status, resize_infeasible=resize_infeasible)
            found = effective_requests(informed)
            if found == template.requests:
                found = template.requests
            if len(self._by_status) >= _MOST_RESIZES:
                self._by_status.clear()
            if len(key[0]) <= TEMPLATE_BYTES:
                self._by_status[key] = found
        return found


class TemplateTable:
    """Interns templates. Owned by the decoder of pods; not to be shared between threads that decode.

    `limit` and `most_bytes` bound how many templates are remembered although no pod has them.
    """

    __slots__ = ("_entries", "_latest", "_latest_bytes", "_limit", "_most_bytes", "_templates")

    def __init__(self, limit: int = REMEMBERED_PODS, most_bytes: int = REMEMBERED_POD_BYTES) -> None:
        self._limit, self._most_bytes = limit, most_bytes
        self._entries: dict[PodKey, PodEntry] = {}
        self._templates: dict[ref[PodTemplate], ref[PodTemplate]] = {}
        """Found by the value of what they refer to."""
        self._latest: deque[PodTemplate] = deque()
        self._latest_bytes = 0

    def __len__(self) -> int:
        """The number of templates that are remembered."""
        return len(self._templates)

    def entry(self, wire: PodWire) -> tuple[PodTemplate, PodEntry]:
        """What the parts of this pod mean; raises `FieldError` where they cannot be understood."""
        volumes: tuple[PodVolume, ...] = ()
        images: tuple[str, ...] = ()
        cutter = Cutter()
        if wire.spec.volumes:
            volumes, images = parse_volumes(wire.metadata.name, wire.spec.volumes, cutter)
        _cut_containers(wire, cutter)
        key = _pod_key(wire, volumes, images, tuple(cutter.excess))
        found = self._entries.get(key)
        template = None if found is None else found.template()
        if found is not None and template is not None:
            return template, found
        parsed = parse_pod(wire, volumes, images, cutter)
        if _size_of(key) > TEMPLATE_BYTES:
            return parsed.template, PodEntry(ref(parsed.template), parsed)
        template = self._interned(parsed.template)
        found = self._entries[key] = PodEntry(ref(template, partial(_discard, self._entries, key)), parsed)
        return template, found

    def _interned(self, template: PodTemplate) -> PodTemplate:
        """The one template of this value."""
        known = self._templates.get(ref(template))
        alive = None if known is None else known()
        if alive is not None:
            return alive
        told = ref(template, self._templates.pop)
        self._templates[told] = told
        self._latest.append(template)
        self._latest_bytes += template.size
        while len(self._latest) > self._limit or self._latest_bytes > self._most_bytes:
            self._latest_bytes -= self._latest.popleft().size
        return template


def _discard(entries: dict[PodKey, PodEntry], key: PodKey, gone: ref[PodTemplate]) -> None:
    """A template is gone, and with it what was made of pods that look so, unless one has come since."""
    found = entries.get(key)
    if found is not None and found.template is gone:
        del entries[key]


def _cut_containers(wire: PodWire, cutter: Cutter) -> None:
    """Containers and their statuses beyond the limit are dropped from the frame before they are used."""
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


def _size_of(key: PodKey) -> int:
    """What a key takes, in bytes, about."""
    joined, named, volumes, _, _ = key
    return len(joined) + _PART_BYTES * (len(named) + len(volumes))


def _pod_key(
    wire: PodWire, volumes: tuple[PodVolume, ...], images: tuple[str, ...], excess: tuple[Excess, ...]
) -> PodKey:
    """The parts that decide the template, as they came. Raw parts are joined: one hash is cheaper than many."""
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
    return _BETWEEN.join(raw), tuple(named), volumes, images, excess


def _status_key(status: PodStatusWire, resize_infeasible: bool) -> StatusKey:
    """The parts that decide the requests of a bound pod besides its template, as they came."""
    raw = [status.resources, status.allocated_resources]
    names: list[str] = []
    for container in chain(status.init_container_statuses or (), status.container_statuses or ()):
        raw += (container.allocated_resources, container.resources)
        names.append(container.name)
    return _BETWEEN.join(raw), tuple(names), resize_infeasible
