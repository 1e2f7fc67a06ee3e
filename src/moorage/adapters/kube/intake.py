"""From objects on the API server to events for the engine.

Invariants: an object that vanished between two lists becomes a Gone event; a pod that was deleted and made again under
the same name is a new pod, because pods are known by uid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from moorage.adapters.kube.resources import Resource
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.wire.kinds import Kind

UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector: finished pods hold nothing, and clusters keep thousands of them."""


def resource_of(kind: Kind) -> Resource:
    """Where the API server has the objects of a kind."""
    return Resource(kind.group, kind.versions[0], kind.plural, kind.namespaced, kind.name)


class KindIntake:
    """The sink of one reflector: keeps the keys it has seen, and hands events on."""

    def __init__(self, kind: Kind, emit: Callable[[Event], None]) -> None:
        self.kind = kind
        self._emit = emit
        self._known: set[str] = set()

    def parse(self, raw: msgspec.Raw) -> Any:
        """One object as a core value; the reflector calls it on arrival."""
        return self.kind.decode(raw)

    def replaced(self, objects: Iterable[Any]) -> None:
        """Everything that exists now."""
        gone = self._known
        self._known = set()
        for value in objects:
            self.upserted(value)
        for key in gone - self._known:
            self._emit(self._gone(key))

    def upserted(self, value: Any) -> None:
        """An object was added or changed."""
        key = _key(value)
        self._known.add(key)
        if isinstance(value, Pod):
            self._emit(PodSeen(value))
        elif isinstance(value, Node):
            self._emit(NodeSeen(value))
        else:
            self._emit(ObjectSeen(self.kind.id, key, value))

    def deleted(self, value: Any) -> None:
        """An object was deleted."""
        key = _key(value)
        self._known.discard(key)
        self._emit(self._gone(key))

    def _gone(self, key: str) -> Event:
        if self.kind.name == "Pod":
            return PodGone(key)
        if self.kind.name == "Node":
            return NodeGone(key)
        return ObjectGone(self.kind.id, key)


def _key(value: Any) -> str:
    if isinstance(value, Pod):
        return value.uid
    key: str = value.name if isinstance(value, Node) else value.key
    return key
