"""The queues of a live cluster, from one look at it; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.adapters import clock
from moorage.adapters.kube.intake import KindIntake
from moorage.app.look import Look, look
from moorage.core.events import Event
from moorage.core.objects import NAMESPACE
from moorage.core.queueaccounts import QueueAccount
from moorage.core.queues import QUEUE_KINDS
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.views.queuetree import accounts_of
from moorage.wire.kinds import BY_ID, NODE, pod_kind
from moorage.wire.templates import TemplateTable


class QueuesSeen(NamedTuple):
    """The queues of a cluster, each before the queues below it."""

    accounts: list[QueueAccount]
    warnings: list[str]


def look_at_queues(
    kubeconfig: str | None, configuration: Configuration | None, profiles: Sequence[Profile], *, answers_to_all: bool
) -> QueuesSeen:
    """What queues have, may have and wait for; LookError if pods or nodes cannot be listed."""

    async def see(found: Look) -> QueuesSeen:
        events: list[Event] = []
        for kind in (NODE, *(BY_ID[each] for each in (NAMESPACE, *QUEUE_KINDS)), pod_kind(TemplateTable())):
            intake = KindIntake(kind, events.append)
            for raw in (await found.kind(kind)).raws:
                value = found.read(kind, raw)
                if value is not None:
                    intake.upserted(value)
        engine = Engine(profiles, answers_to_all=answers_to_all)
        engine.handle(events, clock.now_s(), budget=0)
        return QueuesSeen(accounts_of(engine), found.warnings)

    return look(see, kubeconfig, configuration or Configuration())
