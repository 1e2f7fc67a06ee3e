"""A Queue with another value in one field.

What users set by hand makes of a queue of KAI or Volcano a Queue of Moorage that says the same. A larger bound that is
suggested stands in the fields of the queue's own kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

from moorage.core.edits import RaiseBound
from moorage.core.fairshare import UNLIMITED
from moorage.core.queues import KAI_QUEUE, QUEUE, VOLCANO_QUEUE, WEIGHT_UNIT, Queue, bound_text, term_text
from moorage.core.resources import CPU, MEMORY
from moorage.wire.kinds import BY_ID, find_kind
from moorage.wire.podrewriting import Plain, RewriteError
from moorage.wire.queues import KAI_RESOURCES, queue_spec
from moorage.wire.scalars import resolve_plain

_OURS = BY_ID[QUEUE]
_WEIGHT = "weight"
_NUMBERS = ("priority", _WEIGHT)
_KAI_WEIGHT = "overQuotaWeight"
_VOLCANO_FIELDS = {"quota": "deserved", "limit": "capability"}


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


def raised_queue(body: Plain, edit: RaiseBound) -> Plain:
    """The queue with a larger quota, limit or weight, in the words of its kind; `RewriteError` if it has none."""
    if edit.kind == KAI_QUEUE:
        return _raised_kai(body, edit)
    if edit.kind == VOLCANO_QUEUE:
        return _raised_volcano(body, edit)
    return rewritten_queue(body, edit.bound, edit.resource, term_text(edit.bound, edit.resource, edit.amount))


def _raised_kai(body: Plain, edit: RaiseBound) -> Plain:
    theirs = {ours: (name, unit) for name, (ours, unit) in KAI_RESOURCES.items()}.get(edit.resource)
    if theirs is None:
        raise RewriteError(f"queues of KAI do not name {edit.resource}")
    name, unit = theirs
    field, value = (_KAI_WEIGHT, _number(edit.amount, WEIGHT_UNIT))
    if edit.bound != _WEIGHT:
        field, value = edit.bound, -1 if edit.amount >= UNLIMITED else _number(edit.amount, unit)
    spec = dict(body.get("spec") or {})
    resources = dict(spec.get("resources") or {})
    return {**body, "spec": {**spec, "resources": {**resources, name: {**(resources.get(name) or {}), field: value}}}}


def _number(amount: int, unit: int) -> int | float:
    """An amount in larger units: a fraction only where that is read as the same amount again, else rounded up."""
    exact = amount / unit
    if amount % unit == 0:
        return amount // unit
    return exact if floor(exact * unit) == amount else -(-amount // unit)


def _raised_volcano(body: Plain, edit: RaiseBound) -> Plain:
    spec = dict(body.get("spec") or {})
    if edit.bound == _WEIGHT:  # of all resources
        return {**body, "spec": {**spec, _WEIGHT: _number(edit.amount, WEIGHT_UNIT)}}
    # A queue that names no resource has cpu and memory, which it would not have any more if it named another one.
    guaranteed = (spec.get("guarantee") or {}).get("resource")
    amounts = dict(spec.get(field := _VOLCANO_FIELDS[edit.bound]) or {})
    if not (spec.get("capability") or spec.get("deserved") or guaranteed):
        spec["deserved"] = dict.fromkeys((CPU, MEMORY), "0")
        amounts = dict(spec.get(field) or {})
    return {**body, "spec": {**spec, field: {**amounts, edit.resource: bound_text(edit.resource, edit.amount)}}}


def _with(fields: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    others = {key: value for key, value in fields.items() if key != name or text}
    return {**others, name: resolve_plain(text) if name in _NUMBERS else text} if text else others
