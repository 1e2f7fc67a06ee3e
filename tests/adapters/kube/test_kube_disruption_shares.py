"""Evictions that hang in one namespace, say behind a slow admission webhook, hold up neither others nor nodes."""

from __future__ import annotations

import asyncio
from typing import Any

from moorage.adapters.kube.disruptions import Disruptions
from moorage.core.commands import EvictPod, PatchNode, PodRef
from moorage.core.events import EvictDone, NodePatched
from moorage.core.frozen import FrozenDict


class HangingClient:
    """Answers at once, but for one namespace never."""

    def __init__(self) -> None:
        self.hanging = 0

    async def request(self, _method: str, path: str, **_: Any) -> bytes:
        if "/namespaces/slow/" in path:
            self.hanging += 1
            await asyncio.Event().wait()
        return b"{}"

    async def patch(self, *_: Any, **__: Any) -> bytes:
        return b"{}"


def eviction(namespace: str, number: int) -> EvictPod:
    return EvictPod(PodRef(namespace, f"p{number}", f"{namespace}-{number}"), "n1", "fallback", None)


def test_evictions_that_hang_hold_up_nobody_else() -> None:
    async def run() -> tuple[int, set[str]]:
        answers: asyncio.Queue[EvictDone | NodePatched] = asyncio.Queue()
        client = HangingClient()
        disruptions = Disruptions(client, answers.put_nowait)  # type: ignore[arg-type]
        for number in range(100):
            disruptions.submit(eviction("slow", number))
        task = asyncio.create_task(disruptions.run())
        await asyncio.sleep(0.01)
        for number in range(40):
            disruptions.submit(eviction("fast", number))
        disruptions.submit(PatchNode("n1", "u", None, FrozenDict()))
        heard: set[str] = set()
        async with asyncio.timeout(5):
            while len(heard) < 41:
                answer = await answers.get()
                heard.add(answer.uid if isinstance(answer, EvictDone) else answer.command.node)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return client.hanging, heard

    hanging, heard = asyncio.run(run())
    assert hanging == 16
    assert heard == {"n1", *(f"fast-{number}" for number in range(40))}
