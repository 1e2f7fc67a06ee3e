"""Preemptions per second on a full cluster: from the preemptor's event over its victims' end to its bind.

A decision here is everything that one preemptor costs: the attempt that finds no node, the choice of node and victims,
the answers to the deletions and the end of the victims, the second attempt, the bind and its confirmation. Victims end
at once, and their owners make no new ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from moorage.adapters.process import tune_process
from moorage.bench.core import BenchRow
from moorage.core.commands import Bind, DeletePod
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.pods import RUNNING, Pod, PodTemplate
from moorage.core.resources import Requests
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN

_BATCH = 64
_NODE_CPU_MILLI = 32_000
_NODE_MEMORY_BYTES = 128 << 30
_WANTED_CPU_MILLI = 4_000
_PODS_PER_NODE = 10
_PRIORITIES = (0, 10, 20)
_SCHEDULER = "moorage"
_ROUNDS = 100
"""More calls than any batch needs; a workload that needs more goes in circles."""


def measure_preemption(
    nodes: int, pods_present: int = 0, decisions: int | None = None, *, different: bool = False
) -> BenchRow:
    """Fill the nodes with `pods_present` pods (ten a node if fewer) and let preemptors in, `different` or all equal."""
    tune_process()
    engine, present = _full_cluster(nodes, max(pods_present // nodes, _PODS_PER_NODE))
    wanted = list(_preemptors(decisions or nodes // 2, different))
    elapsed_s, bound = 0.0, 0
    for start in range(0, len(wanted), _BATCH):
        batch_s, batch_bound = _play(engine, wanted[start : start + _BATCH], now=float(start))
        elapsed_s += batch_s
        bound += batch_bound
    if bound != len(wanted):
        raise RuntimeError(f"workload preemption: {len(wanted) - bound} of {len(wanted)} pods found no node")
    name = "preemption-different" if different else "preemption"
    return BenchRow(name, nodes, present, len(wanted), len(wanted) / elapsed_s)


def _play(engine: Engine, pods: Sequence[Pod], now: float) -> tuple[float, int]:
    """Decide on a batch to its end; seconds within the engine and number of binds."""
    echo = Echo(pods)
    events: list[Event] = [PodSeen(pod) for pod in pods]
    elapsed_s, bound = 0.0, 0
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        commands, _ = engine.handle(events, now)
        elapsed_s += time.perf_counter() - began
        # That a preemptor was nominated is not shown, so that figures can be compared with earlier ones.
        events = echo.events(command for command in commands if isinstance(command, DeletePod | Bind))
        bound += sum(isinstance(command, Bind) for command in commands)
        if not events:
            break
    return elapsed_s, bound


def _preemptors(count: int, different: bool) -> Iterator[Pod]:
    for number in range(count):
        extra = number if different else 0
        template = _template(_WANTED_CPU_MILLI + extra % 997, (1 << 30) + extra * 4096, priority=1000)
        yield Pod(f"preemptor-{number}", f"preemptor-{number}", template, requests=template.requests)


def _full_cluster(nodes: int, per_node: int) -> tuple[Engine, int]:
    """Every node's cpu is requested to the last milli, by pods of several priorities and ages."""
    engine = Engine(build_profiles(Configuration(), Registry(BUILTIN)))
    offer = FrozenDict({"cpu": _NODE_CPU_MILLI, "memory": _NODE_MEMORY_BYTES, "pods": max(110, per_node + 10)})
    templates = [_template(_NODE_CPU_MILLI // per_node, 256 << 20, priority) for priority in _PRIORITIES]
    rest = _template(_NODE_CPU_MILLI - (per_node - 1) * (_NODE_CPU_MILLI // per_node), 256 << 20, _PRIORITIES[0])
    events: list[Event] = []
    for number in range(nodes):
        name = f"node-{number}"
        events.append(NodeSeen(Node(name, labels=FrozenDict({"kubernetes.io/hostname": name}), allocatable=offer)))
        for place in range(per_node):
            template = rest if place == 0 else templates[(number + place) % len(templates)]
            uid = f"present-{number}-{place}"
            started_s = float((number * 7 + place) % 1000)
            pod = Pod(uid, uid, template, node=name, phase=RUNNING, requests=template.requests, started_s=started_s)
            events.append(PodSeen(pod))
    engine.handle(events, now=0.0, budget=0)
    return engine, nodes * per_node


def _template(cpu_milli: int, memory_bytes: int, priority: int) -> PodTemplate:
    requests = Requests((("cpu", cpu_milli), ("memory", memory_bytes)), cpu_milli, memory_bytes)
    labels = FrozenDict({"app": "bench"})
    return PodTemplate(scheduler_name=_SCHEDULER, labels=labels, priority=priority, requests=requests)
