"""Keeps the status of Queue objects up to date: a chore of the scheduler that leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.objects import patch_object
from moorage.engine.engine import Engine
from moorage.views.queuestatus import QueueStatuses
from moorage.views.queuetree import accounts_of

PAUSE_S = 10.0
_RETRY_S = 1.0

log = structlog.get_logger()


async def write_queue_statuses(
    engine: Engine,
    client: KubeClient,
    acting: Callable[[], bool],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Write what has changed every `PAUSE_S`, while `acting` says that this process decides; runs until cancelled."""
    statuses = QueueStatuses(engine.state)
    told = False
    while True:
        await sleep(PAUSE_S)
        if not acting():
            statuses = QueueStatuses(engine.state)  # another process writes meanwhile
            continue
        for command in statuses.plan(accounts_of(engine)):
            done = await patch_object(client, command, lambda _: sleep(_RETRY_S))
            if not done.ok:
                statuses.failed(command.name)
                if not told:
                    log.warning("the status of a queue is not written", queue=command.name, error=done.message)
                told = True
