"""Decisions per second of the engine alone: no API server, no decoding.

A decision runs from the pod's event to its Bind command and includes the confirmation (the bind's answer and the pod
seen on its node). Of gangs also what the record of their start takes: its answer, and the member seen with it. Making
the events is not counted: that is the adapters' work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

import numpy as np

from moorage.adapters.process import tune_process
from moorage.bench import devices, racks, workloads
from moorage.core.commands import Bind
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.pods import Pod, PodTemplate
from moorage.core.queues import QUEUE
from moorage.core.resources import Requests
from moorage.core.shareasks import NVIDIA_GPU
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.plugin import Point
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN

BATCH = 64
"""Pods decided per call, as the scheduler does with its binds in flight."""

_WARM_UP_NODES = 64
_PODS_PER_NODE = 100
_ZONES = 3
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One measurement."""

    workload: str
    nodes: int
    pods_present: int
    decisions: int
    decisions_per_s: float
    median_ms: float | None = None
    """Of the calls that placed one gang each, where the workload says how large its gangs are."""
    p99_ms: float | None = None


def _requests(cpu_milli: int, memory_bytes: int) -> Requests:
    return Requests((("cpu", cpu_milli), ("memory", memory_bytes)), cpu_milli, memory_bytes)


def _pod(name: str, requests: Requests, template: PodTemplate | None = None, node: str | None = None) -> Pod:
    labels = FrozenDict({"app": "bench"})
    shared = template or PodTemplate(scheduler_name=workloads.SCHEDULER, requests=requests, labels=labels)
    return Pod(uid=name, name=name, template=shared, requests=shared.requests, node=node)


def equal_pods(count: int) -> Iterator[Pod]:
    """Pods of one class."""
    first = _pod("equal", _requests(100, 500 << 20)).template
    for number in range(count):
        yield _pod(f"equal-{number}", first.requests, first)


def different_pods(count: int) -> Iterator[Pod]:
    """Pods of which no two share a class: each asks for its own amounts."""
    for number in range(count):
        yield _pod(f"different-{number}", _requests(50 + number % 97, (200 << 20) + number * 4096))


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """Pods to place, and how many are enough for a steady figure."""

    pods: Callable[[int], Iterator[Pod]]
    decisions: int
    one_zone: bool = False
    """Whether all pods have to share one of the three zones."""
    together: int = 1
    """So many pods are one gang; the number of pods is a multiple of it."""
    per_node: int = _PODS_PER_NODE
    """How many of the pods a node has room for."""
    claims: bool = False
    """Whether nodes have devices, and pods claims for them."""
    shared: int = 0
    """Devices of each node that pods share; the profile then has SharedDevices and Fragmentation."""
    levels: bool = False
    """Whether nodes are in a topology, and mostly full."""
    gangs: tuple[int, ...] = ()
    """The sizes of gangs in turn: each comes alone, and is placed in one call of the engine."""
    waiting: bool = False
    """Whether all pods wait from the beginning."""
    queues: bool = False
    """Whether the queues are there that pods name."""


WORKLOADS: dict[str, BenchWorkload] = {
    "equal": BenchWorkload(equal_pods, 20_000),
    "different": BenchWorkload(different_pods, 3_000),
    "spread": BenchWorkload(workloads.spread_pods, 4_000),
    "affinity": BenchWorkload(workloads.affinity_pods, 4_000, one_zone=True),
    "anti-affinity": BenchWorkload(workloads.anti_affinity_pods, 4_000, per_node=1),
    "preferred-affinity": BenchWorkload(workloads.preferred_affinity_pods, 4_000),
    "selectors": BenchWorkload(workloads.selector_pods, 5_000),
    "mixed": BenchWorkload(workloads.mixed_pods, 4_000),
    "gangs": BenchWorkload(workloads.gang_pods, 1_000 * workloads.GANG, together=workloads.GANG),
    "racks": BenchWorkload(
        racks.rack_pods,
        200 * racks.GANG,
        together=racks.GANG,
        per_node=racks.PER_NODE,
        levels=True,
        gangs=(racks.GANG,),
    ),
    "slices": BenchWorkload(
        racks.slice_pods, 12 * sum(racks.SLICED), per_node=racks.PER_NODE // 2, levels=True, gangs=racks.SLICED
    ),
    "queues": BenchWorkload(workloads.team_pods, 50_000, waiting=True, queues=True),
    "no-queues": BenchWorkload(workloads.team_pods, 50_000, waiting=True),
    "devices": BenchWorkload(workloads.device_pods, 4_000, per_node=devices.SERVED, claims=True),
    "shares": BenchWorkload(workloads.share_pods, 20_000, per_node=8, shared=8),
    "no-shares": BenchWorkload(workloads.share_pods, 20_000, per_node=8),
}
_SHARING = ProfileConfiguration(
    multi_point=PluginSet((EnabledPlugin("SharedDevices"), EnabledPlugin("Fragmentation", 20))),
    points={Point.SCORE: PluginSet(disabled=("NodeResourcesFit", "NodeResourcesBalancedAllocation", "SharedDevices"))},
)
"""The profile of examples/gpu-sharing.yaml."""


