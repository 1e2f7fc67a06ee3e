"""A cluster of many nodes and pods in one engine, into which one large object comes and from which it goes."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import dataclass

from moorage.core.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from moorage.engine.engine import Engine
from moorage.testing import make_node, make_pod
from moorage.wire.node import decode_node
from moorage.wire.pod import decode_pod
from moorage.wire.templates import TemplateTable
from tests.bounds.shapes import NODE_SHAPES, node_json, pod_json
from tests.framework.readers import default_profile

_APPS = 200
_KEYS = 7


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
        self.now = 1000.0
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
        self.engine.handle(events, self.now)

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


def cost(world: World, shape: str, node: str | None = None, most: int | None = None) -> Cost:
    """Let an object come and go, first for the time that it takes, then once more for the memory."""
    is_node = shape in NODE_SHAPES
    data = node_json(shape, most=most) if is_node else pod_json(shape, node=node, most=most)
    came_ms = world.comes(data, is_node=is_node)
    other_ms = min(world.other() for _ in range(3))
    left_ms = world.goes(is_node=is_node)
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
