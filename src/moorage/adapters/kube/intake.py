"""From objects on the API server to events for the engine.

Invariants: an object that vanished between two lists becomes a Gone event; a pod that was deleted and made again under
the same name is a new pod, because pods are known by uid. What cannot be read takes effect by its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from moorage.adapters.kube.resources import Resource
from moorage.adapters.kube.watchstream import Garbage, ObjectMeta, metadata_of
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.wire.kinds import Kind
from moorage.wire.podplace import UnreadablePod, standing_pod

UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector: finished pods hold nothing, and clusters keep thousands of them."""


def resource_of(kind: Kind) -> Resource:
    """Where the API server has the objects of a kind."""
    return Resource(kind.group, kind.versions[0], kind.plural, kind.namespaced, kind.name, kind.versions[1:])


class KindIntake:
    """The sink of one reflector: keeps the keys it has seen, and hands events on.

    An object that cannot be read does not exist for us; one that was known before is gone. Only a pod on a node keeps
    its room, by what was last read of it, for as long as it stands on that very node: otherwise the room would be given
    away twice. Where even that cannot be read, or the pod has finished, it is gone too.
    """

    def __init__(self, kind: Kind, emit: Callable[[Event], None]) -> None:
        self.kind = kind
        self.parse: Callable[[msgspec.Raw], Any] = kind.decode
        """One object as a core value; the reflector calls it on arrival."""
        self._emit = emit
        self._known: dict[str, str | None] = {}
        """By key; for pods, the node."""

    def remains(self, raw: msgspec.Raw) -> Any:
        """What is left of an object that cannot be read: its metadata, or a pod's place; None if not even that."""
        standing = standing_pod(raw) if self.kind.name == "Pod" else None
        if standing is not None:
            return standing
        try:
            return metadata_of(raw)
        except Garbage:
            return None

    def replaced(self, objects: Iterable[Any]) -> None:
        """Everything that exists now."""
        before, self._known = self._known, {}
        for value in objects:
            if isinstance(value, UnreadablePod):
                if before.get(value.uid) == value.node:
                    self._known[value.uid] = value.node
            elif not isinstance(value, ObjectMeta):
                self.upserted(value)
        for key in before.keys() - self._known.keys():
            self._emit(self._gone(key))

    def upserted(self, value: Any) -> None:
        """An object was added or changed."""
        if isinstance(value, Pod):
            self._known[value.uid] = value.node
            self._emit(PodSeen(value))
        elif isinstance(value, Node):
            self._known[value.name] = None
            self._emit(NodeSeen(value))
        elif isinstance(value, UnreadablePod):
            if self._known.get(value.uid) != value.node:
                self._leave(value.uid)
        elif isinstance(value, ObjectMeta):
            self._leave(self._key(value))
        else:
            self._known[value.key] = None
            self._emit(ObjectSeen(self.kind.id, value.key, value))

    def deleted(self, meta: ObjectMeta) -> None:
        """An object was deleted."""
        key = self._key(meta)
        self._known.pop(key, None)
        self._emit(self._gone(key))

    def _leave(self, key: str) -> None:
        if key in self._known:
            del self._known[key]
            self._emit(self._gone(key))

    def _gone(self, key: str) -> Event:
        if self.kind.name == "Pod":
            return PodGone(key)
        if self.kind.name == "Node":
            return NodeGone(key)
        return ObjectGone(self.kind.id, key)

    def _key(self, meta: ObjectMeta) -> str:
        return meta.uid or meta.key if self.kind.name == "Pod" else meta.key
