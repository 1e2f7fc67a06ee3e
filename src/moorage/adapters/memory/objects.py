"""Kubernetes objects as plain JSON dictionaries, and common accessors.

The contract of the whole folder: an object is frozen once other code can see it. Code that passes an object in gives up
ownership, readers never change it; a change is a new dictionary that shares every part it does not touch. That is why
nothing here ever deep-copies, and `KubeObject` is typed as a `Mapping`, so that the type checker sees most slips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from moorage.wire.kinds import KINDS

KubeObject: TypeAlias = Mapping[str, Any]
"""A whole API object, frozen (see the module's docstring)."""

NOTHING: Mapping[str, Any] = {}
"""Stands for an absent part; never written to."""

CLUSTER_SCOPED = frozenset(kind.name for kind in KINDS if not kind.namespaced) | {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
}
"""Kinds without namespaces: those that Moorage reads, and a few that turn up beside them."""

FINISHED = frozenset({"Succeeded", "Failed"})


class ObjectKey(NamedTuple):
    """Where an object is kept; `namespace` is empty for kinds without namespaces."""

    kind: str
    namespace: str
    name: str


def key_of(obj: KubeObject) -> ObjectKey:
    """The key under which the object is kept."""
    metadata = obj["metadata"]
    return ObjectKey(obj["kind"], metadata.get("namespace") or "", metadata["name"])


def metadata_of(obj: KubeObject) -> Mapping[str, Any]:
    """`metadata`, empty when absent."""
    return obj.get("metadata") or NOTHING


def spec_of(obj: KubeObject) -> Mapping[str, Any]:
    """`spec`, empty when absent."""
    return obj.get("spec") or NOTHING


def status_of(obj: KubeObject) -> Mapping[str, Any]:
    """`status`, empty when absent."""
    return obj.get("status") or NOTHING


def uid_of(obj: KubeObject) -> str:
    """The uid of a stored object."""
    return str(obj["metadata"]["uid"])


def is_terminating(obj: KubeObject) -> bool:
    """Whether deletion has begun."""
    return bool(metadata_of(obj).get("deletionTimestamp"))


def node_of(pod: KubeObject) -> str:
    """The node a pod is bound to, empty when it is not."""
    return str(spec_of(pod).get("nodeName") or "")


def is_live(pod: KubeObject) -> bool:
    """Whether a controller counts the pod: not finished, not being deleted."""
    return not is_terminating(pod) and status_of(pod).get("phase") not in FINISHED


def condition_of(obj: KubeObject, condition_type: str) -> Mapping[str, Any]:
    """The condition of this type, empty when there is none."""
    conditions: Sequence[Mapping[str, Any]] = status_of(obj).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == condition_type), NOTHING)


def is_ready(obj: KubeObject) -> bool:
    """Whether the condition Ready is True."""
    return condition_of(obj, "Ready").get("status") == "True"


def owner_references(obj: KubeObject) -> tuple[Mapping[str, Any], ...]:
    """All owner references."""
    return tuple(metadata_of(obj).get("ownerReferences") or ())


def controller_of(obj: KubeObject) -> Mapping[str, Any] | None:
    """The owner reference with `controller: true`."""
    references: Sequence[Mapping[str, Any]] = metadata_of(obj).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def reference_to(owner: KubeObject) -> dict[str, Any]:
    """The owner reference that a controller puts on what it makes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


@lru_cache(maxsize=4096)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(time_s: float) -> str:
    """RFC 3339 with whole seconds, as `metav1.Time` is written."""
    return _format_second(int(time_s))


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386 JSON merge patch; shares what it does not change and never writes to its arguments."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def with_condition(status: Mapping[str, Any], condition: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """The status with this condition in place of the one of its type; the transition time moves with `status` only."""
    return with_conditions(status, (condition,), now_s)


def with_conditions(status: Mapping[str, Any], new: Sequence[Mapping[str, Any]], now_s: float) -> dict[str, Any]:
    """The same for several conditions."""
    conditions: list[Mapping[str, Any]] = list(status.get("conditions") or ())
    places = {condition.get("type"): place for place, condition in enumerate(conditions)}
    now = timestamp(now_s)
    for condition in new:
        place = places.get(condition["type"])
        if place is None:
            conditions.append({"lastTransitionTime": now, **condition})
            continue
        old = conditions[place]
        since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        conditions[place] = {"lastTransitionTime": since or now, **condition}
    return {**status, "conditions": conditions}
