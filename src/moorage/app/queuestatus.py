"""Keeps the status of Queue objects up to date: a chore of the scheduler that leads.

At most `MOST_WRITES` statuses every `PAUSE_S`. Whether this process leads is asked before every single write, as an
election may be lost between two of them; and a term begins with one look at what the objects say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.intake import resource_of
from moorage.adapters.kube.listing import Lister
from moorage.adapters.kube.objects import patch_object
from moorage.core.queues import QUEUE
from moorage.engine.engine import Engine
from moorage.views.queuestatus import QueueStatuses, Since
from moorage.views.queuetree import accounts_of
from moorage.wire.kinds import BY_ID
from moorage.wire.queuestatus import ready_since

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
    statuses: QueueStatuses | None = None
    told = False
    while True:
        await sleep(PAUSE_S)
        if not acting() or not engine.state.queues.active:
            statuses = None  # another process writes meanwhile
            continue
        if statuses is None:
            statuses = QueueStatuses(engine.state, await _known(client))
        for command in statuses.plan(accounts_of(engine), clock.now_s()):
            if not acting():
                statuses = None
                break
            done = await patch_object(client, command, lambda _: sleep(_RETRY_S))
            if not done.ok:
                statuses.failed(command.name)
                if not told:
                    log.warning("the status of a queue is not written", queue=command.name, error=done.message)
                told = True


async def _known(client: KubeClient) -> dict[str, Since]:
    """What the objects say about their condition Ready; nothing if they cannot be listed."""
    try:
        return ready_since(await Lister(client).everything(client.in_use(resource_of(BY_ID[QUEUE]))))
    except KubeError:
        return {}
