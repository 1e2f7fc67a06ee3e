"""The limit of `moorage bench cluster`: a client that posts a binding and a Scheduled event per pod, and nothing else.

    python -m moorage.bench.limitclient KUBECONFIG

It decides nothing and watches nothing: pods go to the nodes in turn. No scheduler on this machine and this API server
can be much faster, as users need both the binding and the event.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator

import msgspec

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.watchstream import ObjectMeta, decode_page
from moorage.bench.clusterload import NAMESPACE

IN_FLIGHT = 64
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


class _Meta(msgspec.Struct, gc=False):
    name: str
    uid: str


class _Spec(msgspec.Struct, gc=False):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec


class _Node(msgspec.Struct, gc=False):
    metadata: ObjectMeta


async def run(kubeconfig: str) -> None:
    """Bind every pod that has no node, and record it."""
    async with KubeClient(load_credentials(kubeconfig)) as client:
        pods = [
            msgspec.json.decode(raw, type=_Pod) for raw in await _all(client, f"/api/v1/namespaces/{NAMESPACE}/pods")
        ]
        nodes = [msgspec.json.decode(raw, type=_Node).metadata.name for raw in await _all(client, "/api/v1/nodes")]
        waiting = iter([pod.metadata for pod in pods if not pod.spec.node_name])
        turn = itertools.cycle(nodes)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(_work(client, waiting, turn))


async def _all(client: KubeClient, path: str) -> list[msgspec.Raw]:
    found: list[msgspec.Raw] = []
    query: dict[str, str | int] = {"limit": 2000}
    while True:
        page = decode_page(await client.request("GET", path, query=query))
        found += page.items or []
        if not page.metadata.continue_token:
            return found
        query["continue"] = page.metadata.continue_token


async def _work(client: KubeClient, waiting: Iterator[_Meta], turn: Iterator[str]) -> None:
    for pod in waiting:
        node = next(turn)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}/binding"
        await client.request("POST", path, body=_binding(pod, node))
        await client.request("POST", _EVENTS, body=_event(pod, node))


def _binding(pod: _Meta, node: str) -> bytes:
    return msgspec.json.encode({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": NAMESPACE, "name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })  # fmt: skip


def _event(pod: _Meta, node: str) -> bytes:
    return msgspec.json.encode({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.limit", "namespace": NAMESPACE},
        "eventTime": micro_time(clock.now_s()),
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned {NAMESPACE}/{pod.name} to {node}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": pod.name, "uid": pod.uid},
        "reportingController": "limit",
        "reportingInstance": "limit",
    })  # fmt: skip


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