def make_engine(nodes: int, pods_present: int, shared: int = 0) -> Engine:
    """An engine with the default profile, or one that shares devices, that knows so many nodes and running pods."""
    configuration = Configuration(profiles=(_SHARING,)) if shared else Configuration()
    engine = Engine(build_profiles(configuration, Registry(BUILTIN)))
    offer = FrozenDict({"cpu": 32_000, "memory": 128 * _GIB, "pods": 110, "ephemeral-storage": 500 * _GIB})
    if shared:
        offer = FrozenDict({**offer, NVIDIA_GPU: shared})
    events: list[Event] = []
    for number in range(nodes):
        labels = FrozenDict({
            "kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
        })  # fmt: skip
        events.append(NodeSeen(Node(f"node-{number}", labels=labels, allocatable=offer)))
    requests = _requests(200, 256 << 20)
    template = _pod("present", requests).template
    events.extend(
        PodSeen(_pod(f"present-{number}", requests, template, f"node-{number % nodes}"))
        for number in range(pods_present)
    )
    engine.handle(events, now=0.0, budget=0)
    return engine


def equip(engine: Engine, workload: BenchWorkload, nodes: int, pods: Sequence[Pod]) -> Echo:
    """Show the engine what the pods need beside nodes; returns what answers its commands."""
    if workload.levels:
        engine.handle(racks.rack_events(nodes, workloads.SCHEDULER), now=0.0, budget=0)
    if workload.queues:
        queues = [ObjectSeen(QUEUE, queue.name, queue) for queue in workloads.team_queues()]
        engine.handle(queues, now=0.0, budget=0)
    if not workload.claims:
        return Echo(pods)
    echo = devices.ClaimEcho(pods)
    engine.handle(devices.seen(devices.device_objects(nodes)), now=0.0, budget=0)
    engine.handle(devices.seen(("", body) for body in echo.claims.values()), now=0.0, budget=0)
    return echo


def measure(
    workload: str,
    nodes: int,
    pods_present: int = 0,
    decisions: int | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> BenchRow:
    """Run one workload and return its row; `decisions` is at most what fits on the nodes, in whole gangs.

    A batch on a few nodes goes first: methods of values are made at their first call (docs/decisions/0018).
    """
    tune_process()
    _place(workload, _WARM_UP_NODES, 0, BATCH, clock)
    return _place(workload, nodes, pods_present, decisions, clock)


def _place(workload: str, nodes: int, pods_present: int, decisions: int | None, clock: Callable[[], float]) -> BenchRow:
    chosen = WORKLOADS[workload]
    engine = make_engine(nodes, pods_present, chosen.shared)
    usable = nodes // _ZONES if chosen.one_zone else nodes
    room = usable * chosen.per_node - (pods_present * usable // nodes if chosen.per_node == _PODS_PER_NODE else 0)
    decisions = max(min(decisions or chosen.decisions, room) // chosen.together, 1) * chosen.together
    pods = list(chosen.pods(decisions))
    calls = _Calls(engine, equip(engine, chosen, nodes, pods), clock)
    if chosen.waiting:
        calls.send(pods, 0.0, 0)
    start, sizes = 0, cycle(chosen.gangs or (BATCH,))
    while calls.answers or start < len(pods):
        size = next(sizes)
        new = () if chosen.waiting else pods[start : start + size]
        calls.send(new, float(start), BATCH if chosen.waiting else len(pods))
        while chosen.gangs and calls.answers:
            calls.send((), float(start), len(pods))
        start += size
    if calls.bound != len(pods):
        raise RuntimeError(f"workload {workload}: {len(pods) - calls.bound} of {len(pods)} pods found no node")
    rate = len(pods) / sum(calls.elapsed_s)
    if not chosen.gangs:
        return BenchRow(workload, nodes, pods_present, len(pods), rate)
    median_ms, p99_ms = np.percentile(calls.placing_s, (50, 99)) * 1000
    return BenchRow(workload, nodes, pods_present, len(pods), rate, float(median_ms), float(p99_ms))


class _Calls:
    """Calls of an engine whose commands are answered by an echo, and how long they take."""

    def __init__(self, engine: Engine, echo: Echo, clock: Callable[[], float]) -> None:
        self._engine, self._echo, self._clock = engine, echo, clock
        self.answers: list[Event] = []
        self.bound = 0
        self.elapsed_s: list[float] = []
        self.placing_s: list[float] = []
        """Of calls with new pods only."""

    def send(self, pods: Sequence[Pod], now: float, budget: int) -> None:
        """Show the engine new pods, and the answers to its last commands."""
        events = [*self.answers, *(PodSeen(pod) for pod in pods)]
        began = self._clock()
        commands, _ = self._engine.handle(events, now=now, budget=budget)
        self.elapsed_s.append(self._clock() - began)
        if pods:
            self.placing_s.append(self.elapsed_s[-1])
        self.bound += sum(isinstance(command, Bind) for command in commands)
        self.answers = self._echo.events(commands)
