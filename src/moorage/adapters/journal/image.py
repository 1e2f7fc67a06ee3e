"""An engine as facts, so that a segment can begin in the middle of things and still be replayed exactly.

An image has the cluster as its watches would show it: nodes, other objects, pods on nodes. It adds what no object says:
which rows are free, the queue with its history, pods in flight, nominations, evictions in progress, what gangs and the
plan wait for (`engine.facts`). Columns and kept answers are not in it: they are computed again. It is read into an
engine that was created with the configuration at the beginning of the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from moorage.adapters.journal.factcodec import FactReader, FactWriter, tidy
from moorage.adapters.journal.records import Image, Restorer, Scribe, checked_object
from moorage.adapters.journal.values import Unreadable, decode, reading
from moorage.core.assignments import Assignment
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.state import ClusterState, PodRecord
from moorage.engine.engine import Engine

_CHUNK = 256
_ROWS, _NODES, _OBJECTS, _PODS, _ORDER, _RESERVATIONS, _KINDS, _ENTITIES, _PARTS, _PLUGINS = range(10)
_MOST_ROWS = 1 << 20
"""Rows that an image may have; a cluster has 5,000 nodes, and rows double."""


def dump(engine: Engine, scribe: Scribe) -> bytes:
    """The records of the image of an engine between two turns; it goes on as one that is made of them would."""
    tidy(engine)
    return scribe.image(_facts(engine, FactWriter(scribe, engine), scribe))


def pass_by(engine: Engine) -> None:
    """An image of this engine was taken here: go on as the one did that it was taken of."""
    tidy(engine)


def _with_devices(record: PodRecord) -> Pod:
    """The pod with the shared devices that were chosen for it, which an assumed one does not show yet."""
    pod, share = record.pod, record.pod.share
    if pod.assigned is not None or not record.devices or share is None:
        return pod
    return replace(pod, assigned=Assignment(record.node, record.devices, share))


def _facts(engine: Engine, writer: FactWriter, scribe: Scribe) -> list[Any]:
    state = engine.state
    nodes = ([int(row), scribe.pack(state.node(int(row)))] for row in state.rows())
    objects = ([kind, key, scribe.pack(value)] for kind, each in state.objects.items() for key, value in each.items())
    pods = ([scribe.pod(_with_devices(record)), record.node, record.assumed] for record in state.records())
    plugins = [
        [name, each.name, writer.listed(each.plugin, each.plugin.remembers)]
        for name, runner in engine.all_runners.items()
        for each in runner.plugins.all
        if each.plugin.remembers
    ]
    parts = writer.part(engine)
    entities = list(writer.entities())
    return [
        [_ROWS, list(state.free_rows)],
        *_chunks(_NODES, nodes),
        *_chunks(_OBJECTS, objects),
        *_chunks(_PODS, pods),
        *_chunks(_ORDER, _orders(state)),
        [_RESERVATIONS, [writer.part(part) for part in _reserving(state)]],
        [_KINDS, writer.kinds],
        *_chunks(_ENTITIES, entities),
        *([_PARTS, [place, each]] for place, each in enumerate(parts)),
        *_chunks(_PLUGINS, plugins),
    ]


def _reserving(state: ClusterState) -> tuple[Any, ...]:
    """Parts of the state that hold what objects do not say."""
    return state.nominations, state.evictions, state.volumes, state.devices, state.devices.writes, state.disruptions


def _chunks(section: int, values: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(values)
    while chunk := list(islice(rest, _CHUNK)):
        yield [section, chunk]


def _orders(state: ClusterState) -> Iterator[list[Any]]:
    """Nodes whose pods came to them in another order than they came in at all: the node was away in between."""
    on_nodes: dict[str, list[str]] = {}
    for record in state.records():
        on_nodes.setdefault(record.node, []).append(record.pod.uid)
    for name, uids in on_nodes.items():
        order = state.order_on(name)
        if order != uids:
            yield [name, order]


def load(image: Image, engine: Engine) -> None:
    """Restore an image into an engine that knows nothing yet; `Unreadable` where these bytes are none of it."""
    reading(lambda: _Loader(engine, image.restorer).load(image.facts))
    tidy(engine)  # once more: parts were tidied when others were not there yet


class _Loader:
    def __init__(self, engine: Engine, restorer: Restorer) -> None:
        self._engine = engine
        self._state = engine.state
        self._restorer = restorer
        self._nodes: dict[int, Node] = {}
        self._free: list[int] = []
        self._reader = FactReader(engine, restorer, b"")
        self._parts: dict[int, Any] = {}
        self._plugins: list[Any] = []

    def load(self, facts: Iterable[bytes]) -> None:
        sections: dict[int, Callable[[Any], None]] = {
            _ROWS: self._rows,
            _NODES: self._some_nodes,
            _OBJECTS: self._objects,
            _PODS: self._pods,
            _ORDER: self._order,
            _RESERVATIONS: self._reservations,
            _KINDS: self._kinds,
            _ENTITIES: self._some_entities,
            _PARTS: self._part,
            _PLUGINS: self._some_plugins,
        }
        last = -1
        for data in facts:
            section, told = msgspec.convert(decode(data), tuple[int, Any])
            if section not in sections or section < last:
                raise Unreadable(f"the image has no section {section} there")
            if last <= _NODES < section:
                self._stand()
            last = section
            sections[section](told)
        self._finish()

    def _rows(self, told: Any) -> None:
        self._free = msgspec.convert(told, list[int])

    def _some_nodes(self, told: Any) -> None:
        for row, packed in told:
            node = self._reader.unpack(packed, Node)
            self._nodes[row] = node

    def _stand(self) -> None:
        """Put every node on its row, with others on the free ones, which leave as those were left."""
        count = len(self._nodes) + len(self._free)
        if not count <= _MOST_ROWS or set(self._nodes) | set(self._free) != set(range(count)):
            raise Unreadable("the rows of the image are not those of a cluster")
        names = {node.name for node in self._nodes.values()}
        if len(names) != len(self._nodes):
            raise Unreadable("two nodes of the image have one name")
        for row in range(count):
            self._state.upsert_node(self._nodes.get(row) or Node(name=_nobody(row)))
        for row in self._free:
            self._state.remove_node(_nobody(row))
        if self._state.free_rows != tuple(self._free):
            raise Unreadable("the rows of the image are not those of a cluster")

    def _objects(self, told: Any) -> None:
        for kind, key, packed in told:
            value = self._reader.unpack(packed, Any)
            checked_object(kind, value)
            self._state.put_object(kind, self._reader.unpack(key, str), value)

    def _pods(self, told: Any) -> None:
        for row, name, assumed in told:
            pod = self._restorer.pod(row)
            node = self._reader.unpack(name, str)
            self._state.observe_pod(replace(pod, node=node))
            record = self._state.record(pod.uid)
            if record is None:
                raise Unreadable(f"the pod {pod.key!r:.80} of the image stands nowhere")
            record.pod, record.assumed = pod, self._reader.unpack(assumed, bool)

    def _order(self, told: Any) -> None:
        for name, uids in told:
            self._state.reorder(self._reader.unpack(name, str), self._reader.unpack(uids, list[str]))

    def _reservations(self, told: Any) -> None:
        for part, facts in zip(_reserving(self._state), told, strict=False):  # older images know of fewer
            self._reader.part(part, facts)

    def _kinds(self, told: Any) -> None:
        self._reader = FactReader(self._engine, self._restorer, msgspec.convert(told, bytes))

    def _some_entities(self, told: Any) -> None:
        for each in told:
            self._reader.entity(each)

    def _part(self, told: Any) -> None:
        place, facts = told
        self._parts[place] = facts

    def _some_plugins(self, told: Any) -> None:
        self._plugins += told

    def _finish(self) -> None:
        if not self._reader.complete:
            raise Unreadable("the image ends before all entries of the queue are told")
        self._reader.part(self._engine, [self._parts[place] for place in range(len(self._parts))])
        for name, plugin_name, facts in self._plugins:
            runner = self._engine.all_runners.get(name)
            found = None if runner is None else runner.plugins.get(plugin_name)
            if found is None:
                raise Unreadable(f"the image tells of the plugin {plugin_name!r:.80}, which is not here")
            self._reader.listed(found.plugin, found.plugin.remembers, facts)


def _nobody(row: int) -> str:
    """A name that no node can have."""
    return f"/{row}"
