"""Queues of Moorage, KAI and Volcano: JSON becomes the same value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from moorage.core.durations import parse_duration
from moorage.core.fairshare import UNLIMITED
from moorage.core.frozen import FrozenDict
from moorage.core.limits import RESOURCE_NAMES
from moorage.core.quantity import THOUSANDTHS, fine_amount
from moorage.core.queues import DEFAULT_PRIORITY, WEIGHT_UNIT, Queue, ResourceShare, bound_text
from moorage.core.resources import CPU, MEMORY
from moorage.core.selectors import EVERYTHING
from moorage.wire.amounts import parse_amounts
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire, epoch_s
from moorage.wire.quantities import QuantityWire
from moorage.wire.selectors import LabelSelectorWire, label_selector
from moorage.wire.whole import whole

_NO_END = ("-1", -1)
_MOST_WEIGHT = 1_000_000
WeightWire: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_MOST_WEIGHT)]
KAI_RESOURCES = {"cpu": (CPU, 1), "memory": (MEMORY, 1_000_000), "gpu": ("nvidia.com/gpu", THOUSANDTHS)}
"""KAI's names of resources -> ours, and how many of ours one of theirs is: millicores, megabytes, devices."""
_VOLCANO_ROOT = "root"


class ResourceShareWire(msgspec.Struct, gc=False):
    """An entry of spec.resources."""

    quota: QuantityWire = None
    weight: WeightWire | None = None
    limit: QuantityWire = None


class QueueSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a Queue of Moorage."""

    parent: str | None = None
    priority: Int32Wire | None = None
    resources: dict[str, ResourceShareWire] | None = None
    namespaces: LabelSelectorWire | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class QueueWire(msgspec.Struct, gc=False):
    """A Queue of Moorage."""

    metadata: MetadataWire
    spec: QueueSpecWire | None = None


class KaiShareWire(msgspec.Struct, gc=False, rename="camel"):
    """An entry of spec.resources of KAI's Queue."""

    quota: float | None = None
    over_quota_weight: WeightWire | None = None
    limit: float | None = None


class KaiQueueSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of KAI's Queue."""

    parent_queue: str | None = None
    priority: Int32Wire | None = None
    resources: dict[str, KaiShareWire | None] | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class KaiQueueWire(msgspec.Struct, gc=False):
    """A Queue of scheduling.run.ai."""

    metadata: MetadataWire
    spec: KaiQueueSpecWire | None = None


class GuaranteeWire(msgspec.Struct, gc=False):
    """spec.guarantee of Volcano's Queue."""

    resource: dict[str, QuantityWire] | None = None


class VolcanoQueueSpecWire(msgspec.Struct, gc=False):
    """The spec of Volcano's Queue."""

    parent: str | None = None
    priority: Int32Wire | None = None
    weight: WeightWire | None = None
    capability: dict[str, QuantityWire] | None = None
    deserved: dict[str, QuantityWire] | None = None
    guarantee: GuaranteeWire | None = None


class VolcanoQueueWire(msgspec.Struct, gc=False):
    """A Queue of scheduling.volcano.sh."""

    metadata: MetadataWire
    spec: VolcanoQueueSpecWire | None = None


def queue(wire: QueueWire) -> Queue:
    """The core value of a Queue."""
    spec = wire.spec or QueueSpecWire()
    named = whole(spec.resources, RESOURCE_NAMES, "spec.resources") or {}
    return _queue(
        wire.metadata,
        {name: _share(name, share) for name, share in named.items()},
        parent=spec.parent or "",
        priority=spec.priority,
        namespaces=EVERYTHING if spec.namespaces is None else label_selector(spec.namespaces, "spec.namespaces"),
        preempt_min_runtime_s=_duration(spec.preempt_min_runtime, "spec.preemptMinRuntime"),
        reclaim_min_runtime_s=_duration(spec.reclaim_min_runtime, "spec.reclaimMinRuntime"),
    )


