"""A cluster of many nodes and pods in one engine, into which one large object comes and from which it goes."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import dataclass
from typing import NamedTuple

from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.engine.engine import Engine
from moorage.framework.workloadkinds import WorkloadKindsArgs
from moorage.testing import make_node, make_pod
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID
from moorage.wire.node import decode_node
from moorage.wire.pod import decode_pod
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadkinds import workloads_of
from tests.bounds.object_shapes import COMPANY, OBJECT_SHAPES, decoded, object_json
from tests.bounds.shapes import NODE_SHAPES, node_json, pod_json
from tests.framework.readers import default_profile

_APPS = 200
_KEYS = 7
_NEW = 200_000
"""So far apart are the numbers of entries that were not seen before."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an object cost."""

    size: int
    came_ms: float
    """Thread CPU from its bytes to the end of the call that took it over and decided."""
    other_ms: float
    """The same of the event of another pod while it was there."""
    left_ms: float
    kept_bytes: int
    """What was kept while it was there."""
    left_bytes: int
    """What was left when it was gone."""


class World:
    """One engine, as the scheduler runs it."""

    def __init__(self, nodes: int, pods_per_node: int = 6) -> None:
        self.engine = Engine([default_profile()])
        self.table = TemplateTable()
        self.chains = workloads_of([WorkloadKindsArgs()]).chains()
        self.now = 1000.0
        self.object_key: str | None = None
        self._serial = 0
        events: list[Event] = []
        for number in range(nodes):
            labels = {f"key-{each}": f"v{number % (3 + each)}" for each in range(_KEYS)}
            events.append(NodeSeen(make_node(f"n{number}", cpu="64", zone=f"z{number % 3}", labels=labels)))
        for number in range(nodes * pods_per_node):
            app = {"app": f"a{number % _APPS}", "tier": f"t{number % 5}"}
            events.append(PodSeen(make_pod(f"p{number}", cpu="100m", node=f"n{number % nodes}", labels=app)))
        self.handle(*events)
        misfit = make_pod("misfit", cpu="1000", scheduler_name="moorage")
        self.handle(PodSeen(misfit))
        self.handle(PodGone(misfit.uid))
        self.other()

    def handle(self, *events: Event) -> None:
        self.now += 1.0
        self.engine.handle(self.chains.filter(events), self.now)

    def other(self) -> float:
        """Somebody else's pod is placed and goes; returns the thread's CPU in ms."""
        self._serial += 1
        pod = make_pod(f"other-{self._serial}", cpu="100m", labels={"app": "a1"}, scheduler_name="moorage")
        before = time.thread_time()
        self.handle(PodSeen(pod))
        self.handle(PodGone(pod.uid))
        return (time.thread_time() - before) * 1000

    def comes(self, data: bytes, *, is_node: bool) -> float:
        """The object comes; returns the thread's CPU in ms."""
        before = time.thread_time()
        if is_node:
            self.handle(NodeSeen(decode_node(data)))
        else:
            self.handle(PodSeen(decode_pod(data, self.table)))
        return (time.thread_time() - before) * 1000

    def goes(self, *, is_node: bool, uid: str = "worst") -> float:
        """The object goes."""
        before = time.thread_time()
        self.handle(NodeGone("worst-node") if is_node else PodGone(uid))
        return (time.thread_time() - before) * 1000

    def keep_company(self) -> None:
        """The objects that pods of `OBJECT_SHAPES` ask for beside the worst one."""
        values = [(kind, decoded(kind, body)) for kind, body in COMPANY]
        self.handle(*(ObjectSeen(kind, value.key, value) for kind, value in values))

    def look_for_devices(self) -> None:
        """What each node sees of devices is known, as after a pod that claims some."""
        state = self.engine.state
        for row in range(state.node_count):
            state.devices.views.view(state.node(row))

    def object_comes(self, name: str, data: bytes) -> float:
        """The object of a shape comes, or is left out; returns the thread's CPU in ms."""
        kind = BY_ID[OBJECT_SHAPES[name].kind]
        before = time.thread_time()
        try:
            value = kind.decode(data)
        except WireError:
            self.object_key = None
        else:
            self.object_key = value.key
            self.handle(ObjectSeen(kind.id, value.key, value))
        return (time.thread_time() - before) * 1000

    def asks(self, name: str) -> float:
        """A pod that has to do with the object is decided on, and goes; returns the thread's CPU in ms."""
        self._serial += 1
        pod = OBJECT_SHAPES[name].asks(f"asks-{self._serial}")
        before = time.thread_time()
        self.handle(PodSeen(pod))
        self.handle(PodGone(pod.uid))
        return (time.thread_time() - before) * 1000

    def object_goes(self, name: str) -> float:
        """The object goes; what it stood for is as before."""
        before = time.thread_time()
        if self.object_key is not None:
            self.handle(ObjectGone(OBJECT_SHAPES[name].kind, self.object_key))
        took = time.thread_time() - before
        self.keep_company()
        return took * 1000


class ObjectCost(NamedTuple):
    """What an object of another kind cost, as `Cost`."""

    size: int
    left_out: bool
    came_ms: float
    first_ms: float
    """A pod that asks for it, for the first time."""
    next_ms: float
    other_ms: float
    left_ms: float
    kept_bytes: int
    left_bytes: int


def object_cost(world: World, name: str, most: int | None = None) -> ObjectCost:
    """Let an object come and go, with a pod that it concerns."""
    data = object_json(name, most)
    world.asks(name)
    times = []
    for _ in range(3):
        came = world.object_comes(name, data)
        first, following = world.asks(name), world.asks(name)
        times.append((came, first, following, min(world.other() for _ in range(3)), world.object_goes(name)))
    came_ms, first_ms, next_ms, other_ms, left_ms = (min(column) for column in zip(*times, strict=True))
    world.other()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    world.object_comes(name, data)
    world.asks(name)
    gc.collect()
    kept_bytes = tracemalloc.get_traced_memory()[0] - before
    world.object_goes(name)
    world.asks(name)
    world.other()
    gc.collect()
    left_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    left_out = world.object_key is None
    return ObjectCost(len(data), left_out, came_ms, first_ms, next_ms, other_ms, left_ms, kept_bytes, left_bytes)


def cost(world: World, shape: str, node: str | None = None, most: int | None = None) -> Cost:
    """Let an object come and go, for the best time of three that nobody has seen before, then for the memory."""
    is_node = shape in NODE_SHAPES
    times = []
    for start in range(_NEW, 4 * _NEW, _NEW):
        data = (
            node_json(shape, most=most, start=start) if is_node else pod_json(shape, node=node, most=most, start=start)
        )
        came = world.comes(data, is_node=is_node)
        times.append((came, min(world.other() for _ in range(3)), world.goes(is_node=is_node)))
    came_ms, other_ms, left_ms = (min(column) for column in zip(*times, strict=True))
    world.other()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    world.comes(data, is_node=is_node)
    gc.collect()
    kept_bytes = tracemalloc.get_traced_memory()[0] - before
    world.goes(is_node=is_node)
    world.other()
    gc.collect()
    left_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return Cost(len(data), came_ms, other_ms, left_ms, kept_bytes, left_bytes)
