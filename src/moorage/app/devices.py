"""The devices of a live cluster and who has them, from one look at it; nothing is written."""

from __future__ import annotations

from typing import NamedTuple

from moorage.app.look import Look, look
from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE
from moorage.core.state import ClusterState
from moorage.framework.configuration import Configuration
from moorage.wire.kinds import BY_ID, NODE

DEVICE_OBJECTS = (RESOURCE_SLICE, TAINT_RULE, RESOURCE_CLAIM)
"""What says which devices there are and who has them."""


class DevicesSeen(NamedTuple):
    """A cluster, as far as devices are concerned."""

    source: str
    """What messages call it."""
    state: ClusterState
    warnings: list[str]


def look_at_devices(kubeconfig: str | None) -> DevicesSeen:
    """Nodes, slices, taint rules and claims; LookError if nodes cannot be listed."""

    async def see(found: Look) -> DevicesSeen:
        state = ClusterState()
        for raw in (await found.kind(NODE)).raws:
            node = found.read(NODE, raw)
            if node is not None:
                state.upsert_node(node)
        for kind in map(BY_ID.__getitem__, DEVICE_OBJECTS):
            for raw in (await found.kind(kind)).raws:
                value = found.read(kind, raw)
                if value is not None:
                    state.put_object(kind.id, value.key, value)
        return DevicesSeen(found.server, state, found.warnings)

    return look(see, kubeconfig, Configuration())
