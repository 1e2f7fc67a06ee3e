"""A Queue with another value in one field; one of KAI or Volcano becomes a Queue of Moorage that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.core.queues import QUEUE, Queue
from moorage.wire.kinds import BY_ID, find_kind
from moorage.wire.queues import queue_spec
from moorage.wire.scalars import resolve_plain

_OURS = BY_ID[QUEUE]
_NUMBERS = ("priority", "weight")


def queue_of(body: Mapping[str, Any]) -> Queue:
    """The value of a Queue of any group."""
    kind = find_kind(str(body.get("apiVersion")), QUEUE) or _OURS
    value: Queue = kind.from_builtin(body)
    return value


def rewritten_queue(body: Mapping[str, Any], field: str, resource: str, text: str) -> dict[str, Any]:
    """The object with a field set, of a resource if one is named; without a text it gets its default."""
    ours = body.get("apiVersion") in _OURS.api_versions
    spec = dict(body.get("spec") or {}) if ours else queue_spec(queue_of(body))
    if resource:
        resources = dict(spec.get("resources") or {})
        resources[resource] = _with(resources.get(resource) or {}, field, text)
        spec["resources"] = resources
    else:
        spec = _with(spec, field, text)
    return {**body, "apiVersion": _OURS.api_versions[0], "spec": spec}


def _with(fields: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    others = {key: value for key, value in fields.items() if key != name or text}
    return {**others, name: resolve_plain(text) if name in _NUMBERS else text} if text else others
