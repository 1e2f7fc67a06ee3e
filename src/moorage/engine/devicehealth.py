"""Devices that pods use and that are not well any more: their driver offers them no more, or they were tainted.

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
from moorage.core.state import ClusterState
from moorage.core.taints import barring

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