def kai_queue(wire: KaiQueueWire) -> Queue:
    """The core value of a Queue of KAI, whose resources are cpu, memory and gpu; -1 is unlimited."""
    spec = wire.spec or KaiQueueSpecWire()
    shares = {}
    for name, share in (whole(spec.resources, RESOURCE_NAMES, "spec.resources") or {}).items():
        if name in KAI_RESOURCES and share is not None:
            ours, unit = KAI_RESOURCES[name]
            limit = UNLIMITED if share.limit is None else _kai_amount(share.limit, unit)
            shares[ours] = ResourceShare(_kai_amount(share.quota or 0, unit), _weight(share.over_quota_weight), limit)
    return _queue(
        wire.metadata,
        shares,
        parent=spec.parent_queue or "",
        priority=spec.priority,
        preempt_min_runtime_s=_duration(spec.preempt_min_runtime, "spec.preemptMinRuntime"),
        reclaim_min_runtime_s=_duration(spec.reclaim_min_runtime, "spec.reclaimMinRuntime"),
    )


def volcano_queue(wire: VolcanoQueueWire) -> Queue:
    """The core value of a Queue of Volcano: `deserved`, else `guarantee`, is the quota, `capability` the limit.

    One that names no resource shares cpu and memory by weight, as with Volcano's plugin `proportion`.
    """
    spec = wire.spec or VolcanoQueueSpecWire()
    limits = _amounts(spec.capability, "spec.capability")
    guarantee = spec.guarantee or GuaranteeWire()
    quotas = _amounts(guarantee.resource, "spec.guarantee.resource")
    quotas |= _amounts(spec.deserved, "spec.deserved")
    weight = _weight(spec.weight)
    names = [*(limits | quotas or (CPU, MEMORY))]
    shares = {name: ResourceShare(quotas.get(name, 0), weight, limits.get(name, UNLIMITED)) for name in names}
    parent = "" if spec.parent == _VOLCANO_ROOT else spec.parent or ""
    return _queue(wire.metadata, shares, parent=parent, priority=spec.priority)


def queue_spec(value: Queue) -> dict[str, Any]:
    """The spec of a Queue of Moorage that says the same as a queue of KAI or Volcano, which name no namespaces."""
    spec: dict[str, Any] = {"parent": value.parent} if value.parent else {}
    spec["priority"] = value.priority
    spec["resources"] = {
        name: {
            "quota": bound_text(name, share.quota),
            "weight": share.weight / WEIGHT_UNIT,
            "limit": bound_text(name, share.limit),
        }
        for name, share in value.resources.items()
    }
    for field, seconds in (
        ("preemptMinRuntime", value.preempt_min_runtime_s),
        ("reclaimMinRuntime", value.reclaim_min_runtime_s),
    ):
        if seconds is not None:
            spec[field] = f"{seconds:g}s"
    return spec


def _queue(
    metadata: MetadataWire, shares: Mapping[str, ResourceShare], *, priority: int | None, **fields: Any
) -> Queue:
    return Queue(
        name=metadata.name,
        uid=metadata.uid or "",
        priority=DEFAULT_PRIORITY if priority is None else priority,
        resources=FrozenDict(shares),
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
        generation=metadata.generation or 0,
        **fields,
    )


def _amounts(quantities: Mapping[str, QuantityWire] | None, path: str) -> dict[str, int]:
    return parse_amounts(whole(quantities, RESOURCE_NAMES, path), path, fine_amount)


def _weight(value: float | None) -> int:
    """In thousandths; a weight above 0 stays above 0."""
    return WEIGHT_UNIT if value is None else max(round(value * WEIGHT_UNIT), int(value > 0))


def _share(name: str, wire: ResourceShareWire) -> ResourceShare:
    path = f"spec.resources.{name}"
    quota = UNLIMITED if wire.quota in _NO_END else _amount(name, wire.quota, f"{path}.quota")
    limit = UNLIMITED if wire.limit in (*_NO_END, None) else _amount(name, wire.limit, f"{path}.limit")
    return ResourceShare(quota, _weight(wire.weight), limit)


def _amount(name: str, value: QuantityWire, path: str) -> int:
    try:
        return parse_amounts({name: value}, "", fine_amount)[name]
    except FieldError as error:
        raise FieldError(path, value, error.problem, error.remedy) from None


def _kai_amount(value: float, unit: int) -> int:
    amount = value * unit
    return math.floor(amount) if 0 <= amount < UNLIMITED else UNLIMITED


def _duration(text: str | None, path: str) -> float | None:
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        problem, _, remedy = str(error).partition("; ")
        raise FieldError(path, text, f"is {problem}", remedy) from None
    if seconds < 0:
        raise FieldError(path, text, "is negative", "write 0s or more")
    return seconds
