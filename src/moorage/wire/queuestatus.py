"""What is read of the status of a Queue: since when its condition Ready holds."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from moorage.wire.errors import REFUSALS

READY = "Ready"


class _Meta(msgspec.Struct):
    name: str


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _QueueView(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


_queue = msgspec.json.Decoder(_QueueView).decode


def ready_since(queues: Iterable[bytes | msgspec.Raw]) -> dict[str, tuple[str, str]]:
    """Name -> status of the condition Ready, and since when it has it; objects that cannot be read are left out."""
    found: dict[str, tuple[str, str]] = {}
    for raw in queues:
        try:
            queue = _queue(raw)
        except REFUSALS:
            continue
        for condition in (queue.status or _Status()).conditions or ():
            if condition.type == READY and condition.last_transition_time:
                found[queue.metadata.name] = condition.status, condition.last_transition_time
    return found
