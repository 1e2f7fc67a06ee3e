"""Binds that a server answers, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from moorage.adapters.kube.binder import Binder
from moorage.core.events import BindDone, DeleteDone, PatchDone, StatusDone

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import Clock, Handler, ScriptedServer, ServerFactory


@asynccontextmanager
async def binding(
    factory: ServerFactory, handler: Handler, clock: Clock, **options: Any
) -> AsyncIterator[tuple[ScriptedServer, Binder, list[BindDone | DeleteDone | PatchDone | StatusDone]]]:
    done: list[BindDone | DeleteDone | PatchDone | StatusDone] = []
    async with factory(handler) as server, server.client() as client:
        options = {"now_s": clock, "sleep": clock.sleep, **options}
        binder = Binder(client, done.append, jitter=lambda: 0.5, **options)
        task = asyncio.ensure_future(binder.run())
        try:
            yield server, binder, done
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
