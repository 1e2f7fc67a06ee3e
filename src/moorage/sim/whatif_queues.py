"""Another quota, weight, limit, priority or parent for a queue of a simulated cluster."""

from __future__ import annotations

from typing import Any

from moorage.adapters.memory.objects import KubeObject, metadata_of, spec_of
from moorage.adapters.memory.store import Store
from moorage.core.queueaccounts import queue_problems
from moorage.core.queues import QUEUE, Queue
from moorage.sim.whatif_changes import ChangeError, SetQueue
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, find_kind
from moorage.wire.queues import queue_spec
from moorage.wire.scalars import resolve_plain

_OURS = BY_ID[QUEUE]
_NUMBERS = ("priority", "weight")


def set_queue(change: SetQueue, store: Store) -> None:
    """Carry it out. A queue of KAI or Volcano becomes one of Moorage that says the same."""
    body = store.get(QUEUE, "", change.queue)
    after = {**body, "apiVersion": _OURS.api_versions[0], "spec": _changed(change, _spec(body))}
    try:
        value: Queue = _OURS.from_builtin(after)
    except WireError as error:
        raise ChangeError([f"{change}: {error.problem}"]) from None
    problem = queue_problems({**_queues(store), value.name: value}).get(value.name)
    if problem:
        raise ChangeError([f"{change}: then {problem}"])
    if after["apiVersion"] == body["apiVersion"]:
        store.replace(after)
    else:
        store.delete(QUEUE, "", change.queue, grace_s=0)
        store.load({**after, "metadata": {key: each for key, each in metadata_of(body).items() if key != "uid"}})


def _spec(body: KubeObject) -> dict[str, Any]:
    return dict(spec_of(body)) if body["apiVersion"] in _OURS.api_versions else queue_spec(_value(body))


def _changed(change: SetQueue, spec: dict[str, Any]) -> dict[str, Any]:
    if not change.resource:
        return _with(spec, change.field, change.value)
    resources = dict(spec.get("resources") or {})
    resources[change.resource] = _with(dict(resources.get(change.resource) or {}), change.field, change.value)
    return {**spec, "resources": resources}


def _with(fields: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    if not text:
        return {key: value for key, value in fields.items() if key != name}
    return {**fields, name: resolve_plain(text) if name in _NUMBERS else text}


def _queues(store: Store) -> dict[str, Queue]:
    return {str(body["metadata"]["name"]): _value(body) for body in store.list(QUEUE)}


def _value(body: KubeObject) -> Queue:
    kind = find_kind(str(body["apiVersion"]), QUEUE) or _OURS
    value: Queue = kind.from_builtin(body)
    return value
