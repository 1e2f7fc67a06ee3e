"""Virtual kubelets for the real API server: one object plays the kubelets of thousands of nodes.

    async with KubeClient(load_credentials(path)) as client, VirtualKubelet(client) as kubelet:
        await kubelet.add_nodes([VirtualNode(name="n1", zone="a")])

It creates nodes and keeps them alive (Lease and conditions), takes pods that are bound to them to Running, and removes
deleted pods when their grace period is over. `kubelet_thread` does the same for callers without an event loop.

Invariants:
- A pod is only ever touched under the precondition of its UID.
- The requests in flight are bounded by `workers`, heartbeats by `heartbeats_per_s`; with many nodes heartbeats become
  rarer rather than more.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog

from moorage.adapters.kube.client import STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.errors import Conflict, KubeError, NotFound
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import LEASES, NODES, PODS
from moorage.bench.podwork import PodWork
from moorage.bench.virtualnodes import (
    LEASE_NAMESPACE,
    KubeletPod,
    VirtualNode,
    lease_object,
    lease_renewal,
    node_heartbeat,
    node_object,
    read_pod,
    running_status,
)
from moorage.core.values import dataclass

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPace:
    """How often and how much at once."""

    heartbeat_s: float = 10.0
    """Time between two lease renewals of a node, as long as `heartbeats_per_s` allows it."""
    heartbeats_per_s: float = 50.0
    conditions_s: float = 300.0
    """Time between two reports of a node's conditions."""
    retry_s: float = 1.0
    workers: int = 32


class VirtualKubelet:
    """The kubelets of all nodes that were added to it. Belongs to one event loop; an async context manager.

    adopt_all also runs the pods of other nodes, without keeping those nodes alive.
    """

    def __init__(self, client: KubeClient, *, pace: KubeletPace | None = None, adopt_all: bool = False) -> None:
        self._client = client
        self._pace = pace or KubeletPace()
        self._adopt_all = adopt_all
        self._addresses: dict[str, str] = {}
        self._silent: set[str] = set()
        self._reported_at_s: dict[str, float] = {}
        self._node_addresses = _addresses("10.0.0.1")
        self._pod_addresses = _addresses("10.128.0.1")
        self._work = PodWork(self._start, self._end, self._runs_here)
        self._reflector = Reflector(
            client, PODS, self._work, parse=read_pod, jitter=random.random, field_selector="spec.nodeName!="
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def node_names(self) -> list[str]:
        """Nodes that are kept alive, silent ones included."""
        return list(self._addresses)

    async def __aenter__(self) -> Self:
        chores = [self._reflector.run(), self._keep_alive()]
        chores += [self._work.carry_out(self._pace.retry_s) for _ in range(self._pace.workers)]
        self._tasks = [asyncio.ensure_future(chore) for chore in chores]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._work.close()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def add_nodes(self, nodes: Iterable[VirtualNode]) -> None:
        """Create nodes and their leases, many at a time; returns when all exist."""
        await self._each(self._add_node, nodes)
        # Pods may have been bound to these nodes before they came.
        self._work.reconsider()

    async def remove_nodes(self, names: Iterable[str]) -> None:
        """Delete nodes and their leases. What becomes of their pods is the business of other controllers."""
        await self._each(self._remove_node, names)

    def silence(self, name: str) -> None:
        """Let a node fall silent, as if it had lost its network: no heartbeats, and its pods are left as they are."""
        self._silent.add(name)

    async def revive(self, name: str) -> None:
        """Let a silent node report again, at once."""
        self._silent.discard(name)
        self._reported_at_s.pop(name, None)
        await self._heartbeat(name)
        self._work.reconsider()

    async def _each(self, act: Callable[[T], Coroutine[Any, Any, None]], items: Iterable[T]) -> None:
        remaining = iter(items)

        async def work() -> None:
            for item in remaining:
                await act(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._pace.workers):
                group.create_task(work())

    async def _add_node(self, node: VirtualNode) -> None:
        address = next(self._node_addresses)
        await self._client.create(NODES, node_object(node, address, _now()))
        await self._write_lease(node.name)
        self._addresses[node.name] = address
        self._reported_at_s[node.name] = time.monotonic()

    async def _remove_node(self, name: str) -> None:
        self._addresses.pop(name, None)
        self._silent.discard(name)
        for resource, namespace in ((NODES, None), (LEASES, LEASE_NAMESPACE)):
            with contextlib.suppress(NotFound):
                await self._client.delete(resource, name, namespace)

    async def _keep_alive(self) -> None:
        """Go round the nodes evenly, so that heartbeats never come in bursts."""
        while True:
            names = [name for name in self._addresses if name not in self._silent]
            pause_s = self._interval_s() / max(len(names), 1)
            for name in names or [""]:
                next_at_s = time.monotonic() + pause_s
                if name in self._addresses and name not in self._silent:
                    await self._try_heartbeat(name)
                await asyncio.sleep(max(0.0, next_at_s - time.monotonic()))

    def _interval_s(self) -> float:
        return max(self._pace.heartbeat_s, len(self._addresses) / self._pace.heartbeats_per_s)

    async def _try_heartbeat(self, name: str) -> None:
        try:
            await self._heartbeat(name)
        except KubeError as error:
            log.warning("heartbeat failed", node=name, error=str(error))

    async def _heartbeat(self, name: str) -> None:
        body = {"spec": lease_renewal(_now())}
        try:
            await self._client.patch(LEASES, name, body, LEASE_NAMESPACE)
        except NotFound:
            await self._write_lease(name)
        if time.monotonic() - self._reported_at_s.get(name, float("-inf")) >= self._pace.conditions_s:
            report = {"status": node_heartbeat(_now())}
            with contextlib.suppress(NotFound):
                await self._client.patch(NODES, name, report, content_type=STRATEGIC_PATCH, subresource="status")
            self._reported_at_s[name] = time.monotonic()

    async def _write_lease(self, name: str) -> None:
        lease = lease_object(name, self._interval_s(), _now())
        try:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)
        except Conflict:
            await self._client.patch(LEASES, name, {"spec": lease["spec"]}, LEASE_NAMESPACE)

    def _runs_here(self, node: str) -> bool:
        return node not in self._silent and (self._adopt_all or node in self._addresses)

    async def _start(self, pod: KubeletPod) -> None:
        host_ip = self._addresses.get(pod.spec.node_name, "10.0.0.0")
        patch = running_status(pod, host_ip=host_ip, pod_ip=next(self._pod_addresses), now=_now())
        meta = pod.metadata
        await self._client.patch(
            PODS, meta.name, patch, meta.namespace, content_type=STRATEGIC_PATCH, subresource="status"
        )

    async def _end(self, pod: KubeletPod) -> None:
        meta = pod.metadata
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_s=0)


