"""What happens in the embedded cluster, as events for the engine.

A batch holds each object once, in its latest state: nodes and other objects first, then the pods that stand on nodes,
then those that wait, in the order in which they enter the queue (priority, creation time, place in the input).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.adapters.memory.changes import ChangeType, StoreChange
from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.objects import KubeObject, uid_of
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.objects import object_key
from moorage.core.pods import Pod
from moorage.wire.errors import WireError
from moorage.wire.kinds import KINDS, NODE, Kind, find_kind, pod_kind
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadkinds import NO_WORKLOADS, ChosenWorkloads


class Feed:
    """One reader of a cluster; `table` makes pods that look alike share their template.

    `workloads` are the kinds whose pods are gangs; without them, pods are in the gangs that they name.
    """

    def __init__(
        self, cluster: EmbeddedCluster, table: TemplateTable | None = None, workloads: ChosenWorkloads = NO_WORKLOADS
    ) -> None:
        self._cluster = cluster
        self._own = {(version, kind.name): kind for kind in workloads.kinds for version in kind.api_versions}
        self._chains = workloads.chains()
        self._watch = cluster.watch(tuple(dict.fromkeys(kind.name for kind in (*KINDS, *workloads.kinds))))
        self._pods = pod_kind(table if table is not None else TemplateTable())
        self.unreadable: list[tuple[KubeObject, WireError]] = []
        """Objects that could not be decoded since this was last emptied; nothing is told about them."""

    def pull(self) -> list[Event]:
        """Everything since the last pull."""
        latest: dict[tuple[str, str], StoreChange] = {}
        for change in self._watch.pull():
            latest[change.kind, uid_of(change.object)] = change
        events: list[Event] = []
        waiting: list[tuple[tuple[float, ...], PodSeen]] = []
        for (kind, uid), change in latest.items():
            if kind != "Pod":
                events += self._object_events(kind, change)
            elif change.type is ChangeType.DELETED:
                events.append(PodGone(uid))
            else:
                self._sort_in(change.object, events, waiting)
        # A pod refers to nodes and classes, so those come first.
        events.sort(key=lambda event: isinstance(event, PodSeen | PodGone))
        waiting.sort(key=lambda pair: pair[0])
        events += [event for _, event in waiting]
        return self._chains.filter(events)

    def _sort_in(self, body: KubeObject, events: list[Event], waiting: list[tuple[tuple[float, ...], PodSeen]]) -> None:
        pod: Pod | None = self._decoded(self._pods, body)
        if pod is None:
            return
        if pod.node is not None:
            events.append(PodSeen(pod))
        else:
            order = (-pod.template.priority, pod.created_s, *self._cluster.place_of(body))
            waiting.append((order, PodSeen(pod)))

    def _object_events(self, name: str, change: StoreChange) -> Iterable[Event]:
        body = change.object
        if name == "Node":
            if change.type is ChangeType.DELETED:
                return (NodeGone(body["metadata"]["name"]),)
            node = self._decoded(NODE, body)
            return () if node is None else (NodeSeen(node),)
        version = str(body.get("apiVersion"))
        kind = self._own.get((version, name)) or find_kind(version, name)
        if kind is None:
            return ()
        if change.type is ChangeType.DELETED:
            metadata = body["metadata"]
            return (ObjectGone(kind.id, object_key(metadata.get("namespace") or "", metadata["name"])),)
        value = self._decoded(kind, body)
        return () if value is None else (ObjectSeen(kind.id, value.key, value),)

    def _decoded(self, kind: Kind, body: KubeObject) -> Any:
        try:
            return kind.from_builtin(body)
        except WireError as error:
            self.unreadable.append((body, error))
            return None
