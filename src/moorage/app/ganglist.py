"""The gangs of a live cluster, from one look at it; nothing is written."""

from __future__ import annotations

from typing import NamedTuple

from moorage.app.look import Look, look
from moorage.core.gangs import GROUP_KINDS
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.topology import LEVEL_KINDS
from moorage.framework.configuration import Configuration
from moorage.views.ganglist import GangLine, gang_lines
from moorage.wire.kinds import BY_ID, NODE, pod_kind
from moorage.wire.templates import TemplateTable


class GangsSeen(NamedTuple):
    """The gangs of a cluster."""

    lines: list[GangLine]
    warnings: list[str]


def look_at_gangs(kubeconfig: str | None, namespace: str | None) -> GangsSeen:
    """Nodes, pods, groups and topologies; LookError if nodes or pods cannot be listed."""

    async def see(found: Look) -> GangsSeen:
        state, waiting = ClusterState(), list[Pod]()
        for kind in (NODE, *(BY_ID[each] for each in (*GROUP_KINDS, *sorted(LEVEL_KINDS))), pod_kind(TemplateTable())):
            for raw in (await found.kind(kind)).raws:
                value = found.read(kind, raw)
                if kind is NODE and value is not None:
                    state.upsert_node(value)
                elif isinstance(value, Pod):
                    state.observe_pod(value)
                    if value.node is None and not value.finished:
                        waiting.append(value)
                elif value is not None:
                    state.put_object(kind.id, value.key, value)
        return GangsSeen(gang_lines(state, waiting, namespace), found.warnings)

    return look(see, kubeconfig, Configuration())
