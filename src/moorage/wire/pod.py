"""Pods: Kubernetes JSON becomes `moorage.core.pods.Pod`.

`decode_pod` is on the path of every watch event; with a warm `TemplateTable` its cost is the scan of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.core.pods import PENDING, PREEMPTION, Condition, Pod
from moorage.core.times import deadline_s, time_s
from moorage.wire.assignments import ASSIGNED, assignment
from moorage.wire.errors import MISSING, REFUSALS, FieldError, builtin_json, explain
from moorage.wire.gangrecords import GANG_RECORD, gang_record
from moorage.wire.podspec import ConditionWire, PodStatusWire, PodWire
from moorage.wire.templates import TemplateTable

KIND = "Pod"

_DECODER = msgspec.json.Decoder(PodWire)
_NO_STATUS = PodStatusWire()
_SCHEDULED = Condition("PodScheduled", "True")


def decode_pod(data: bytes, table: TemplateTable | None = None) -> Pod:
    """The pod that this JSON describes. Equal pods decoded with one table share their template.

    Raises `WireError` if it describes none.
    """
    try:
        return pod_of(_DECODER.decode(data), table)
    except (*REFUSALS, FieldError) as error:
        raise explain(KIND, data, error) from None


def pod_from_builtin(obj: Mapping[str, Any], table: TemplateTable | None = None) -> Pod:
    """The same for an object of plain types (dict, list, str, int, ...), as YAML and the embedded cluster give it."""
    return decode_pod(builtin_json(KIND, obj), table)


def pod_of(wire: PodWire, table: TemplateTable | None = None) -> Pod:
    """The pod of a decoded frame; for callers that decode frames inside an envelope. Raises `FieldError`."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status or _NO_STATUS
    if not metadata.name:
        raise FieldError("metadata.name", MISSING, "is missing", "give the pod a name")
    template, entry = (table if table is not None else TemplateTable()).entry(wire)
    requests, scheduled, scheduled_at, record, assigned = template.requests, None, None, None, None
    infeasible = preempted = ready = False
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            scheduled = _condition(condition)
            scheduled_at = condition.last_transition_time if condition.status == "True" else None
        elif condition.type == "Ready":
            ready = condition.status == "True"
        elif condition.type == "PodResizePending":
            infeasible = condition.reason == "Infeasible"
        elif condition.type == "DisruptionTarget":
            preempted = condition.status == "True" and condition.reason == PREEMPTION
        elif condition.type == GANG_RECORD:
            record = gang_record(condition.status, condition.message or "")
        elif condition.type == ASSIGNED:
            assigned = assignment(condition.message or "", spec.node_name)
    if spec.node_name and wire.status is not None:
        requests = entry.requests(template, status, resize_infeasible=infeasible)
    created, started, deleted = metadata.creation_timestamp, status.start_time, metadata.deletion_timestamp
    started_s, lasts_s = started.timestamp() if started else None, spec.active_deadline_seconds
    return Pod(
        metadata.uid or f"{template.namespace}/{metadata.name}",
        metadata.name,
        template,
        spec.node_name or None,
        status.nominated_node_name or None,
        status.phase or PENDING,
        tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        requests,
        created.timestamp() if created else 0.0,
        started_s,
        deleted.timestamp() if deleted else None,
        scheduled,
        metadata.generation or 0,
        metadata.resource_version or "",
        preempted,
        time_s(scheduled_at),
        record,
        ready,
        entry.devices if spec.node_name else (),
        None if lasts_s is None else deadline_s(started_s, lasts_s),
        assigned,
    )


def _condition(wire: ConditionWire) -> Condition:
    if wire.type == _SCHEDULED.type and wire.status == "True" and not wire.reason and not wire.message:
        return _SCHEDULED
    return Condition(wire.type, wire.status, wire.reason or "", wire.message or "")
