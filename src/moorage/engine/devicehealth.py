"""Devices that pods use and that are not well any more: their driver offers them no more, they were tainted, or of
shared devices an agent or an administrator says on the node that they fail.

Devices are not taken away from running pods, and drivers and administrators say what is wrong on objects that users of
the pod do not look at. So each pod that uses such a device gets an event when it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.core.claims import AllocatedDevice, ResourceClaim
from moorage.core.commands import Command, PodRef, RecordEvent
from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE
from moorage.core.devices import DeviceId, PoolId, ResourceSlice
from moorage.core.nodes import Node
from moorage.core.sharedevices import devices_of
from moorage.core.state import ClusterState
from moorage.core.taints import barring
from moorage.engine.evictor import ref_of

REASON = "DeviceUnhealthy"
HEALTH_KINDS = frozenset({RESOURCE_SLICE, TAINT_RULE})
"""Kinds whose changes may mean that a device is not well."""


class DeviceHealth:
    """Tells of devices in use; `unhealthy` counts how often one was told of."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.unhealthy = 0

    def changed(self, kind: str, before: Any, after: Any, reporter: str, commands: list[Command]) -> None:
        """A slice or a taint rule was changed or removed, or a rule was added."""
        suspected: Callable[[DeviceId], bool]
        if kind == RESOURCE_SLICE and before is not None and (lost := _lost(before, after)):
            suspected = lost.__contains__
        elif kind == TAINT_RULE and after is not None and before != after:
            suspected = after.applies_to
        else:
            return
        for claim, device, problem in self._ailing(suspected):
            self.unhealthy += 1
            note = f"Device {device.id} of claim {claim.key} {problem}"
            pods = (each for each in claim.reserved_for if each.resource == "pods")
            refs = (PodRef(claim.namespace, pod.name, pod.uid) for pod in pods)
            commands += [RecordEvent(ref, "Warning", REASON, "Using", note, reporter) for ref in refs]

    def node_changed(self, before: Node | None, node: Node, reporter: str, commands: list[Command]) -> bool:
        """A node was changed: whether agents say otherwise of its shared devices; those that fail now are told of."""
        shares, row = self._state.shared_devices, self._state.row_of(node.name)
        if before is None or row is None or not shares.followed or before.annotations == node.annotations:
            return False
        was, now = devices_of(before), shares.devices(row)
        for device in sorted(now.failed - was.failed):
            note = f"Device {device} of node {node.name} is not healthy any more"
            users = self._users(row, device)
            self.unhealthy += bool(users)
            commands += [RecordEvent(ref, "Warning", REASON, "Using", note, reporter) for ref in users]
        return was != now

    def _users(self, row: int, device: int) -> list[PodRef]:
        """The pods that have a part of a shared device."""
        shares, found = self._state.shared_devices, []
        for record in self._state.records_on(row):
            hold = shares.held(record.pod.uid)
            if hold is not None and device in hold.devices:
                found.append(ref_of(record.pod))
        return found

    def _ailing(self, suspected: Callable[[DeviceId], bool]) -> Iterator[tuple[ResourceClaim, AllocatedDevice, str]]:
        claims: Mapping[str, ResourceClaim] = self._state.objects.get(RESOURCE_CLAIM, {})
        for claim in claims.values():
            for device in claim.allocation.devices if claim.allocation is not None and claim.reserved_for else ():
                if suspected(device.id) and (problem := self._problem(device)):
                    yield claim, device, problem

    def _problem(self, device: AllocatedDevice) -> str:
        """What is wrong with a device; empty if nothing is, or if its pool is being published."""
        pool = self._state.devices.views.whole(PoolId(device.driver, device.pool))
        if pool is not None and not pool.usable:
            return ""
        found = next((each for each in pool.candidates if each.id == device.id), None) if pool is not None else None
        if found is None:
            return "is not offered by its driver any more"
        for taint in barring(found.taints, device.tolerations):
            value = f"={taint.value}" if taint.value else ""
            return f"has the taint {taint.key}{value}:{taint.effect}, which the claim does not tolerate"
        return ""


def _lost(before: ResourceSlice, after: ResourceSlice | None) -> frozenset[DeviceId]:
    """The devices of a slice that are gone from it, or have other taints."""
    left = {} if after is None else {device.name: device.taints for device in after.devices}
    return frozenset(before.device_id(device) for device in before.devices if left.get(device.name) != device.taints)