class KubeletThread:
    """A virtual kubelet for callers without an event loop; made by `kubelet_thread`."""

    def __init__(self, kubelet: VirtualKubelet, loop: asyncio.AbstractEventLoop) -> None:
        self._kubelet = kubelet
        self._loop = loop

    def add_nodes(self, nodes: Iterable[VirtualNode]) -> None:
        """Create nodes and their leases; returns when all exist."""
        self._wait_for(self._kubelet.add_nodes(nodes))

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Delete nodes and their leases."""
        self._wait_for(self._kubelet.remove_nodes(names))

    def silence(self, name: str) -> None:
        """Let a node fall silent."""
        self._loop.call_soon_threadsafe(self._kubelet.silence, name)

    def revive(self, name: str) -> None:
        """Let a silent node report again."""
        self._wait_for(self._kubelet.revive(name))

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextlib.contextmanager
def kubelet_thread(
    kubeconfig: Path, *, pace: KubeletPace | None = None, adopt_all: bool = False
) -> Iterator[KubeletThread]:
    """Run a virtual kubelet in a thread of its own for the length of the block."""
    resources = contextlib.AsyncExitStack()

    async def open_kubelet() -> VirtualKubelet:
        client = KubeClient(load_credentials(str(kubeconfig)), user_agent="virtual-kubelet")
        await resources.enter_async_context(client)
        return await resources.enter_async_context(VirtualKubelet(client, pace=pace, adopt_all=adopt_all))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="virtual-kubelet", daemon=True)
    thread.start()
    try:
        kubelet = asyncio.run_coroutine_threadsafe(open_kubelet(), loop).result()
        yield KubeletThread(kubelet, loop)
    finally:
        asyncio.run_coroutine_threadsafe(resources.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())  # and connections that were just closed finish closing
        loop.close()


def _addresses(first: str) -> Iterator[str]:
    """Give addresses without end, none of them twice."""
    return (str(ipaddress.IPv4Address(number)) for number in itertools.count(int(ipaddress.IPv4Address(first))))


def _now() -> datetime:
    return datetime.now(UTC)
