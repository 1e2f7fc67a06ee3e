"""The gangs of a live cluster, from one look at it; nothing is written."""

from __future__ import annotations

from typing import NamedTuple

from moorage.app.look import Look, look
from moorage.core.events import PodSeen
from moorage.core.follow import follow
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.topology import LEVEL_KINDS
from moorage.framework.configuration import Configuration
from moorage.views.ganglist import GangLine, gang_lines
from moorage.wire.kinds import BY_ID, NODE


class GangsSeen(NamedTuple):
    """The gangs of a cluster."""

    lines: list[GangLine]
    warnings: list[str]


def look_at_gangs(kubeconfig: str | None, namespace: str | None) -> GangsSeen:
    """Nodes, pods, groups and topologies; LookError if nodes or pods cannot be listed."""

    async def see(found: Look) -> GangsSeen:
        state, waiting = ClusterState(), list[Pod]()
        for kind in (NODE, *(BY_ID[each] for each in sorted(LEVEL_KINDS))):
            for raw in (await found.kind(kind)).raws:
                value = found.read(kind, raw)
                if kind is NODE and value is not None:
                    state.upsert_node(value)
                elif value is not None:
                    state.put_object(kind.id, value.key, value)
        for event in await found.gang_events():
            follow(state, event)
            if isinstance(event, PodSeen) and event.pod.node is None and not event.pod.finished:
                waiting.append(event.pod)
        return GangsSeen(gang_lines(state, waiting, namespace), found.warnings)

    return look(see, kubeconfig, Configuration())
