"""One measurement of `moorage bench cluster`: a fresh control plane, one workload, one scheduler.

Order: nodes and pods are created, the watcher starts, then the contender, with all the work waiting for it. When the
burst is bound and its events are there, more pods arrive at a steady rate. Nothing else runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import field, replace

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench import clusterload as loads
from moorage.bench.clustercreation import NAMESPACES, NODES, PODS, arrive, churn, create_all
from moorage.bench.clusterload import NAMESPACE, ClusterLoad, Manifest
from moorage.bench.clusterwatch import Watcher, settled
from moorage.bench.contenders import Contender, plane_options, start
from moorage.bench.controlplane import ControlPlane, ControlPlaneError
from moorage.bench.processcost import cpu_s, peak_memory_bytes
from moorage.bench.processes import Child
from moorage.core.values import dataclass

BURST, STEADY = "burst", "steady"
_PATIENCE_S = 60.0
"""So long without a single bind or event means that none will come."""

Progress = Callable[[str, int], None]
"""Called with what is being done and how many of its units were done since the last call."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    nodes: int
    pods: int
    pods_present: int = 0
    steady_pods: int = 1000
    """0 leaves the steady arrivals out."""
    steady_per_s: float = 100.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was seen of one contender with one workload."""

    workload: str
    contender: str
    round: int
    nodes: int
    pods: int
    pods_present: int
    bound: int
    pods_per_s: float
    """Between the first and the last binding."""
    start_s: float
    """From the start of the process to the first binding."""
    cpu_ms_per_pod: float
    """Of the process, from its start until all events of the burst were there."""
    binding_cpu_ms_per_pod: float
    """The same from the first binding on: without the start and the first lists."""
    peak_memory_mb: float
    events: int
    last_event_lag_s: float | None
    """Of the last event behind the last binding."""
    worst_event_lag_s: float | None
    """Of any event behind the binding that it tells of."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    """Creation to binding at the steady rate."""


@dataclass(slots=True)
class _Costs:
    """Readings of the process at the moments that matter."""

    child: Child
    began_s: float = field(default_factory=time.monotonic)
    first_bind_cpu_s: float = 0.0

    def note_first_bind(self) -> None:
        self.first_bind_cpu_s = self.cpu_s()

    def cpu_s(self) -> float:
        pid = self.child.pid
        return 0.0 if pid is None else cpu_s(pid)

    def peak_memory_mb(self) -> float:
        pid = self.child.pid
        return 0.0 if pid is None else peak_memory_bytes(pid) / 1e6

    def check(self) -> None:
        """Raise when the process ended: then nothing will come of waiting. The limit client may end, its work done."""
        if not self.child.running and self.child.exit_code != 0:
            raise ControlPlaneError(f"{self.child.name} ended early: {self.child.complaint()}")


def pods_of(load: ClusterLoad, sizes: Sizes) -> int:
    """How many pods of the workload there is room for."""
    return max(1, min(sizes.pods, sizes.nodes * load.per_node))


def steady_of(load: ClusterLoad, sizes: Sizes) -> int:
    """How many pods arrive at the steady rate."""
    return min(sizes.steady_pods, pods_of(load, sizes))


def units_of(load: ClusterLoad, sizes: Sizes, contender: Contender) -> int:
    """How many units of progress a measurement has: objects created and pods bound."""
    steady = 0 if contender is Contender.LIMIT else steady_of(load, sizes)
    return sum(1 for _ in _objects(load, sizes)) + pods_of(load, sizes) + steady


def measure(
    workload: str,
    contender: Contender,
    sizes: Sizes,
    *,
    round_number: int = 1,
    progress: Progress = lambda *_: None,
    python: str = sys.executable,
) -> Measurement:
    """Start a control plane, measure, and throw it away. `python` has the Moorage that is measured."""
    load = loads.LOADS[workload]
    with ControlPlane.start(plane_options(gangs=load.gangs)) as plane:
        return asyncio.run(_Run(plane, workload, contender, sizes, round_number, progress, python).go())


@dataclass(slots=True)
class _Run:
    plane: ControlPlane
    workload: str
    contender: Contender
    sizes: Sizes
    round_number: int
    progress: Progress
    python: str

    async def go(self) -> Measurement:
        load = loads.LOADS[self.workload]
        async with KubeClient(load_credentials(str(self.plane.admin_kubeconfig))) as client:
            await self._fill(client, load)
            watcher = Watcher()
            async with watcher.watching(client), self._started(load) as costs, _churning(client, load):
                watcher.first_bind = costs.note_first_bind
                found = await self._burst(load, watcher, costs)
                return await self._steady(client, load, watcher, costs, found)

    async def _fill(self, client: KubeClient, load: ClusterLoad) -> None:
        def created() -> None:
            self.progress("creating", 1)

        for batch in _batches(load, self.sizes):
            await create_all(client, batch, created)

    @contextlib.asynccontextmanager
    async def _started(self, load: ClusterLoad) -> AsyncIterator[_Costs]:
        child = start(self.contender, self.plane, gangs=load.gangs, python=self.python)
        try:
            yield _Costs(child)
        finally:
            await asyncio.to_thread(child.kill)

    async def _burst(self, load: ClusterLoad, watcher: Watcher, costs: _Costs) -> Measurement:
        count, told = pods_of(load, self.sizes), 0

        def all_bound() -> bool:
            nonlocal told
            self.progress("binding", len(watcher.bound_at_s) - told)
            told = len(watcher.bound_at_s)
            return told >= count

        await settled(watcher, all_bound, costs.check, _PATIENCE_S)
        await settled(watcher, lambda: len(watcher.event_at_s) >= len(watcher.bound_at_s), costs.check, 10.0)
        return self._result(count, watcher, costs)

    def _result(self, count: int, watcher: Watcher, costs: _Costs) -> Measurement:
        bound, events = watcher.bound_at_s, watcher.event_at_s
        if not bound:
            raise ControlPlaneError(f"{self.contender} bound no pod of {self.workload}: {costs.child.complaint()}")
        first_s, last_s, cpu = min(bound.values()), max(bound.values()), costs.cpu_s()
        lags = [at_s - bound[name] for name, at_s in events.items() if name in bound]
        return Measurement(
            workload=self.workload,
            contender=str(self.contender),
            round=self.round_number,
            nodes=self.sizes.nodes,
            pods=count,
            pods_present=self.sizes.pods_present,
            bound=len(bound),
            pods_per_s=(len(bound) - 1) / max(last_s - first_s, 1e-3),
            start_s=first_s - costs.began_s,
            cpu_ms_per_pod=1e3 * cpu / len(bound),
            binding_cpu_ms_per_pod=1e3 * max(0.0, cpu - costs.first_bind_cpu_s) / len(bound),
            peak_memory_mb=costs.peak_memory_mb(),
            events=len(events),
            last_event_lag_s=max(events.values()) - last_s if events else None,
            worst_event_lag_s=max(lags) if lags else None,
        )

    async def _steady(
        self, client: KubeClient, load: ClusterLoad, watcher: Watcher, costs: _Costs, found: Measurement
    ) -> Measurement:
        count = 0 if self.contender is Contender.LIMIT else steady_of(load, self.sizes)
        if not count or found.bound < found.pods:
            return found
        if load.objects is not None:
            await create_all(client, load.objects(STEADY, count), lambda: None)
        asked = await arrive(client, load.pods(STEADY, count), self.sizes.steady_per_s)
        await settled(watcher, lambda: asked.keys() <= watcher.bound_at_s.keys(), costs.check, _PATIENCE_S)
        self.progress("arriving", count)
        waits = sorted(watcher.bound_at_s[name] - at_s for name, at_s in asked.items() if name in watcher.bound_at_s)
        if not waits:
            return found
        return _with(found, waits, costs.peak_memory_mb())


def _with(found: Measurement, waits_s: list[float], peak_memory_mb: float) -> Measurement:
    p50, p99 = (1e3 * percentile(waits_s, share) for share in (0.50, 0.99))
    return replace(found, p50_ms=p50, p99_ms=p99, peak_memory_mb=peak_memory_mb)


def percentile(ascending: list[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


@contextlib.asynccontextmanager
async def _churning(client: KubeClient, load: ClusterLoad) -> AsyncIterator[None]:
    if not load.churn:
        yield
        return
    task = asyncio.create_task(churn(client))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _batches(load: ClusterLoad, sizes: Sizes) -> Iterator[Iterator[tuple[str, Manifest]]]:
    """What is created before the measurement; a batch is there before the next one begins."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield iter([(NAMESPACES, namespace)])
    yield _at(NODES, loads.nodes(sizes.nodes))
    count = pods_of(load, sizes)
    if load.equipment is not None:
        yield load.equipment(sizes.nodes)
    if load.objects is not None:
        yield load.objects(BURST, count)
    yield _at(PODS, loads.present_pods(sizes.pods_present, sizes.nodes))
    if load.full:
        yield _at(PODS, loads.fillers(sizes.nodes))
    if load.hopeless:
        yield _at(PODS, loads.hopeless_pods(load.hopeless))
    yield _at(PODS, load.pods(BURST, count))


def _objects(load: ClusterLoad, sizes: Sizes) -> Iterator[tuple[str, Manifest]]:
    for batch in _batches(load, sizes):
        yield from batch


def _at(path: str, bodies: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    return ((path, body) for body in bodies)
