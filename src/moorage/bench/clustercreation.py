"""Many requests at once: how `moorage bench cluster` fills a control plane, and lets pods arrive at a steady rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from moorage.adapters.kube.client import MERGE_PATCH, KubeClient
from moorage.adapters.kube.errors import NotFound
from moorage.bench.clusterload import NAMESPACE, Manifest, nodes

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_WORKERS = 48
_CHURN_PAUSE_S = 0.05
_FIRST_CHURN_NODE = 1_000_000
"""Numbers from here on are nodes that come and go."""

Created = Callable[[], None]


async def create_all(client: KubeClient, items: Iterable[tuple[str, Manifest]], created: Created) -> None:
    """Create every (path, object), many at once; `created` is called after each."""
    left: Iterator[tuple[str, Manifest]] = iter(items)

    async def work() -> None:
        for path, body in left:
            await client.request("POST", path, body=msgspec.json.encode(body))
            created()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_WORKERS):
            tasks.create_task(work())


async def arrive(client: KubeClient, pods: Iterable[Manifest], per_s: float) -> dict[str, float]:
    """Create pods at a steady rate, whether or not the ones before are there; name -> when its request went out."""
    asked_at_s: dict[str, float] = {}

    async def ask(body: Manifest) -> None:
        asked_at_s[body["metadata"]["name"]] = time.monotonic()
        await client.request("POST", PODS, body=msgspec.json.encode(body))

    began_s = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number, body in enumerate(pods):
            await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
            tasks.create_task(ask(body))
    return asked_at_s


async def churn(client: KubeClient) -> None:
    """Until cancelled: add a node, change a label of an older one, remove the oldest of fifty."""
    for number in range(_FIRST_CHURN_NODE, 2 * _FIRST_CHURN_NODE):
        for body in nodes(1, first=number):
            await client.request("POST", NODES, body=msgspec.json.encode(body))
        label = msgspec.json.encode({"metadata": {"labels": {"bench/turn": str(number)}}})
        try:
            if number >= _FIRST_CHURN_NODE + 10:
                path = f"{NODES}/node-{number - 10}"
                await client.request("PATCH", path, body=label, content_type=MERGE_PATCH)
            if number >= _FIRST_CHURN_NODE + 50:
                await client.request("DELETE", f"{NODES}/node-{number - 50}")
        except NotFound:  # pragma: no cover - it is gone already, which is churn too
            pass
        await asyncio.sleep(_CHURN_PAUSE_S)
