"""The cluster as its API server shows it, and the plain facts that rules ask for. Shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from tests.crossings.audit.quantities import milli

Object: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

OVER = ("Succeeded", "Failed")
CONTROLLERS = ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "ReplicationController")
NOTHING: Object = {}


class Scene:
    """All objects, kept up to date change by change."""

    def __init__(self) -> None:
        self.things: dict[str, dict[Key, Object]] = {}
        self.pods: dict[str, Object] = {}
        """By uid."""
        self._standing: dict[str, dict[str, Object]] = {}

    def apply(self, kind: str, old: Object | None, new: Object | None) -> None:
        """An object came, changed or went."""
        known = self.things.setdefault(kind, {})
        if new is None:
            if old is not None:
                known.pop(key_of(old), None)
        else:
            known[key_of(new)] = new
        if kind == "Pod":
            self._pod(old, new)

    def _pod(self, old: Object | None, new: Object | None) -> None:
        uid = uid_of(new if new is not None else old or NOTHING)
        before = self.pods.pop(uid, None)
        if before is not None and node_of(before):
            self._standing.get(node_of(before), {}).pop(uid, None)
        if new is not None:
            self.pods[uid] = new
            if node_of(new) and not is_over(new):
                self._standing.setdefault(node_of(new), {})[uid] = new

    @property
    def nodes(self) -> dict[str, Object]:
        """By name."""
        return {name: each for (_, name), each in self.things.get("Node", {}).items()}

    def of(self, kind: str) -> Mapping[Key, Object]:
        """All objects of a kind."""
        return self.things.get(kind, {})

    def on(self, node: str) -> Iterator[Object]:
        """The pods that stand on a node."""
        yield from self._standing.get(node, {}).values()

    def standing(self) -> Iterator[Object]:
        """All pods on nodes that have not ended."""
        for pods in self._standing.values():
            yield from pods.values()

    def waiting(self) -> Iterator[Object]:
        """All pods without a node that are to get one."""
        for pod in self.pods.values():
            if not node_of(pod) and not is_leaving(pod) and not is_over(pod):
                yield pod

    def owner_of(self, obj: Object) -> Object | None:
        """The object that made it, if it is there."""
        reference = controller(obj)
        if not reference:
            return None
        found = self.of(reference["kind"]).get((namespace_of(obj), reference["name"]))
        return found if found is not None and uid_of(found) == reference.get("uid") else None


def metadata(obj: Object) -> Object:
    return obj.get("metadata") or NOTHING


def spec(obj: Object) -> Object:
    return obj.get("spec") or NOTHING


def status(obj: Object) -> Object:
    return obj.get("status") or NOTHING


def key_of(obj: Object) -> Key:
    return (metadata(obj).get("namespace") or "", metadata(obj)["name"])


def namespace_of(obj: Object) -> str:
    return str(metadata(obj).get("namespace") or "")


def name_of(pod: Object) -> str:
    """`namespace/name`."""
    return "/".join(filter(None, key_of(pod)))


def uid_of(obj: Object) -> str:
    return str(metadata(obj).get("uid") or "")


def labels(obj: Object) -> Mapping[str, str]:
    return metadata(obj).get("labels") or {}


def notes(obj: Object) -> Mapping[str, str]:
    """Annotations."""
    return metadata(obj).get("annotations") or {}


def node_of(pod: Object) -> str:
    return str(spec(pod).get("nodeName") or "")


def is_over(pod: Object) -> bool:
    return status(pod).get("phase") in OVER


def is_leaving(obj: Object) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))


def is_ready(obj: Object) -> bool:
    return condition(obj, "Ready").get("status") == "True"


def condition(obj: Object, kind: str) -> Object:
    """The condition of this type."""
    return next((each for each in status(obj).get("conditions") or () if each.get("type") == kind), NOTHING)


def controller(obj: Object) -> Object:
    """The owner reference of the controller."""
    return next((each for each in metadata(obj).get("ownerReferences") or () if each.get("controller")), NOTHING)


def priority(pod: Object) -> int:
    return int(spec(pod).get("priority") or 0)


def requests(pod: Object) -> dict[str, int]:
    """What a pod asks for, in thousandths."""
    found: dict[str, int] = {}
    for container in spec(pod).get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            found[name] = found.get(name, 0) + milli(str(text))
    return found


def offered(node: Object) -> dict[str, int]:
    """What a node has for pods, in thousandths."""
    return {name: milli(str(text)) for name, text in (status(node).get("allocatable") or {}).items()}
